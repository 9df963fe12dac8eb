//! Control flow: which basic blocks a thread entered, and their definitions (docs/format.md, *Control
//! flow*). It is recorded for machines, and for translated programs with `--flow full`.

use memref::VirtAddr;

use crate::{
    Error, StreamKind, Trace,
    bytes::{put_words, u32_at, u64_at},
};

/// The blocks of a trace, by their numbers. Empty where control flow was not recorded; [`BlockEntry::NONE`] is in place of what is
/// damaged.
///
/// # Errors
/// Where the trace can't be read.
pub fn blocks(trace: &Trace) -> Result<Vec<BlockEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(StreamKind::BasicBlocks, None) {
        while let Some(frame) = cursor.next_frame()? {
            all.resize(frame.first_index as usize, BlockEntry::NONE);
            all.extend(frame.bytes.chunks_exact(BlockEntry::BYTES).map(BlockEntry::from_bytes));
        }
    }
    Ok(all)
}

/// A block was entered. Of an execution that was left early the thread's next entry tells: it comes before the block's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// When.
    pub cycle: u64,
    /// The block's number: its place in the stream of blocks.
    pub block: u32,
}

/// A basic block of code, or a part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEntry {
    /// The address of its first instruction.
    pub ip: VirtAddr,
    /// Its instructions.
    pub instructions: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl FlowEntry {
    /// How many bytes it has.
    pub const BYTES: usize = 12;

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.cycle.to_le_bytes());
        bytes[8..].copy_from_slice(&self.block.to_le_bytes());
        bytes
    }

    /// From 12 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { cycle: u64_at(bytes, 0), block: u32_at(bytes, 8) }
    }
}

impl BlockEntry {
    /// How many bytes it has.
    pub const BYTES: usize = 16;
    /// In place of one that can't be read.
    pub const NONE: Self = Self { ip: VirtAddr(0), instructions: 0, bytes: 0 };

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        put_words(&[self.ip.0, u64::from(self.instructions) | u64::from(self.bytes) << 32])
    }

    /// From 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { ip: VirtAddr(u64_at(bytes, 0)), instructions: u32_at(bytes, 8), bytes: u32_at(bytes, 12) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let flow = FlowEntry { cycle: u64::MAX - 1, block: 7 };
        assert_eq!(FlowEntry::from_bytes(&flow.to_bytes()), flow);
        let block = BlockEntry { ip: VirtAddr(u64::MAX - 5), instructions: 3, bytes: 11 };
        assert_eq!(BlockEntry::from_bytes(&block.to_bytes()), block);
    }
}

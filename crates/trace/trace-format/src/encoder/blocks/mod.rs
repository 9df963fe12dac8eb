//! The encoder of accesses that are recorded as executions of basic blocks (docs/format.md, *Encoders*, 8). What a block does
//! is stored once. An execution is a byte that says what was predicted, and columns hold the register values that were not.
//!
//! This encoder does not know where a block is defined. A frame either contains the definitions of its blocks, or names blocks that are
//! defined in separate frames (`names`), which the writer adds and the reader finds for it. A coded frame can be stored either way.
//!
//! A recorder that has blocks passes their executions to a [`BlockFrame`] as it reads them from the buffers of a
//! traced thread. They are coded (`encoding`) into columns (`columns`) at once. No access is built before it is
//! read: [`ExecutionEncoder`] expands executions (`decoding`), or counts their accesses by instruction without
//! building any (`counting`). What a block accesses and how an execution expands is defined in crate `blocks`.
//!
//! Start with `model`, which encoder and decoder share; `codes` has the numbers that both use.

mod codes;
mod columns;
mod counting;
mod decoding;
mod encoding;
mod frame;
mod model;
mod names;
mod spans;
#[cfg(test)]
mod tests;

use memref::Access;

use self::codes::SINGLE_BYTES;
use self::counting::count_all;
use self::decoding::{decode_all, decode_executions, decode_pieces};
pub use self::encoding::{ExpectedBlock, keep_of_frames};
pub use self::frame::{BlockFrame, CodedFrame};
pub(crate) use self::names::{BlockNames, EPOCH_ENTRIES};
use super::attribute::Attribute;
use super::codec::{Corrupt, Encoded, Encoder};
use super::number;
use super::raw::{OTHERS, others, raw_bytes};
use crate::bytes::ByteReader;
use crate::entry::StreamEntry;
use crate::{EntryType, ExecutedFrame, InstructionTable, StreamKind};

/// Accesses, by the blocks that made them.
#[derive(Debug)]
pub(crate) struct ExecutionEncoder;

impl Encoder for ExecutionEncoder {
    fn id(&self) -> u32 {
        number::BLOCKS
    }

    fn name(&self) -> &'static str {
        number::name_of(number::BLOCKS)
    }

    /// Entries have no blocks: each is an access by itself. Those that are no accesses stay as they are.
    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        if !are_accesses(entry_type) {
            return others(entries);
        }
        let mut frame = BlockFrame::default();
        for entry in entries.chunks_exact(SINGLE_BYTES) {
            match Access::get(&mut ByteReader::new(entry)) {
                Some(access) => frame.push_single(&access),
                None => return others(entries),
            }
        }
        frame.finish().parts().to_vec()
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        if let [Attribute { kind: OTHERS, bytes, .. }] = encoded.parts {
            return raw_bytes(encoded, bytes, out);
        }
        let mut accesses = Vec::new();
        self.decode_accesses(encoded, None, &mut accesses)?;
        out.reserve(accesses.len() * SINGLE_BYTES);
        accesses.iter().for_each(|access| access.put(out));
        Ok(())
    }

    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        if !are_accesses(encoded.entry_type) {
            return Err(NO_BLOCKS);
        }
        decode_all(encoded, end.unwrap_or(u64::MAX), out)
    }

    fn decode_executions(&self, encoded: &Encoded<'_>, out: &mut ExecutedFrame) -> Result<(), Corrupt> {
        if !are_accesses(encoded.entry_type) {
            return Err(NO_BLOCKS);
        }
        decode_executions(encoded, out)
    }

    fn each_access(&self, encoded: &Encoded<'_>, act: &mut dyn FnMut(&[Access])) -> Result<(), Corrupt> {
        if !are_accesses(encoded.entry_type) {
            return Err(NO_BLOCKS);
        }
        decode_pieces(encoded, act)
    }

    fn count_instructions(&self, encoded: &Encoded<'_>, out: &mut InstructionTable) -> Result<(), Corrupt> {
        if !are_accesses(encoded.entry_type) {
            return Err(NO_BLOCKS);
        }
        count_all(encoded, out)
    }
}

const NO_BLOCKS: Corrupt = Corrupt("blocks make accesses without data, and no other entries");

fn are_accesses(entry_type: &EntryType) -> bool {
    entry_type.guid == StreamKind::Accesses.guid() && entry_type.entry_bytes as usize == SINGLE_BYTES
}

//! A number of blocks and their total size.

/// How many blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTotal {
    /// Blocks.
    pub blocks: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

impl BlockTotal {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }
}

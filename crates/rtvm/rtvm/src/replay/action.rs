//! Actions of a program on its heap.

/// A block of one address space, as long as it lives.
pub type BlockId = u32;

/// One action. Blocks are known by number, so that both systems can put them where they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new block.
    Malloc {
        /// Its number, which no living block has.
        id: BlockId,
        /// Base-2 logarithm of its alignment; 4 and below are the same.
        align_bits: u8,
        /// Bytes.
        bytes: u64,
    },
    /// A block changes its size; its number stays.
    Realloc {
        /// Which.
        id: BlockId,
        /// Bytes.
        bytes: u64,
    },
    /// A block is released.
    Free {
        /// Which.
        id: BlockId,
    },
    /// A new region that is no block of the heap: what a program maps itself, or its static data.
    Map {
        /// Its number, which no living block has.
        id: BlockId,
        /// Whether it is an allocation of the program's.
        counted: bool,
        /// Bytes.
        bytes: u64,
    },
    /// Such a region ends.
    Unmap {
        /// Which.
        id: BlockId,
    },
    /// An access to a block or region.
    Access {
        /// Which.
        id: BlockId,
        /// Whether it is written.
        store: bool,
        /// Bytes from its start.
        offset: u64,
    },
}

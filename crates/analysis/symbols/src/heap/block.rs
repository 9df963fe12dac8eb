//! One allocated block, its allocation site, and its forged name (Table II).

use memref::{AllocationFunction, AllocationKind, VirtAddr};

/// A block of one process: an index, from 0. The number in forged names is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The number in forged names: the process's allocations are counted from 1.
    pub const fn number(self) -> u32 {
        self.0 + 1
    }
}

/// An allocation site of one process: an index into [`crate::HeapMap::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A call that allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllocationSite {
    /// The call's address.
    pub ip: VirtAddr,
    /// What it does.
    pub kind: AllocationKind,
    /// By which function.
    pub function: AllocationFunction,
}

/// One block, as it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapBlock {
    /// First byte.
    pub start: VirtAddr,
    /// Bytes asked for.
    pub len: u64,
    /// By which call.
    pub site: SiteId,
    /// Bytes after those that are the block's, too: the allocator rounded up.
    pub slack: u32,
}

impl HeapBlock {
    /// Bytes that belong to the block in the map, those included that the allocator added: what `malloc_usable_size` says. A
    /// block of no bytes has an address of its own, so it owns that byte. (A mapping also owns what is left of its last page.)
    pub fn extent(&self) -> u64 {
        self.len.saturating_add(u64::from(self.slack)).max(1)
    }
}

/// Whether the bytes are still the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockState {
    /// They are.
    Live = 0,
    /// They were given back to the allocator.
    Freed = 1,
    /// They were given back to the kernel.
    Unmapped = 2,
}

/// What an address is in dynamic memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHit {
    /// The block that owns the byte, or did until its release.
    pub block: BlockId,
    /// Bytes from the block's start.
    pub offset: u64,
    /// Whether it is live.
    pub state: BlockState,
}

/// What an allocation event did to the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapChange {
    /// A new block.
    Allocated(BlockId),
    /// A new block that took the place of another.
    Replaced {
        /// The block that is gone.
        old: BlockId,
        /// The new one.
        new: BlockId,
    },
    /// A new block, by a realloc of one that was freed already.
    AllocatedForFreed {
        /// The block that was freed.
        freed: BlockId,
        /// The new one.
        new: BlockId,
    },
    /// A block was freed.
    Released(BlockId),
    /// Memory was unmapped.
    Unmapped,
    /// A block was freed that was free already.
    FreedTwice(BlockId),
    /// A free of an address that no known block begins at (allocated before recording started, or not by this
    /// allocator).
    Unknown,
    /// No block is concerned (the end of the heap moved).
    Ignored,
    /// There are too many blocks to number; the event changed nothing.
    Full,
}

/// The forged name of a block (Table II): seven characters for the kind or the release, the number with four digits or
/// more, and the place of the call.
pub(crate) fn forge(kind: AllocationKind, state: BlockState, number: u32, place: &str) -> String {
    let stem = match (state, kind) {
        (BlockState::Freed, _) => "<freed:",
        (BlockState::Unmapped, _) => "<unmap:",
        (BlockState::Live, AllocationKind::Calloc) => "<calloc",
        (BlockState::Live, AllocationKind::Realloc) => "<reallo",
        (BlockState::Live, AllocationKind::Mmap) => "<memmap",
        (BlockState::Live, AllocationKind::Mremap) => "<mremap",
        (BlockState::Live, _) => "<malloc",
    };
    format!("{stem}{number:04}@{place}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: AllocationKind, state: BlockState, number: u32, expect: &str) {
        assert_eq!(forge(kind, state, number, "func1+230"), expect);
    }

    #[test]
    fn names_of_table_ii() {
        use AllocationKind::*;
        check(Malloc, BlockState::Live, 14, "<malloc0014@func1+230>");
        check(Calloc, BlockState::Live, 3, "<calloc0003@func1+230>");
        check(Realloc, BlockState::Live, 5, "<reallo0005@func1+230>");
        check(Mmap, BlockState::Live, 1, "<memmap0001@func1+230>");
        check(Mremap, BlockState::Live, 2, "<mremap0002@func1+230>");
        check(Malloc, BlockState::Freed, 14, "<freed:0014@func1+230>");
        check(Mmap, BlockState::Unmapped, 14, "<unmap:0014@func1+230>");
        check(Malloc, BlockState::Live, 123456, "<malloc123456@func1+230>");
    }
}

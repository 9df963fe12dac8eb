//! Dynamic memory: allocations and releases (MadT, section III-F and Tables I and II).

use crate::{Cycle, Order, VirtAddr, coded::coded};

coded! {
    /// What an allocation event does to the map of live blocks.
    AllocationKind: u8 {
        /// A new block of unspecified content.
        Malloc = 0 "malloc",
        /// A new block of zeros.
        Calloc = 1 "calloc",
        /// A block that replaces `old_addr` (null: none did).
        Realloc = 2 "realloc",
        /// A new mapping.
        Mmap = 3 "mmap",
        /// A mapping that replaces `old_addr` of `old_len` bytes.
        Mremap = 4 "mremap",
        /// A block is released.
        Free = 5 "free",
        /// A mapping, or a part of one, is released.
        Munmap = 6 "munmap",
        /// The end of the heap moved from `old_addr` to `addr`.
        Brk = 7 "brk",
    }
}

impl AllocationKind {
    /// Whether the event makes a block (and so takes a number in forged names).
    pub const fn allocates(self) -> bool {
        matches!(self, Self::Malloc | Self::Calloc | Self::Realloc | Self::Mmap | Self::Mremap)
    }

    /// Whether the event releases a block.
    pub const fn releases(self) -> bool {
        matches!(self, Self::Free | Self::Munmap)
    }
}

coded! {
    /// The call that made an allocation event.
    AllocationFunction: u8 {
        /// malloc
        Malloc = 0 "malloc",
        /// calloc
        Calloc = 1 "calloc",
        /// realloc
        Realloc = 2 "realloc",
        /// reallocarray
        Reallocarray = 3 "reallocarray",
        /// free
        Free = 4 "free",
        /// posix_memalign
        PosixMemalign = 5 "posix_memalign",
        /// aligned_alloc
        AlignedAlloc = 6 "aligned_alloc",
        /// memalign
        Memalign = 7 "memalign",
        /// valloc, pvalloc
        Valloc = 8 "valloc",
        /// operator new
        New = 9 "operator new",
        /// operator new[]
        NewArray = 10 "operator new[]",
        /// operator delete
        Delete = 11 "operator delete",
        /// operator delete[]
        DeleteArray = 12 "operator delete[]",
        /// mmap
        Mmap = 13 "mmap",
        /// mremap
        Mremap = 14 "mremap",
        /// munmap
        Munmap = 15 "munmap",
        /// brk
        Brk = 16 "brk",
        /// shmat
        Shmat = 17 "shmat",
        /// shmdt
        Shmdt = 18 "shmdt",
    }
}

/// One allocation event of one thread. Failed calls are not events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    /// When, on the thread's own clock.
    pub cycle: Cycle,
    /// When, in the session.
    pub order: Order,
    /// The address of the call, as `BlockOp::ip`.
    pub ip: VirtAddr,
    /// What it does.
    pub kind: AllocationKind,
    /// By which call.
    pub function: AllocationFunction,
    /// The block: the new one, or the one that is released.
    pub addr: VirtAddr,
    /// Bytes asked for; for a release of a mapping the bytes released, for free zero.
    pub len: u64,
    /// The block that is replaced (realloc, mremap), or zero.
    pub old_addr: VirtAddr,
    /// Bytes of the mapping that is replaced (mremap), or zero.
    pub old_len: u64,
}

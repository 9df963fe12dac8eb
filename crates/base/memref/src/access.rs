//! Single accesses: what one instruction does to one place in memory.

use crate::{Cycle, VirtAddr, coded::coded};

coded! {
    /// What an access does to its bytes.
    AccessKind: u8 {
        /// Reads them.
        Load = 0 "load",
        /// Writes them.
        Store = 1 "store",
        /// Reads, then writes them: one read-modify-write by one instruction.
        Modify = 2 "modify",
        /// Asks the caches for them and changes nothing.
        Prefetch = 3 "prefetch",
    }
}

impl AccessKind {
    /// Whether the bytes are read.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Load | Self::Modify)
    }

    /// Whether the bytes are written.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Store | Self::Modify)
    }
}

/// One access of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// When, on the thread's own clock.
    pub cycle: Cycle,
    /// The instruction that made the access.
    pub ip: VirtAddr,
    /// The first byte accessed.
    pub addr: VirtAddr,
    /// Bytes accessed, 1 and up.
    pub size: u32,
    /// What was done to them.
    pub kind: AccessKind,
}

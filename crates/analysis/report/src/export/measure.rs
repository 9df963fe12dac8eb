//! The figure that a flame graph or folded stacks show.

use super::TreeCount;

/// One figure of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Accesses: loads, stores and modifies.
    #[default]
    Accesses,
    /// Bytes that these accessed.
    Bytes,
    /// Bytes that were allocated.
    Allocations,
    /// Bytes that were allocated and never released.
    Live,
    /// Instructions, of a machine.
    Instructions,
}

impl Measure {
    /// Takes it.
    pub fn of(self, count: &TreeCount) -> u64 {
        match self {
            Self::Accesses => count.count.accesses(),
            Self::Bytes => count.count.bytes,
            Self::Allocations => count.allocated_bytes,
            Self::Live => count.live_bytes,
            Self::Instructions => count.instructions,
        }
    }

    /// What it counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::Bytes => "bytes accessed",
            Self::Allocations => "bytes allocated",
            Self::Live => "bytes never released",
            Self::Instructions => "instructions",
        }
    }
}

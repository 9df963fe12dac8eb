//! Which accesses count as the same one in races.

use memref::{AccessKind, ThreadId, VirtAddr};

/// An access as the shadow remembers it, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccessSite {
    pub(super) ip: VirtAddr,
    pub(super) thread: ThreadId,
    pub(super) kind: AccessKind,
    pub(super) locks: u32,
    /// The row of calls that it was in.
    pub(super) row: u32,
}

//! Where in a run something was seen first that is reported, so that people find it there.

use memref::{ProcessId, ThreadId, VirtAddr};

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstPlace {
    /// Whose memory it is.
    pub process: ProcessId,
    /// Who accessed it; of a block that nobody released, nobody.
    pub thread: Option<ThreadId>,
    /// When, on that thread's clock, where that is known.
    pub cycle: Option<u64>,
    /// The first byte.
    pub addr: VirtAddr,
}

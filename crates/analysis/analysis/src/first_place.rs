//! Where in a run something was seen first that is reported, so that people find it there.

use memref::{ProcessId, ThreadId, VirtAddr};

use crate::Moment;

/// A place in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstPlace {
    /// Whose memory it is.
    pub process: ProcessId,
    /// Who accessed it, where that is one thread.
    pub thread: Option<ThreadId>,
    /// When, on that thread's clock, where that is known.
    pub cycle: Option<u64>,
    /// The first byte.
    pub addr: VirtAddr,
}

impl FirstPlace {
    /// What a thread does at an address, in a cycle that may not be known.
    pub(crate) fn of(at: &Moment<'_>, cycle: Option<u64>, addr: VirtAddr) -> Self {
        Self { process: at.process, thread: Some(at.thread), cycle, addr }
    }

    /// Memory of a process, whoever accesses it and when.
    pub(crate) fn of_memory(process: ProcessId, addr: VirtAddr) -> Self {
        Self { process, thread: None, cycle: None, addr }
    }
}

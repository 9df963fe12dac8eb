//! A part of a trace that is drawn, counted or searched.

use std::ops::Range;

use memref::{ProcessId, ThreadId};

/// Which part of a trace is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapPart {
    pub(crate) process: ProcessId,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) cycles: Range<u64>,
    pub(crate) addresses: Range<u64>,
}

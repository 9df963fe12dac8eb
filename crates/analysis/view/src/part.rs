//! A part of a trace that is drawn, counted or searched.

use std::ops::Range;

use memref::{ProcessId, ThreadId};

use crate::clock::TimeAxis;

/// Which part of a trace is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapPart {
    pub(crate) process: ProcessId,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) axis: TimeAxis,
    /// From where to where on that axis.
    pub(crate) span: Range<u64>,
    pub(crate) addresses: Range<u64>,
}

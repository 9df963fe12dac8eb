//! A part of a trace that is drawn, counted or searched.

use std::ops::Range;

use memref::{ProcessId, ThreadId};

/// What the axis of time counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum TimeAxis {
    /// Cycles of each thread's own clock.
    #[default]
    Cycles,
    /// Nanoseconds since the first access of the trace.
    Time,
}

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

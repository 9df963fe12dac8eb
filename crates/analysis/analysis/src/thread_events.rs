//! The events of one thread. Accesses are delivered as executions if the tool accepts them.

use std::ops::Range;

use memref::Event;
use trace_format::{Batch, EventCursor, ExecutedFrame, ExecutionBatch, ExecutionCursor};

use crate::Error;

/// Goes through the events of a thread.
#[derive(Debug)]
pub(crate) enum ThreadEvents {
    Accesses(Box<EventCursor>),
    Executions(Box<ExecutionCursor>),
}

impl ThreadEvents {
    /// The next events; `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<ExecutionBatch<'_>>, Error> {
        Ok(match self {
            Self::Executions(cursor) => cursor.next_batch()?,
            Self::Accesses(cursor) => cursor.next_batch()?.map(|batch| match batch {
                Batch::Accesses(accesses) => ExecutionBatch::Accesses(accesses),
                Batch::Event(event) => ExecutionBatch::Event(event),
            }),
        })
    }
}

/// How many accesses that is, about: for showing progress.
pub(crate) fn accesses_in(batch: &ExecutionBatch<'_>) -> u64 {
    match batch {
        ExecutionBatch::Accesses(accesses) => accesses.len() as u64,
        ExecutionBatch::Event(Event::Access(_)) => 1,
        ExecutionBatch::Event(_) => 0,
        ExecutionBatch::Executions(frame, part) => accesses_of(frame, part),
    }
}

/// How many accesses a part of a frame's executions makes, about: as many as those around them.
pub(crate) fn accesses_of(frame: &ExecutedFrame, part: &Range<usize>) -> u64 {
    let share = frame.accesses() as f64 / frame.len().max(1) as f64;
    (share * part.len() as f64).round() as u64
}

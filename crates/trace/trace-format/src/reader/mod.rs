//! Reading a trace. [`Trace`] knows every frame from the directories (or, where the recorder was
//! killed, from a scan) and decodes one only when a cursor reaches it. Memory is bounded by the longest
//! segment times the open cursors. This file only re-exports names; start reading in `trace.rs`.

mod ahead;
mod check;
mod content;
mod counts;
mod cursor;
mod damage;
mod definitions;
mod events;
mod executions;
mod file;
mod filter;
#[cfg(test)]
mod large;
mod limits;
mod live;
mod merged;
mod raw;
mod session;
mod shard;
mod stream;
mod trace;
mod typed;
mod values;

pub use check::{Finding, Report};
pub use counts::ThreadAccesses;
pub use cursor::{AccessCursor, AccessFrame};
pub use damage::Damage;
pub use events::{Batch, EventCursor};
pub use executions::{ExecutionBatch, ExecutionCursor};
pub use filter::Filter;
pub use limits::Limits;
pub use raw::{EntryFilter, SegmentInfo, StreamReader};
pub use shard::Shard;
pub use trace::{StreamInfo, Trace};
pub use typed::{TypedCursor, TypedFrame};
pub use values::{DataCursor, ValueCursor};

pub(crate) use file::FrameError;
pub(crate) use session::all;
pub(crate) use stream::Stream;
pub(crate) use trace::TraceData;

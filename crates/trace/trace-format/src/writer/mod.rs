//! Writing a trace.
//!
//! [`TraceWriter`] is shared by all threads of a recorder; each traced thread's events go through a [`ShardWriter`].
//! Full segments go to a [`SegmentSink`]. That of a file encodes them in the thread that filled them and appends
//! them under one lock (`log.rs`), which also decides what remains after a failed write. Locks are taken in the
//! order shard, session, definitions, log. This file only re-exports names; start reading in `trace_writer.rs`.

mod definitions;
mod file_sink;
mod finished;
mod lock;
mod log;
mod names;
mod options;
mod segment;
mod session;
mod shard;
mod sink;
mod trace_writer;
mod typed;
mod writer_core;

pub use definitions::{DefinitionWriter, NamedBlocks};
pub use file_sink::FileSink;
pub use finished::FinishedFrame;
pub use options::{CreateOptions, SyncPolicy};
pub use shard::{BlockWriter, ShardWriter};
pub use sink::{NewSegment, SegmentContent, SegmentSink};
pub use trace_writer::TraceWriter;
pub use typed::TypedWriter;

//! The trace file: what a recorder writes while a program runs, and what every analysis reads.
//!
//! The bytes are specified in docs/format.md. The organisation follows Simutrace, sections 2.2 to 3.2: streams of one
//! entry type, cut into segments that are encoded independently and appended as checksummed frames, and directories that
//! repeat the frame headers. A file is only ever appended to, so everything written before a crash is readable after it.
//!
//! Writing starts with [`TraceWriter`], reading with [`Trace`]. Both work *shard* by shard: a shard is one
//! thread's ordered events. The crate deliberately knows nothing of tracers, sockets, symbols or reports.
//!
//! ```
//! use memref::{Access, AccessKind, VirtAddr};
//! use trace_format::{CreateOptions, Filter, ProcessRecord, ThreadRecord, Trace, TraceWriter};
//!
//! # fn main() -> Result<(), trace_format::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let path = dir.path().join("run.memtap");
//! let writer = TraceWriter::create(&path, CreateOptions::default())?;
//! let process = writer.add_process(&ProcessRecord { pid: 42, exe: "/bin/true".into(), ..Default::default() })?;
//! let thread = writer.add_thread(&ThreadRecord { process, tid: 42, ..Default::default() })?;
//! let access = Access { cycle: 1, ip: VirtAddr(0x1000), addr: VirtAddr(0x8000), size: 8, kind: AccessKind::Load };
//! writer.shard(thread)?.push_accesses(&[access])?;
//! writer.finish()?;
//!
//! let trace = Trace::open(&path)?;
//! let mut cursor = trace.shard(thread).accesses(&Filter::default());
//! assert_eq!(cursor.next_block()?, Some(&[access][..]));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

/// The example that the README has is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access_counts;
mod bounds;
mod bytes;
pub mod control_flow;
mod directory;
mod edit;
mod encoder;
mod end_reason;
mod entry;
mod entry_type;
mod error;
mod executed;
mod file_header;
mod forms;
mod frame;
mod frames_begin;
mod guid;
mod in_order;
mod index;
mod instruction_counts;
mod instruction_table;
mod kinds;
pub mod machine;
mod reader;
mod record;
mod simtrace;
mod storage;
mod stream;
mod stream_kind;
pub mod var;
mod writer;

pub use access_counts::AccessCounts;
pub use bounds::{Bounds, Interval};
pub use edit::{CopyOptions, CopyReport, copy, merge, repair};
pub use encoder::{
    Attribute, BlockFrame, CodedFrame, Coding, Corrupt, Encoded, Encoder, Encoders, ExpectedBlock, Level,
    keep_of_frames,
};
pub use end_reason::EndReason;
pub use entry::gap_entry;
pub use entry_type::{EntryType, Field, FieldRole};
pub use error::Error;
pub use executed::{ExecutedFrame, ExecutedItem};
pub use forms::Form;
pub use frames_begin::{FRAMES_BEGIN, WITH_ACCESSES};
pub use guid::Guid;
pub use index::{BuildStep, NoIndex, PageCell, PageIndex, PageTotal};
pub use instruction_table::{InstructionCount, InstructionTable};
pub use kinds::KindSet;
pub use reader::{
    AccessCursor, AccessFrame, Batch, Damage, DataCursor, EntryFilter, EventCursor, ExecutionBatch,
    ExecutionCursor, Filter, Finding, Limits, Report, SegmentInfo, Shard, StreamInfo, StreamReader,
    ThreadAccesses, Trace, TypedCursor, TypedFrame, ValueCursor,
};
pub use record::{
    COUNTER_DEATH, COUNTER_GAP_CAUSE, COUNTER_SLOW_PATH, COUNTER_UNTRACED_PROGRAM, COUNTER_WORK,
    CounterRecord, DataAccess, DataValue, ModuleRecord, ProcessRecord, ThreadRecord,
};
pub use simtrace::{SimEntry, SimStore, SimStream};
pub use storage::{FileStorage, Storage, TraceSource};
pub use stream::StreamDescription;
pub use stream_kind::StreamKind;
pub use writer::{
    BlockWriter, CreateOptions, DefinitionWriter, FileSink, FinishedFrame, NamedBlocks, NewSegment,
    SegmentContent, SegmentSink, ShardWriter, SyncPolicy, TraceWriter, TypedWriter,
};

/// The version of the format that this crate writes (docs/format.md).
pub const FORMAT_VERSION: u16 = 5;
/// Threads of a trace at most: readers have tables by their numbers, which a file of a few bytes could make any size.
pub const MAX_THREADS: u32 = 1 << 20;
/// The most entries that one frame holds.
pub const MAX_FRAME_ENTRIES: usize = 1 << 22;

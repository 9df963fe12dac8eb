//! Errors: each is one line that says what failed, where, and what to do.

use std::{io, path::PathBuf};

use memref::{Cycle, ThreadId};

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file to be created is there already.
    #[error("{path}: already exists; choose another name or overwrite it with --force")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{path}: cannot {operation} at offset {offset}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: a verb.
        operation: &'static str,
        /// Where in the file.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{path}: not a memtap trace (its first bytes are not those of one)")]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// The file is a trace, but of a version that this reader cannot read.
    #[error(
        "{path}: written in version {version} of the trace format, this memtap reads up to {supported}; use a newer one"
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
        /// The highest version that is understood.
        supported: u16,
    },
    /// The file ends inside its header.
    #[error("{path}: truncated: {len} bytes are less than a trace's header; nothing can be recovered")]
    TruncatedHeader {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        len: u64,
    },
    /// The file header does not fit its checksum, and no frame was found that could replace it.
    #[error("{path}: the file header (offset 0) is damaged and no frame follows; nothing can be recovered")]
    DamagedHeader {
        /// The file.
        path: PathBuf,
    },
    /// The trace was finished; nothing can be added.
    #[error("{path}: the trace is finished; nothing can be added")]
    Finished {
        /// The file.
        path: PathBuf,
    },
    /// The thread was not announced by `add_thread`.
    #[error("{path}: thread {} was not added to the trace", thread.0)]
    UnknownThread {
        /// The file.
        path: PathBuf,
        /// The thread.
        thread: ThreadId,
    },
    /// Nothing can be added to a trace.
    #[error("{path}: nothing can be added: {what}")]
    NotAppendable {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        what: &'static str,
    },
    /// A file of another program is not what it should be.
    #[error("{path}: offset {offset}: {what}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// An access came with bytes, but the trace has no place for them.
    #[error("{path}: the trace was created without data; create it with the option data")]
    WithoutData {
        /// The file.
        path: PathBuf,
    },
    /// An event is older than the one before it.
    #[error("{path}: thread {}: cycle {cycle} after cycle {last}; the events of a thread must come in order", thread.0)]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// The thread.
        thread: ThreadId,
        /// The cycle of the refused event.
        cycle: Cycle,
        /// The cycle of the event before.
        last: Cycle,
    },
    /// A stream names an encoder that this reader does not have.
    #[error(
        "{path}: stream {stream} was encoded by encoder {encoder}, which this memtap does not have; use a newer one"
    )]
    UnknownEncoder {
        /// The file.
        path: PathBuf,
        /// The stream.
        stream: u32,
        /// The encoder's number.
        encoder: u32,
    },
    /// A stream names an encoder that earlier versions had.
    #[error(
        "{path}: stream {stream} was encoded by encoder {encoder}, {name}, which was given up and is not supported any more; copy the trace without this stream"
    )]
    RetiredEncoder {
        /// The file.
        path: PathBuf,
        /// The stream.
        stream: u32,
        /// The encoder's number.
        encoder: u32,
        /// What it was called.
        name: &'static str,
    },
    /// The number of something exceeds what the format can count.
    #[error("{path}: too many {what} for one trace; record into several files")]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What.
        what: &'static str,
    },
    /// The index of a trace can't be used, though it was just written.
    #[error("{path}: {what}; delete it and build it again with memtap index")]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A server that keeps the trace refused, or is gone.
    #[error("{path}: {what}")]
    Remote {
        /// The trace.
        path: PathBuf,
        /// What happened, in one line.
        what: String,
    },
}

//! The client side: the same calls work for a server on this machine, on another one, and in this process.
//!
//! ```
//! use trace_server::{Client, Engine, EntryStream, EngineOptions, TraceOptions};
//! use trace_format::{EntryType, Filter};
//!
//! # fn main() -> Result<(), trace_server::Error> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! let engine = Engine::start(EngineOptions { root: Some(dir.path().into()), ..EngineOptions::default() })?;
//! let client = Client::embedded(&engine);
//! client.create_session("example")?;
//! client.create_trace("run.memtap", &TraceOptions::default())?;
//! let stream = client.add_stream(&EntryStream::new("accesses", EntryType::accesses()))?;
//! let mut writer = client.writer(stream)?;
//! writer.push(&[0; 32])?;
//! writer.close()?;
//! client.flush(false)?;
//! let mut reader = client.reader(stream, &Filter::default())?;
//! assert_eq!(reader.read(0, 10)?.entries().len(), 1);
//! client.close_trace()?;
//! # Ok(())
//! # }
//! ```

mod connection;
mod cursor;
mod data;
mod file;
mod frames;
mod multiplexer;
mod reader;
mod remote_error;
mod shared;
mod sink;
mod socket;
mod writer;

use std::sync::Arc;

use trace_format::{CodedFrame, EntryType, Filter, Guid, StreamDescription};

use crate::wire::{By, OpenMode, Reply, Request, SessionInfo, StoredFile, StreamStatistics};
use crate::{Address, Engine, Error, TraceOptions};
use connection::Connection;

pub use cursor::{Entry, EntryCursor};
pub use data::{DataReader, DataWriter};
pub use file::ServerFile;
pub use multiplexer::{MergedEntry, Multiplexer};
pub use reader::{Batch, EntryReader};
pub use shared::SharedWriter;
pub use sink::RemoteSink;
pub use writer::EntryWriter;

/// Bytes of a writer's buffer, and how many there are, unless told: small enough to stay in the cache, and so few hand-overs
/// that they cost nothing.
const BUFFER_BYTES: u32 = 256 << 10;
const BUFFERS: u32 = 4;
/// Bytes of a reader's buffer.
const READ_BYTES: u32 = 1 << 20;

/// Makes descriptions of streams.
#[derive(Clone, Copy, Debug)]
pub struct EntryStream;

impl EntryStream {
    /// A stream of the session, with the type's own encoder.
    #[expect(clippy::new_ret_no_self, reason = "a description is what the server wants")]
    pub fn new(name: &str, entry_type: EntryType) -> StreamDescription {
        StreamDescription {
            name: name.into(),
            entry_type,
            encoder: u32::MAX,
            variable: false,
            hidden: false,
            process: None,
            thread: None,
            properties: Vec::new(),
        }
    }

    /// A stream of data of any length, of the type of that GUID.
    pub fn of_data(name: &str, guid: Guid) -> StreamDescription {
        let entry_bytes = trace_format::var::BLOCK_BYTES as u32;
        let blocks = EntryType { guid, name: name.into(), entry_bytes, fields: Vec::new() };
        StreamDescription { variable: true, ..Self::new(name, blocks) }
    }
}

/// A channel to a server. Each thread that works much has one of its own; clones share one. It leaves its session when the
/// last clone, writer and reader is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Arc<Connection>,
}

impl Client {
    /// Connects to a server. `token` is needed for TCP alone.
    pub fn connect(address: &Address, token: Option<&str>) -> Result<Self, Error> {
        Ok(Self { connection: Arc::new(Connection::open(address, token)?) })
    }

    /// A channel to a server in this process.
    pub fn embedded(engine: &Engine) -> Self {
        Self { connection: Arc::new(Connection::embedded(engine)) }
    }

    /// Whether the server ends with this process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.connection.is_embedded()
    }

    pub(crate) fn add_coded(&self, stream: u32, frame: Arc<CodedFrame>, wall_ns: u64) -> Result<(), Error> {
        self.connection.add_coded(stream, frame, wall_ns)
    }

    /// Has the server keep this channel's session, and all that is under way, where the connection is cut: for so many seconds, or
    /// fewer, which are returned. The client connects again by itself meanwhile, and `tell` is told so. On Unix sockets there is nothing to cut.
    pub fn keep(&self, seconds: u32, tell: fn(&str)) -> Result<u32, Error> {
        self.connection.keep(seconds, tell)
    }

    /// Hands over a frame (docs/format.md, *Frame*), without waiting for the answer. [`Self::flush`] says whether all were taken.
    pub(crate) fn add_frame(&self, frame: &[u8]) -> Result<(), Error> {
        self.connection.add_frame(frame)
    }

    /// Announces a stream that will get this number, without waiting for the answer, as with frames.
    pub(crate) fn expect_stream(&self, description: &StreamDescription, number: u32) -> Result<(), Error> {
        self.connection.expect_stream(description, number)
    }

    fn call(&self, request: &Request) -> Result<Reply, Error> {
        self.connection.call(request).map(|(reply, _)| reply)
    }

    fn done(&self, request: &Request) -> Result<(), Error> {
        match self.call(request)? {
            Reply::Done { .. } => Ok(()),
            _ => Err(self.connection.strange()),
        }
    }

    /// Creates a session and enters it. Others join it by its number.
    pub fn create_session(&self, name: &str) -> Result<u64, Error> {
        match self.call(&Request::CreateSession { name: name.into() })? {
            Reply::Session { session } => Ok(session),
            _ => Err(self.connection.strange()),
        }
    }

    /// Enters a session that is there.
    pub fn open_session(&self, session: u64) -> Result<(), Error> {
        self.done(&Request::OpenSession { session })
    }

    /// Leaves the session. With the last channel its trace is closed.
    pub fn leave_session(&self) -> Result<(), Error> {
        self.done(&Request::LeaveSession)
    }

    /// Ends a session for those who are in it; its trace is closed. The token must be one to administrate.
    ///
    /// # Errors
    /// Where the server refuses, or its trace could not be completed.
    pub fn end_session(&self, session: u64) -> Result<(), Error> {
        self.done(&Request::EndSession { session })
    }

    /// The sessions of the server.
    pub fn sessions(&self) -> Result<Vec<SessionInfo>, Error> {
        match self.call(&Request::ListSessions)? {
            Reply::Sessions { sessions } => Ok(sessions),
            _ => Err(self.connection.strange()),
        }
    }

    /// Creates the session's trace. The specifier is `format:path`, or a path.
    pub fn create_trace(&self, specifier: &str, options: &TraceOptions) -> Result<(), Error> {
        let TraceOptions { replace, sync, segment_entries } = *options;
        self.done(&Request::CreateTrace { specifier: specifier.into(), replace, sync, segment_entries })
    }

    /// Opens a trace that is there, also one that is still being written.
    pub fn open_trace(&self, specifier: &str, mode: OpenMode) -> Result<(), Error> {
        self.done(&Request::OpenTrace { specifier: specifier.into(), mode })
    }

    /// How long a file of the session's trace is, and bytes of it from an offset on: at most so many, and as many as a message holds.
    pub(crate) fn read_file(
        &self,
        file: StoredFile,
        offset: u64,
        most: u32,
    ) -> Result<(u64, Vec<u8>), Error> {
        match self.call(&Request::ReadFile { file, offset, most })? {
            Reply::File { file_bytes, bytes } => Ok((file_bytes, bytes)),
            _ => Err(self.connection.strange()),
        }
    }

    /// Closes the session's trace; returns the bytes of its file.
    pub fn close_trace(&self) -> Result<u64, Error> {
        match self.call(&Request::CloseTrace)? {
            Reply::Closed { file_bytes } => Ok(file_bytes),
            _ => Err(self.connection.strange()),
        }
    }

    /// Says something about the trace.
    pub fn add_property(&self, key: &str, value: &str) -> Result<(), Error> {
        self.done(&Request::AddProperty { key: key.into(), value: value.into() })
    }

    /// Announces a stream; returns its number.
    pub fn add_stream(&self, description: &StreamDescription) -> Result<u32, Error> {
        match self.call(&Request::AddStream { description: description.clone() })? {
            Reply::Stream { stream } => Ok(stream),
            _ => Err(self.connection.strange()),
        }
    }

    /// The trace's streams, as far as they are in the file.
    pub fn streams(&self) -> Result<Vec<StreamStatistics>, Error> {
        match self.call(&Request::ListStreams)? {
            Reply::Streams { streams } => Ok(streams),
            _ => Err(self.connection.strange()),
        }
    }

    /// A writer of one stream for one thread.
    pub fn writer(&self, stream: u32) -> Result<EntryWriter, Error> {
        self.writer_with(stream, BUFFER_BYTES, BUFFERS)
    }

    /// As [`Self::writer`], with other buffers. The server may give less.
    pub fn writer_with(&self, stream: u32, buffer_bytes: u32, buffers: u32) -> Result<EntryWriter, Error> {
        EntryWriter::open(&self.connection, stream, buffer_bytes, buffers)
    }

    /// A writer of one stream for several threads at once.
    pub fn shared_writer(&self, stream: u32) -> Result<SharedWriter, Error> {
        Ok(SharedWriter::new(self.writer(stream)?))
    }

    /// The writer of a stream of data of any length.
    pub fn data_writer(&self, stream: u32) -> Result<DataWriter, Error> {
        DataWriter::open(self, stream)
    }

    /// Returns when all that was submitted is in the file, and with `sync` on the disk. Where memory is shared, that includes
    /// what this channel's writers have not submitted.
    pub fn flush(&self, sync: bool) -> Result<(), Error> {
        self.done(&Request::Flush { sync })
    }

    /// As [`Self::flush`], but returns when all is in the file that was submitted before a flush of a second ago: a recording
    /// that is written every second, and more often at first, need not wait for a round trip each time.
    pub(crate) fn flush_behind(&self) -> Result<(), Error> {
        self.connection.flush_behind()
    }

    /// Reads a stream: the entries that match.
    pub fn reader(&self, stream: u32, filter: &Filter) -> Result<EntryReader, Error> {
        EntryReader::open(&self.connection, stream, READ_BYTES, filter)
    }

    /// Reads data of any length by their references.
    pub fn data_reader(&self, stream: u32) -> Result<DataReader, Error> {
        Ok(DataReader::new(self.reader(stream, &Filter::default())?))
    }

    /// Goes through the entries of a stream that match.
    pub fn cursor(&self, stream: u32, filter: &Filter) -> Result<EntryCursor, Error> {
        Ok(EntryCursor::new(self.clone(), stream, self.reader(stream, filter)?))
    }

    /// Goes through the matching entries of several streams: by their growing field of that name, or by their indices.
    pub fn multiplexer(
        &self,
        streams: &[u32],
        field: Option<&str>,
        filter: &Filter,
    ) -> Result<Multiplexer, Error> {
        Multiplexer::open(self, streams, field, filter)
    }

    /// The index of the first entry at or after a position.
    pub fn seek(&self, stream: u32, by: By, value: u64) -> Result<u64, Error> {
        match self.call(&Request::Seek { stream, by, value })? {
            Reply::Index { index } => Ok(index),
            _ => Err(self.connection.strange()),
        }
    }
}

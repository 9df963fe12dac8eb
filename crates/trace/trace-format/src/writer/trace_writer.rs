//! A trace that is being written, as its recorder sees it: the data of the session, and access to each thread's writer.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use memref::{ProcessId, RegionEvent, ThreadId};

use super::{
    file_sink::FileSink,
    lock::lock,
    options::{CreateOptions, SyncPolicy},
    session::SessionTables,
    shard::{ShardState, ShardWriter},
    sink::SegmentSink,
    typed::TypedWriter,
    writer_core::WriterCore,
};
use crate::{
    CounterRecord, Error, ModuleRecord, ProcessRecord, Storage, StreamDescription, StreamKind, ThreadRecord,
    Trace,
};

/// A trace that is being written. Cheap to clone; all clones write the same trace.
#[derive(Clone, Debug)]
pub struct TraceWriter {
    core: Arc<WriterCore>,
}

impl TraceWriter {
    /// Creates the file. One that is there already is kept unless `options.force` is set, and then replaced.
    pub fn create(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self, Error> {
        let sink = FileSink::create(path.as_ref(), options.clone())?;
        Ok(Self::on_sink(Arc::new(sink), options))
    }

    /// Writes the trace to an empty storage; `path` is what errors call it.
    pub fn create_on(
        storage: Box<dyn Storage>,
        path: impl AsRef<Path>,
        options: CreateOptions,
    ) -> Result<Self, Error> {
        let sink = FileSink::create_on(storage, path.as_ref(), options.clone())?;
        Ok(Self::on_sink(Arc::new(sink), options))
    }

    /// Writes the trace into a sink that has no stream yet. Of the options, those that concern the file are the sink's.
    pub fn on_sink(sink: Arc<dyn SegmentSink>, options: CreateOptions) -> Self {
        let session = Mutex::new(SessionTables::new(options.clock));
        Self {
            core: Arc::new(WriterCore {
                options,
                sink,
                session,
                shards: Mutex::default(),
                closing: AtomicBool::new(false),
                before: None,
            }),
        }
    }

    /// Adds to a closed trace: processes, threads, and events of old and new threads. Until it is closed again, what was added
    /// and flushed is found by scanning, as in any trace that is not closed. `options.data` must be as it was.
    pub fn append(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self, Error> {
        let trace = Trace::open(path.as_ref())?;
        let accesses = [Some(StreamKind::Accesses), Some(StreamKind::DataAccesses)];
        if trace.inner().streams.values().any(|stream| accesses.contains(&stream.kind))
            && trace.has_data() != options.data
        {
            let what = "its accesses and the new ones are not both with data";
            return Err(Error::NotAppendable { path: path.as_ref().into(), what });
        }
        let sink = Arc::new(FileSink::append(&trace, options.clone())?);
        let session = Mutex::new(SessionTables::resume(options.clock, &trace)?);
        Ok(Self {
            core: Arc::new(WriterCore {
                options,
                sink,
                session,
                shards: Mutex::default(),
                closing: AtomicBool::new(false),
                before: Some(trace),
            }),
        })
    }

    /// Whether accesses are kept by the blocks that made them ([`ShardWriter::blocks`]).
    pub fn keeps_blocks(&self) -> bool {
        self.core.before.is_none() && ShardState::keeps_blocks(&self.core)
    }

    /// Says something about the session. The last value of a key holds.
    pub fn set_property(&self, key: &str, value: &str) -> Result<(), Error> {
        self.session(|session| session.set_property(key, value))
    }

    /// Announces a process; its number is given here.
    pub fn add_process(&self, record: &ProcessRecord) -> Result<ProcessId, Error> {
        self.session(|session| session.add_process(record))?.ok_or_else(|| self.too_many("processes"))
    }

    /// Says that a process ended: when (ns since the Unix epoch), and with what status if that is known.
    pub fn end_process(
        &self,
        process: ProcessId,
        end_ns: u64,
        exit_status: Option<i32>,
    ) -> Result<(), Error> {
        self.session(|session| session.end_process(process, end_ns, exit_status))
    }

    /// Replaces what is known of a process (an exec changes its program).
    pub fn update_process(&self, record: &ProcessRecord) -> Result<(), Error> {
        self.session(|session| session.update_process(record))
    }

    /// Announces a thread; its number is given here.
    pub fn add_thread(&self, record: &ThreadRecord) -> Result<ThreadId, Error> {
        self.session(|session| session.add_thread(record))?.ok_or_else(|| self.too_many("threads"))
    }

    /// Says that a thread ended (ns since the Unix epoch).
    pub fn end_thread(&self, thread: ThreadId, end_ns: u64) -> Result<(), Error> {
        self.session(|session| session.end_thread(thread, end_ns))
    }

    /// Adds a change of a process's mappings. They may come in any order; readers sort them.
    pub fn add_region(&self, event: &RegionEvent<impl AsRef<str>>) -> Result<(), Error> {
        self.session(|session| session.add_region(event))
    }

    /// Adds a program or library that a process loaded.
    pub fn add_module(&self, record: &ModuleRecord) -> Result<(), Error> {
        self.session(|session| session.add_module(record))
    }

    /// Adds to a count; readers sum up.
    pub fn add_counter(&self, record: &CounterRecord) -> Result<(), Error> {
        self.session(|session| session.add_counter(record))
    }

    /// The writer of a thread's events. All writers of one thread are one: they share its buffers.
    pub fn shard(&self, thread: ThreadId) -> Result<ShardWriter, Error> {
        ShardWriter::open(&self.core, thread)
    }

    /// A new stream, which appears in the file with its first entries. `segment_entries` are coded together. The
    /// description's encoder must be one of those of the trace; others are replaced by the one that stores entries as they
    /// are.
    pub fn typed(&self, description: StreamDescription, segment_entries: usize) -> TypedWriter {
        TypedWriter::new(&self.core, description, segment_entries)
    }

    /// Writes everything that is buffered, of the session and of all shards, as frames. What was flushed survives the
    /// recorder's death. To be called about once a second.
    pub fn flush(&self) -> Result<(), Error> {
        let mut result = self.core.flush_session();
        let shards: Vec<_> = lock(&self.core.shards).values().cloned().collect();
        for shard in shards {
            result = result.and(lock(&shard).flush(&self.core));
        }
        result.and(self.core.sink.flush()).and(self.core.sync_flushed())
    }

    /// Flushes, and closes the trace: directories, end, fsync as the options say. Nothing can be added afterwards.
    ///
    /// Events that cannot be written even now become gaps. Where not even those can be written, the trace stays open: a
    /// clone can try again. A trace that is never closed loses nothing that was flushed.
    pub fn finish(self) -> Result<(), Error> {
        if self.core.closing.swap(true, Ordering::AcqRel) {
            return Err(Error::Finished { path: self.core.sink.path().into() });
        }
        let closed = self.close();
        if !self.core.sink.is_finished() {
            self.core.closing.store(false, Ordering::Release);
        }
        closed
    }

    fn close(&self) -> Result<(), Error> {
        let flushed = self.flush();
        if flushed.is_err() && self.flush().is_err() {
            return flushed;
        }
        let closed = self.core.sink.finish(self.core.options.sync != SyncPolicy::Never);
        flushed.and(closed)
    }

    fn session<T>(&self, act: impl FnOnce(&mut SessionTables) -> T) -> Result<T, Error> {
        let mut session = lock(&self.core.session);
        self.core.check_open()?;
        let value = act(&mut session);
        session.flush_if_full(&*self.core.sink, &self.core.options)?;
        Ok(value)
    }

    fn too_many(&self, what: &'static str) -> Error {
        Error::TooMany { path: self.core.sink.path().into(), what }
    }
}

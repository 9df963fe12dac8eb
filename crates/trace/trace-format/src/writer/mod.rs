//! Writing a trace.
//!
//! [`TraceWriter`] is shared by all threads of a recorder; each traced thread's events go through a [`ShardWriter`]. Full
//! segments go to a [`SegmentSink`]: a file's encodes them in the thread that filled them and appends them under one lock (`log.rs`), which also decides
//! what a failed write leaves behind. Locks are taken in the order shard, session, log.

mod log;
mod names;
mod options;
mod segment;
mod session;
mod shard;
mod sink;
mod typed;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use memref::{ProcessId, RegionEvent, ThreadId};

pub use options::{CreateOptions, SyncPolicy};
pub use shard::{BlockWriter, ShardWriter};
pub use sink::{Content, FileSink, NewSegment, SegmentSink};
pub use typed::TypedWriter;

use crate::{CounterRecord, Error, ModuleRecord, ProcessRecord, Storage, StreamKind, ThreadRecord, Trace};
use session::Session;
use shard::ShardState;

/// A poisoned lock means that a writer panicked between two consistent states; what it guards is still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all writers of a trace share.
#[derive(Debug)]
pub(crate) struct Shared {
    options: CreateOptions,
    sink: Arc<dyn SegmentSink>,
    session: Mutex<Session>,
    shards: Mutex<BTreeMap<ThreadId, Arc<Mutex<ShardState>>>>,
    /// Set before the last flush. Whoever adds something tests it under the lock that this flush takes, so nothing is added
    /// that it misses.
    closing: AtomicBool,
    /// The trace that is added to.
    before: Option<Trace>,
}

impl Shared {
    /// Fails once the trace is being finished. The caller holds the lock of what it adds to.
    fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Finished { path: self.sink.path().into() });
        }
        Ok(())
    }

    /// Forces what was flushed to disk, if the options say so.
    fn sync_flushed(&self) -> Result<(), Error> {
        if self.options.sync == SyncPolicy::EachFlush { self.sink.sync() } else { Ok(()) }
    }

    /// Writes what the session's streams buffer: what events of shards may refer to.
    fn flush_session(&self) -> Result<(), Error> {
        lock(&self.session).flush(&*self.sink, &self.options)
    }
}

/// A trace that is being written. Cheap to clone; all clones write the same trace.
#[derive(Clone, Debug)]
pub struct TraceWriter {
    shared: Arc<Shared>,
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
        let session = Mutex::new(Session::new(options.clock));
        Self {
            shared: Arc::new(Shared {
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
        let session = Mutex::new(Session::resume(options.clock, &trace)?);
        Ok(Self {
            shared: Arc::new(Shared {
                options,
                sink,
                session,
                shards: Mutex::default(),
                closing: AtomicBool::new(false),
                before: Some(trace),
            }),
        })
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
        ShardWriter::open(&self.shared, thread)
    }

    /// Writes everything that is buffered, of the session and of all shards, as frames. What was flushed survives the
    /// recorder's death. To be called about once a second.
    pub fn flush(&self) -> Result<(), Error> {
        let mut result = self.shared.flush_session();
        let shards: Vec<_> = lock(&self.shared.shards).values().cloned().collect();
        for shard in shards {
            result = result.and(lock(&shard).flush(&self.shared));
        }
        result.and(self.shared.sink.flush()).and(self.shared.sync_flushed())
    }

    /// Flushes, and closes the trace: directories, end, fsync as the options say. Nothing can be added afterwards.
    ///
    /// Events that cannot be written even now become gaps. Where not even those can be written, the trace stays open: a
    /// clone can try again. A trace that is never closed loses nothing that was flushed.
    pub fn finish(self) -> Result<(), Error> {
        if self.shared.closing.swap(true, Ordering::AcqRel) {
            return Err(Error::Finished { path: self.shared.sink.path().into() });
        }
        let closed = self.close();
        if !self.shared.sink.is_finished() {
            self.shared.closing.store(false, Ordering::Release);
        }
        closed
    }

    fn close(&self) -> Result<(), Error> {
        let flushed = self.flush();
        if flushed.is_err() && self.flush().is_err() {
            return flushed;
        }
        let closed = self.shared.sink.finish(self.shared.options.sync != SyncPolicy::Never);
        flushed.and(closed)
    }

    fn session<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
        let mut session = lock(&self.shared.session);
        self.shared.check_open()?;
        let value = act(&mut session);
        session.flush_if_full(&*self.shared.sink, &self.shared.options)?;
        Ok(value)
    }

    fn too_many(&self, what: &'static str) -> Error {
        Error::TooMany { path: self.shared.sink.path().into(), what }
    }
}

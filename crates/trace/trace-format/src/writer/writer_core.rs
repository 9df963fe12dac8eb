//! State shared by the writers of a trace: the sink of segments, the session's tables, and the threads that are written.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use memref::ThreadId;

use super::{
    lock::lock,
    options::{CreateOptions, SyncPolicy},
    session::SessionTables,
    shard::ShardState,
    sink::SegmentSink,
};
use crate::{Error, Trace};

/// What all writers of a trace share.
#[derive(Debug)]
pub(crate) struct WriterCore {
    pub(super) options: CreateOptions,
    pub(super) sink: Arc<dyn SegmentSink>,
    pub(super) session: Mutex<SessionTables>,
    pub(super) shards: Mutex<BTreeMap<ThreadId, Arc<Mutex<ShardState>>>>,
    /// Set before the last flush. Whoever adds something tests it under the lock that this flush takes, so nothing is added
    /// that it misses.
    pub(super) closing: AtomicBool,
    /// The trace that is added to.
    pub(super) before: Option<Trace>,
}

impl WriterCore {
    /// Fails once the trace is being finished. The caller holds the lock of what it adds to.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Finished { path: self.sink.path().into() });
        }
        Ok(())
    }

    /// Forces what was flushed to disk, if the options say so.
    pub(super) fn sync_flushed(&self) -> Result<(), Error> {
        if self.options.sync == SyncPolicy::EachFlush { self.sink.sync() } else { Ok(()) }
    }

    /// Writes what the session's streams buffer: what events of shards may refer to.
    pub(super) fn flush_session(&self) -> Result<(), Error> {
        lock(&self.session).flush(&*self.sink, &self.options)
    }
}

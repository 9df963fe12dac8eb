//! One thread's ordered events, as seen by a reader.

use std::sync::Arc;

use memref::{ProcessId, ThreadId};

use super::{
    stream::Stream,
    trace::{StreamInfo, Trace, TraceData, info},
};
use crate::StreamKind;

/// One thread's events: [`Self::accesses`], [`Self::data_accesses`], [`Self::events`] and [`Self::values`] go through them. Cheap to clone and to send to another thread.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(crate) inner: Arc<TraceData>,
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
}

impl Trace {
    /// One thread's events. A thread without any is fine.
    pub fn shard(&self, thread: ThreadId) -> Shard {
        // By number, as tables of a session are.
        let threads = self.threads();
        let place = threads.binary_search_by_key(&thread, |record| record.thread).ok();
        let process =
            place.and_then(|place| threads.get(place)).map_or(ProcessId::default(), |record| record.process);
        Shard::new(self.inner.clone(), process, thread)
    }
}

impl Shard {
    pub(crate) fn new(inner: Arc<TraceData>, process: ProcessId, thread: ThreadId) -> Self {
        Self { inner, process, thread }
    }

    /// The thread.
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Its process.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The thread's streams.
    pub fn streams(&self) -> impl Iterator<Item = StreamInfo> + '_ {
        let ours = |stream: &&Arc<Stream>| stream.description.thread == Some(self.thread);
        self.inner.streams.values().filter(ours).map(|stream| info(stream, self.inner.file.len))
    }

    /// How many accesses it has, as far as frame headers tell.
    pub fn access_count(&self) -> u64 {
        let stream = self.inner.stream(StreamKind::Accesses, Some(self.thread));
        stream.map_or(0, |stream| info(&stream, self.inner.file.len).entries)
    }
}

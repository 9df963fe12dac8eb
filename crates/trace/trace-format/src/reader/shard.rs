//! One thread's ordered events, as a reader sees them.

use std::sync::Arc;

use memref::{ProcessId, ThreadId};

use super::{
    AccessCursor, DataCursor, EventCursor, Filter, Inner, StreamInfo, ValueCursor, info, stream::Stream,
};
use crate::StreamKind;

/// One thread's events. Cheap to clone and to send to another thread.
#[derive(Clone, Debug)]
pub struct Shard {
    pub(crate) inner: Arc<Inner>,
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
}

impl Shard {
    pub(crate) fn new(inner: Arc<Inner>, process: ProcessId, thread: ThreadId) -> Self {
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

    /// The accesses that match: the fast path.
    pub fn accesses(&self, filter: &Filter) -> AccessCursor {
        AccessCursor::new(self, filter)
    }

    /// All kinds of events that match, merged by cycle. At equal cycles: order marks, gaps, markers, allocations, block
    /// operations, accesses.
    pub fn events(&self, filter: &Filter) -> EventCursor {
        EventCursor::new(self, filter)
    }

    /// The accesses that match with what they read or wrote, where the trace has that: the fast path.
    pub fn data_accesses(&self, filter: &Filter) -> DataCursor {
        DataCursor::new(self, filter)
    }

    /// The bytes of the accesses whose index matches, where they were recorded. Only `filter.index` is tested.
    pub fn values(&self, filter: &Filter) -> ValueCursor {
        ValueCursor::new(self, filter)
    }
}

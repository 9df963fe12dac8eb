//! A server as the sink for the segments of a [`TraceWriter`](trace_format::TraceWriter).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use trace_format::{
    Error as TraceError, NewSegment, SegmentContent, SegmentSink, StreamDescription, StreamKind,
};

use super::remote_error::remote_error;
use super::writer::EntryWriter;
use super::{BUFFER_BYTES, BUFFERS, Client};
use crate::{Error, TraceOptions, lock};

/// Buffers of streams that have little to say.
const SMALL_BYTES: u32 = 16 << 10;

/// Writers that are open at the same time: each has buffers, and a program may have thousands of threads.
const MAX_WRITERS: usize = 64;

/// Open writers by stream, and when each was used last.
#[derive(Debug, Default)]
struct Writers {
    open: BTreeMap<u32, (u64, Arc<Mutex<EntryWriter>>)>,
    uses: u64,
}

impl Writers {
    /// Makes room for another one.
    fn retire(&mut self) -> Result<(), Error> {
        while self.open.len() >= MAX_WRITERS {
            let oldest = self.open.iter().min_by_key(|(_, (used, _))| *used).map(|(&stream, _)| stream);
            let Some((_, writer)) = oldest.and_then(|stream| self.open.remove(&stream)) else { break };
            // Whoever still has it closes it.
            if let Some(writer) = Arc::into_inner(writer) {
                writer.into_inner().unwrap_or_else(PoisonError::into_inner).close()?;
            }
        }
        Ok(())
    }
}

/// The trace of a session. Segments become entries again: the server cuts its own.
#[derive(Debug)]
pub struct RemoteSink {
    client: Client,
    path: PathBuf,
    writers: Mutex<Writers>,
    finished: AtomicBool,
}

impl RemoteSink {
    /// Creates a trace in a session of its own.
    pub fn create(client: Client, specifier: &str, options: &TraceOptions) -> Result<Self, Error> {
        client.create_session(specifier)?;
        client.create_trace(specifier, options)?;
        let (writers, finished) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self { client, path: specifier.into(), writers, finished })
    }

    fn remote(&self) -> impl Fn(Error) -> TraceError {
        let path = self.path.clone();
        move |error| remote_error(&path, &error)
    }

    fn writer(&self, stream: u32, busy: bool) -> Result<Arc<Mutex<EntryWriter>>, Error> {
        let mut writers = lock(&self.writers);
        writers.uses += 1;
        let uses = writers.uses;
        if let Some((used, writer)) = writers.open.get_mut(&stream) {
            *used = uses;
            return Ok(writer.clone());
        }
        writers.retire()?;
        let (bytes, buffers) = if busy { (BUFFER_BYTES, BUFFERS) } else { (SMALL_BYTES, 2) };
        let writer = Arc::new(Mutex::new(self.client.writer_with(stream, bytes, buffers)?));
        writers.open.insert(stream, (uses, writer.clone()));
        Ok(writer)
    }

    fn offer(&self) -> Result<(), Error> {
        let writers: Vec<_> = lock(&self.writers).open.values().cloned().collect();
        for (_, writer) in writers {
            let mut writer = lock(&writer);
            writer.offer()?;
            writer.settle()?;
        }
        Ok(())
    }

    fn close(&self) -> Result<(), Error> {
        let writers = std::mem::take(&mut *lock(&self.writers));
        let mut result = Ok(());
        for (_, writer) in writers.open.into_values() {
            if let Some(writer) = Arc::into_inner(writer) {
                let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
                result = result.and(writer.close());
            }
        }
        let closed = self.client.close_trace().map(|_| ());
        let left = self.client.leave_session();
        result.and(closed).and(left)
    }
}

impl SegmentSink for RemoteSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn has_encoder(&self, _: u32) -> bool {
        // The server refuses the stream otherwise.
        true
    }

    fn add_stream(&self, description: &StreamDescription) -> Result<u32, TraceError> {
        self.client.add_stream(description).map_err(self.remote())
    }

    fn takes_coded(&self) -> bool {
        self.client.is_embedded()
    }

    fn add_segment(&self, segment: &NewSegment<'_>) -> Result<(), TraceError> {
        let write = || match segment.content {
            SegmentContent::Coded(frame) => {
                self.client.add_coded(segment.stream, frame.clone(), segment.wall_ns)
            }
            SegmentContent::Entries(entries) => {
                let kind = StreamKind::of(segment.entry_type);
                let busy = entries.len() >= BUFFER_BYTES as usize
                    || matches!(kind, Some(StreamKind::Accesses | StreamKind::DataAccesses));
                lock(&*self.writer(segment.stream, busy)?).push_all(entries)
            }
        };
        write().map_err(self.remote())
    }

    fn flush(&self) -> Result<(), TraceError> {
        // A server elsewhere may be killed as well: what waits there must not come on top of what waits here.
        let offered = if self.client.is_embedded() { Ok(()) } else { self.offer() };
        offered.and_then(|()| self.client.flush(false)).map_err(self.remote())
    }

    fn sync(&self) -> Result<(), TraceError> {
        self.offer().and_then(|()| self.client.flush(true)).map_err(self.remote())
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn finish(&self, _: bool) -> Result<(), TraceError> {
        // The server knows from the options whether to force it to disk.
        let closed = self.close();
        self.finished.store(true, Ordering::Release);
        closed.map_err(self.remote())
    }
}

//! Another server as the destination of what a server's workers have encoded. A client that fills frames
//! sends them as they will be in the file, which takes a hundredth of the bytes of their entries.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use trace_format::{
    CreateOptions, DefinitionWriter, EndReason, Error as TraceError, FinishedFrame, NewSegment, SegmentSink,
    StreamDescription,
};

use super::Client;
use super::remote_error::remote_error;
use crate::{Error, TraceOptions, Upstream, lock};

impl Upstream for Client {
    fn create_trace(&self, specifier: &str, options: &TraceOptions) -> Result<Arc<dyn SegmentSink>, Error> {
        self.create_session(specifier)?;
        Self::create_trace(self, specifier, options)?;
        let (client, path, options) = (self.clone(), specifier.into(), CreateOptions::default());
        Ok(Arc::new(FrameSink {
            client,
            path,
            options,
            definitions: DefinitionWriter::default(),
            streams: Mutex::new(0),
            finished: AtomicBool::new(false),
        }))
    }
}

/// The trace of a session on another server.
#[derive(Debug)]
struct FrameSink {
    client: Client,
    path: PathBuf,
    options: CreateOptions,
    definitions: DefinitionWriter,
    /// How many streams were announced. Nobody else adds any, so their numbers are known before the server says them.
    streams: Mutex<u32>,
    finished: AtomicBool,
}

impl FrameSink {
    fn remote<T>(&self, result: Result<T, Error>) -> Result<T, TraceError> {
        result.map_err(|error| remote_error(&self.path, &error))
    }
}

impl SegmentSink for FrameSink {
    fn path(&self) -> &Path {
        &self.path
    }

    fn has_encoder(&self, number: u32) -> bool {
        self.options.encoders.get(number).is_some()
    }

    fn takes_coded(&self) -> bool {
        true
    }

    fn add_stream(&self, description: &StreamDescription) -> Result<u32, TraceError> {
        let mut streams = lock(&self.streams);
        let number = *streams + 1;
        self.remote(self.client.expect_stream(description, number))?;
        *streams = number;
        Ok(number)
    }

    fn add_segment(&self, segment: &NewSegment<'_>) -> Result<(), TraceError> {
        let named = self.definitions.name(segment, self)?;
        let frame = FinishedFrame::of(segment, &self.options, named.as_ref());
        self.definitions.stored(named.as_ref(), frame.bytes().len());
        self.add_frame(frame)
    }

    fn add_frame(&self, frame: FinishedFrame) -> Result<(), TraceError> {
        self.remote(self.client.add_frame(frame.bytes()))
    }

    fn flush(&self) -> Result<(), TraceError> {
        self.remote(self.client.flush_behind())
    }

    fn sync(&self) -> Result<(), TraceError> {
        self.remote(self.client.flush(true))
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn finish(&self, sync: bool) -> Result<(), TraceError> {
        self.end(sync, EndReason::Finished)
    }

    fn end(&self, _: bool, why: EndReason) -> Result<(), TraceError> {
        // The server knows from the options whether to force it to disk, and of a session that is left without being closed why it ends.
        let closed = if why.is_finished() { self.client.close_trace().map(|_| ()) } else { Ok(()) };
        let left = self.client.leave_session();
        self.finished.store(true, Ordering::Release);
        self.remote(closed.and(left))
    }
}

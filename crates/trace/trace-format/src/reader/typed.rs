//! A stream read frame by frame, for callers that know its entries themselves.

use std::{ops::Range, sync::Arc};

use memref::ThreadId;

use super::{
    file::FrameError,
    stream::Stream,
    trace::{Trace, TraceData},
};
use crate::{Error, StreamKind};

/// Goes through the frames of a stream. Damaged ones are passed over and counted.
#[derive(Debug)]
pub struct TypedCursor {
    inner: Arc<TraceData>,
    stream: Arc<Stream>,
    next: usize,
    lost: u64,
    bytes: Vec<u8>,
}

/// The entries of one frame.
#[derive(Clone, Copy, Debug)]
pub struct TypedFrame<'a> {
    /// The index of the first.
    pub first_index: u64,
    /// Their bytes.
    pub bytes: &'a [u8],
}

impl Trace {
    /// The stream of that kind, of a thread or of the session; `None` where there is none.
    pub fn typed(&self, kind: StreamKind, thread: Option<ThreadId>) -> Option<TypedCursor> {
        let stream = self.inner.stream(kind, thread)?;
        Some(TypedCursor { inner: self.inner.clone(), stream, next: 0, lost: 0, bytes: Vec::new() })
    }
}

impl TypedCursor {
    /// Goes to the first frame that may hold that index or a later one.
    pub fn seek(&mut self, index: u64) {
        self.next = self.stream.frames.partition_point(|frame| frame.header.end_index() <= index);
    }

    /// Goes to the first frame that may hold that cycle or a later one. Cycles must grow in the stream.
    pub fn seek_cycle(&mut self, cycle: u64) {
        self.next = self.stream.frames.partition_point(|frame| frame.header.bounds.cycles.max < cycle);
    }

    /// The cycles and indices of the next frame, without decoding it.
    pub fn peek(&self) -> Option<(Range<u64>, Range<u64>)> {
        let header = &self.stream.frames.get(self.next)?.header;
        let cycles = header.bounds.cycles;
        Some((cycles.min..cycles.max.saturating_add(1), header.first_index..header.end_index()))
    }

    /// The next frame's entries; `None` at the end.
    pub fn next_frame(&mut self) -> Result<Option<TypedFrame<'_>>, Error> {
        while let Some(frame) = self.stream.frames.get(self.next) {
            self.next += 1;
            match self.stream.decode(&self.inner.file, &self.inner.encoders, frame, &mut self.bytes) {
                Ok(()) => {
                    let first_index = frame.header.first_index;
                    return Ok(Some(TypedFrame { first_index, bytes: &self.bytes }));
                }
                Err(FrameError::Damaged(_)) => self.lost += frame.header.entries,
                Err(FrameError::Failed(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Entries of damaged frames that were passed over.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

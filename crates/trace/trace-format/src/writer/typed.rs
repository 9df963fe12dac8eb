//! Streams of a caller-defined type: fixed-size entries, as bytes.

use std::sync::Arc;

use super::{
    sink::{NewSegment, SegmentContent},
    writer_core::WriterCore,
};
use crate::{Bounds, Error, Interval, MAX_FRAME_ENTRIES, StreamDescription, encoder::number};

/// Writes a stream of a type that the caller describes. What is buffered when it is dropped is lost: call
/// [`TypedWriter::flush`] before [`TraceWriter::finish`](super::TraceWriter::finish).
#[derive(Debug)]
pub struct TypedWriter {
    core: Arc<WriterCore>,
    description: StreamDescription,
    segment_entries: usize,
    stream: Option<u32>,
    sequence: u64,
    first_index: u64,
    bytes: Vec<u8>,
    bounds: Bounds,
}

impl TypedWriter {
    pub(super) fn new(
        core: &Arc<WriterCore>,
        description: StreamDescription,
        segment_entries: usize,
    ) -> Self {
        Self {
            core: core.clone(),
            description,
            segment_entries: segment_entries.clamp(1, MAX_FRAME_ENTRIES),
            stream: None,
            sequence: 0,
            first_index: 0,
            bytes: Vec::new(),
            bounds: Bounds::NONE,
        }
    }

    fn width(&self) -> usize {
        self.description.entry_type.entry_bytes.max(1) as usize
    }

    /// Entries that wait to be written.
    pub fn buffered(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// The index that the next entry will have.
    pub fn next_index(&self) -> u64 {
        self.first_index + self.buffered() as u64
    }

    /// Adds entries of the same cycle: whole ones, as their type describes them.
    pub fn push(&mut self, cycle: u64, entries: &[u8]) -> Result<(), Error> {
        if self.bytes.is_empty() {
            self.bounds =
                Bounds { wall_ns: Interval { min: (self.core.options.clock)(), max: 0 }, ..Bounds::NONE };
        }
        debug_assert_eq!(entries.len() % self.width(), 0, "a part of an entry");
        self.bounds.cycles.add(cycle);
        self.bytes.extend_from_slice(entries);
        if self.buffered() >= self.segment_entries { self.flush() } else { Ok(()) }
    }

    /// Writes what is buffered. Entries that could not be written are dropped: the caller must account for them.
    pub fn flush(&mut self) -> Result<(), Error> {
        let width = self.width();
        let bytes = std::mem::take(&mut self.bytes);
        let mut result = Ok(());
        for entries in bytes.chunks(MAX_FRAME_ENTRIES * width) {
            let written = self.write_frame(entries);
            result = result.and(written);
            self.sequence += 1;
            self.first_index += (entries.len() / width) as u64;
        }
        self.bytes = bytes;
        self.bytes.clear();
        result
    }

    fn write_frame(&mut self, entries: &[u8]) -> Result<(), Error> {
        let sink = &self.core.sink;
        let stream = match self.stream {
            Some(stream) => stream,
            None => {
                if !sink.has_encoder(self.description.encoder) {
                    self.description.encoder = number::RAW;
                }
                *self.stream.insert(sink.add_stream(&self.description)?)
            }
        };
        sink.add_segment(&NewSegment {
            stream,
            entry_type: &self.description.entry_type,
            encoder: self.description.encoder,
            sequence: self.sequence,
            first_index: self.first_index,
            wall_ns: self.bounds.wall_ns.min,
            bounds: Some(self.bounds),
            content: SegmentContent::Entries(entries),
        })
    }
}

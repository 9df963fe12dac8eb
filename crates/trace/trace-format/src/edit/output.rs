//! An output stream, written from the entries of another stream.

use crate::{
    Bounds, EntryType, Error, Interval, NewSegment, SegmentContent, SegmentSink, StreamDescription,
    var::BLOCK_BYTES,
};

/// Collects entries into segments of the wished length.
pub(super) struct CopiedStream<'s> {
    sink: &'s dyn SegmentSink,
    description: StreamDescription,
    stream: Option<u32>,
    sequence: u64,
    first_index: u64,
    entries: Vec<u8>,
    wall_ns: Interval,
    segment_bytes: usize,
}

impl<'s> CopiedStream<'s> {
    pub(super) fn new(
        sink: &'s dyn SegmentSink,
        description: StreamDescription,
        segment_entries: usize,
    ) -> Self {
        let width = description.entry_type.entry_bytes as usize;
        let segment_bytes = segment_entries.clamp(1, crate::MAX_FRAME_ENTRIES) * width;
        Self {
            sink,
            description,
            stream: None,
            sequence: 0,
            first_index: 0,
            entries: Vec::new(),
            wall_ns: Interval::NONE,
            segment_bytes,
        }
    }

    fn entry_type(&self) -> &EntryType {
        &self.description.entry_type
    }

    /// The index of the next entry.
    pub(super) fn next_index(&self) -> u64 {
        self.first_index + (self.entries.len() / self.entry_type().entry_bytes as usize) as u64
    }

    /// Adds whole entries that were recorded in that time.
    pub(super) fn push(&mut self, entries: &[u8], wall_ns: Interval) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        self.wall_ns.join(wall_ns);
        self.entries.extend_from_slice(entries);
        while self.entries.len() >= self.segment_bytes {
            let rest = self.entries.split_off(self.segment_bytes);
            self.write()?;
            self.entries = rest;
            self.wall_ns = wall_ns;
        }
        Ok(())
    }

    /// Fills blocks of variable-sized data that are lost with empty ones, so that references stay right.
    pub(super) fn fill_to(&mut self, index: u64) -> Result<(), Error> {
        const ONCE: u64 = 1 << 12;
        while self.next_index() < index {
            let blocks = (index - self.next_index()).min(ONCE) as usize;
            self.push(&vec![0; blocks * BLOCK_BYTES], Interval::NONE)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let stream = match self.stream {
            Some(stream) => stream,
            None => *self.stream.insert(self.sink.add_stream(&self.description)?),
        };
        let mut bounds = Bounds::of(self.entry_type(), &self.entries);
        bounds.wall_ns = self.wall_ns;
        self.sink.add_segment(&NewSegment {
            stream,
            entry_type: self.entry_type(),
            encoder: self.description.encoder,
            sequence: self.sequence,
            first_index: self.first_index,
            wall_ns: bounds.wall_ns.min,
            bounds: Some(bounds),
            content: SegmentContent::Entries(&self.entries),
        })?;
        self.sequence += 1;
        self.first_index = self.next_index();
        self.entries.clear();
        self.wall_ns = Interval::NONE;
        Ok(())
    }

    /// Writes what is left; a stream that has no entry is announced all the same.
    pub(super) fn finish(mut self, announce: bool) -> Result<(), Error> {
        if announce && self.stream.is_none() && self.entries.is_empty() {
            self.sink.add_stream(&self.description)?;
            return Ok(());
        }
        self.write()
    }
}

//! The entries of one stream that are waiting to be encoded.

use super::{
    options::CreateOptions,
    sink::{NewSegment, SegmentContent, SegmentSink},
};
use crate::{
    Bounds, CodedFrame, Error, StreamDescription, StreamKind, Trace, encoder::number, entry::StreamEntry,
    reader::Stream,
};
use memref::{ProcessId, ThreadId};
use std::sync::Arc;

/// A stream's open segment, and how far the stream got. The stream appears in the file with its first frame.
#[derive(Debug)]
pub(crate) struct PendingSegment {
    kind: StreamKind,
    owner: Option<(ProcessId, ThreadId)>,
    stream: Option<u32>,
    /// Of a stream that was there before this writer.
    encoder: Option<u32>,
    sequence: u64,
    first_index: u64,
    bytes: Vec<u8>,
    /// When the first entry that is buffered came, and its cycle.
    wall_ns: u64,
    first_cycle: u64,
}

impl PendingSegment {
    pub(crate) fn new(kind: StreamKind, owner: Option<(ProcessId, ThreadId)>) -> Self {
        Self {
            kind,
            owner,
            stream: None,
            encoder: None,
            sequence: 0,
            first_index: 0,
            bytes: Vec::new(),
            wall_ns: 0,
            first_cycle: u64::MAX,
        }
    }

    /// What the entries are.
    pub(crate) fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Goes on with a stream of the trace, if it has one of that kind.
    pub(crate) fn resume(kind: StreamKind, owner: Option<(ProcessId, ThreadId)>, trace: &Trace) -> Self {
        let new = Self::new(kind, owner);
        let same = |stream: &&Arc<Stream>| {
            stream.kind == Some(kind) && stream.description.thread == owner.map(|(_, thread)| thread)
        };
        let Some(stream) = trace.inner().streams.values().find(same) else { return new };
        let last = stream.frames.last().map(|frame| &frame.header);
        Self {
            stream: Some(stream.number),
            encoder: Some(stream.description.encoder),
            sequence: last.map_or(0, |header| header.sequence + 1),
            first_index: last.map_or(0, |header| header.end_index()),
            ..new
        }
    }

    /// Buffered entries.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.kind.entry_bytes()
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives memory back that nothing is in.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// The index of the next entry in its stream.
    pub(crate) fn next_index(&self) -> u64 {
        self.first_index + self.len() as u64
    }

    /// The cycle of the first entry buffered; all ones where there is none.
    pub(crate) fn first_cycle(&self) -> u64 {
        self.first_cycle
    }

    fn arrive(&mut self, clock: fn() -> u64) {
        if self.bytes.is_empty() {
            (self.wall_ns, self.first_cycle) = (clock(), u64::MAX);
        }
    }

    pub(crate) fn push<E: StreamEntry>(&mut self, entry: &E, clock: fn() -> u64) {
        self.push_all(std::slice::from_ref(entry), clock);
    }

    /// Adds entries whose cycles do not fall.
    pub(crate) fn push_all<E: StreamEntry>(&mut self, entries: &[E], clock: fn() -> u64) {
        debug_assert_eq!(self.kind, E::KIND, "entries of another stream");
        let Some(first) = entries.first() else { return };
        if self.bytes.is_empty() {
            self.arrive(clock);
            let mut bounds = Bounds::NONE;
            first.bound(&mut bounds);
            self.first_cycle = bounds.cycles.min;
        }
        self.bytes.reserve(entries.len() * self.kind.entry_bytes());
        for entry in entries {
            entry.put(&mut self.bytes);
        }
    }

    /// Adds a datum of variable size and returns its reference.
    pub(crate) fn push_data(&mut self, data: &[u8], clock: fn() -> u64) -> u64 {
        self.arrive(clock);
        let reference = self.next_index();
        crate::var::put(&mut self.bytes, data);
        reference
    }

    /// Encodes and appends what is buffered. Entries that could not be written stay buffered for the next try if `keep` is
    /// set, and are dropped otherwise: the caller must account for them.
    pub(crate) fn write(
        &mut self,
        sink: &dyn SegmentSink,
        options: &CreateOptions,
        keep: bool,
    ) -> Result<(), Error> {
        let width = self.kind.entry_bytes();
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut written = 0;
        let result = bytes.chunks(crate::MAX_FRAME_ENTRIES * width).try_for_each(|entries| {
            self.write_frame(sink, options, entries)?;
            written += entries.len();
            Ok(())
        });
        if keep || result.is_ok() {
            bytes.drain(..written);
        } else {
            if self.kind.variable() {
                // References into the stream were handed out; a hole keeps those to later entries right.
                self.sequence += 1;
                self.first_index += ((bytes.len() - written) / width) as u64;
            }
            bytes.clear();
        }
        // Keep what the next segment needs, unless it was exceptional.
        if bytes.capacity() > options.segment_entries.saturating_mul(width).saturating_mul(2) {
            bytes.shrink_to_fit();
        }
        self.bytes = bytes;
        result
    }

    /// Appends a frame that is encoded already. Nothing may be buffered.
    pub(crate) fn write_coded(
        &mut self,
        sink: &dyn SegmentSink,
        options: &CreateOptions,
        wall_ns: u64,
        frame: &Arc<CodedFrame>,
    ) -> Result<(), Error> {
        self.wall_ns = wall_ns;
        self.add(sink, options, SegmentContent::Coded(frame), frame.count())
    }

    fn write_frame(
        &mut self,
        sink: &dyn SegmentSink,
        options: &CreateOptions,
        entries: &[u8],
    ) -> Result<(), Error> {
        let count = (entries.len() / self.kind.entry_bytes()) as u64;
        self.add(sink, options, SegmentContent::Entries(entries), count)
    }

    fn add(
        &mut self,
        sink: &dyn SegmentSink,
        options: &CreateOptions,
        content: SegmentContent<'_>,
        count: u64,
    ) -> Result<(), Error> {
        let number = self.encoder.unwrap_or_else(|| self.kind.encoder_for(options.level, options.encoder));
        // memtap's own are there unless the caller built the registry from nothing.
        let encoder = if sink.has_encoder(number) { number } else { number::RAW };
        let stream = match self.stream {
            Some(stream) => stream,
            None => {
                let stream = sink.add_stream(&self.description(encoder))?;
                *self.stream.insert(stream)
            }
        };
        sink.add_segment(&NewSegment {
            stream,
            entry_type: &self.kind.entry_type(),
            encoder,
            sequence: self.sequence,
            first_index: self.first_index,
            wall_ns: self.wall_ns,
            bounds: None,
            content,
        })?;
        self.sequence += 1;
        self.first_index += count;
        Ok(())
    }

    fn description(&self, encoder: u32) -> StreamDescription {
        StreamDescription { encoder, ..StreamDescription::of_kind(self.kind, self.owner) }
    }
}

//! Sinks of segments: a file ([`FileSink`](super::FileSink)), or another implementation, such as a server.

use std::{borrow::Cow, fmt, path::Path, sync::Arc};

use memref::Access;

use super::{definitions::NamedBlocks, finished::FinishedFrame, options::CreateOptions};
use crate::{
    AccessCounts, Bounds, CodedFrame, DataAccess, Encoded, Encoders, EndReason, EntryType, Error, Level,
    StreamDescription, StreamKind,
    bytes::ByteReader,
    encoder::{self, Attribute, number},
    entry::StreamEntry,
    frame::{self, FrameHeader, FrameKind},
};

/// The entries of one stream that are to be coded together.
#[derive(Clone, Copy, Debug)]
pub struct NewSegment<'a> {
    /// The stream's number.
    pub stream: u32,
    /// The type of its entries.
    pub entry_type: &'a EntryType,
    /// The number of its encoder.
    pub encoder: u32,
    /// The segment's place among those of the stream, from 0 without holes.
    pub sequence: u64,
    /// The index of its first entry in the stream.
    pub first_index: u64,
    /// When the first entry arrived, ns since the Unix epoch.
    pub wall_ns: u64,
    /// What the entries span, where that is known already or does not follow from the entries themselves.
    pub bounds: Option<Bounds>,
    /// The entries: at least one, at most [`crate::MAX_FRAME_ENTRIES`].
    pub content: SegmentContent<'a>,
}

/// The entries of a segment.
#[derive(Clone, Copy, Debug)]
pub enum SegmentContent<'a> {
    /// As they are, whole ones.
    Entries(&'a [u8]),
    /// As the segment's encoder makes them, which it does when it is asked: for [`SegmentSink`]s that take them so.
    Coded(&'a Arc<CodedFrame>),
}

impl SegmentContent<'_> {
    /// What the entries, which are of that type, span.
    pub fn bounds(&self, entry_type: &EntryType) -> Bounds {
        match self {
            Self::Entries(entries) => Bounds::of(entry_type, entries),
            Self::Coded(frame) => frame.bounds(),
        }
    }

    /// How many accesses of each kind there are, if the entries, which are of that type, are accesses.
    fn counts(&self, entry_type: &EntryType) -> Option<AccessCounts> {
        match self {
            Self::Entries(entries) => AccessCounts::of(entry_type, entries),
            Self::Coded(frame) => Some(frame.counts()),
        }
    }
}

impl NewSegment<'_> {
    /// How many entries it has.
    pub fn count(&self) -> u64 {
        match self.content {
            SegmentContent::Entries(entries) => {
                entries.len() as u64 / u64::from(self.entry_type.entry_bytes.max(1))
            }
            SegmentContent::Coded(frame) => frame.count(),
        }
    }

    /// Its entries as they are; those that are coded must be one of memtap's own encoders'.
    pub fn entries(&self) -> Cow<'_, [u8]> {
        match self.content {
            SegmentContent::Entries(entries) => entries.into(),
            SegmentContent::Coded(frame) => {
                let (count, parts) = (frame.count() as usize, frame.parts());
                let encoded = Encoded { entry_type: self.entry_type, count, parts, blocks: &[] };
                let mut entries = Vec::new();
                if let Some(encoder) = Encoders::default().get(self.encoder) {
                    // The parts are the encoder's own.
                    let _ = encoder.decode(&encoded, &mut entries);
                }
                entries.into()
            }
        }
    }

    /// Its entries, if they are accesses, with data or without; those that no encoder would take are left out.
    pub fn each_access(&self, mut act: impl FnMut(DataAccess)) {
        let kind = StreamKind::from_guid(self.entry_type.guid);
        let bytes = self.entries();
        let entries = bytes.chunks_exact(self.entry_type.entry_bytes.max(1) as usize).map(ByteReader::new);
        match kind {
            Some(StreamKind::Accesses) => entries
                .filter_map(|mut entry| Access::get(&mut entry))
                .for_each(|access| act(DataAccess { access, value: 0, value_bytes: 0 })),
            Some(StreamKind::DataAccesses) => {
                entries.filter_map(|mut entry| DataAccess::get(&mut entry)).for_each(act);
            }
            _ => {}
        }
    }
}

/// Takes the segments of one trace. Shared by the threads that make them.
pub trait SegmentSink: Send + Sync + fmt::Debug {
    /// What errors call the trace.
    fn path(&self) -> &Path;

    /// Whether streams of that encoder can be written.
    fn has_encoder(&self, number: u32) -> bool;

    /// Whether segments may be [`SegmentContent::Coded`].
    fn takes_coded(&self) -> bool {
        false
    }

    /// Announces a stream and returns its number.
    fn add_stream(&self, description: &StreamDescription) -> Result<u32, Error>;

    /// Takes a segment. Those of one stream may come in any order, since they carry their places.
    fn add_segment(&self, segment: &NewSegment<'_>) -> Result<(), Error>;

    /// Takes a frame that another process has made of a segment. Those of one stream may come in any order, too.
    ///
    /// # Errors
    /// Where it could not be written, or what keeps the trace is not made of frames.
    fn add_frame(&self, frame: FinishedFrame) -> Result<(), Error> {
        let what = format!(
            "frame {} of stream {}: only files of memtap's own format have frames",
            frame.sequence(),
            frame.stream()
        );
        Err(Error::Remote { path: self.path().into(), what })
    }

    /// Returns when all segments survive the death of this process; where they are kept by another machine, those that were
    /// there at a flush of a second ago.
    fn flush(&self) -> Result<(), Error>;

    /// Returns when all that was flushed would survive a loss of power.
    fn sync(&self) -> Result<(), Error>;

    /// Whether the trace is closed.
    fn is_finished(&self) -> bool;

    /// Closes the trace. One whose end could not be written stays open for another try.
    fn finish(&self, sync: bool) -> Result<(), Error>;

    /// As [`Self::finish`], of a trace that ends early. Where a store can't say why, it says nothing of that.
    fn end(&self, sync: bool, why: EndReason) -> Result<(), Error> {
        let _ = why;
        self.finish(sync)
    }
}

/// The attributes of a segment, as its encoder makes them; of one that is coded, with the names of its blocks where it has such.
pub(super) fn encoded<'a>(
    segment: &NewSegment<'a>,
    options: &CreateOptions,
    named: Option<&'a NamedBlocks>,
) -> Vec<Cow<'a, Attribute>> {
    let owned = |parts: Vec<Attribute>| parts.into_iter().map(Cow::Owned).collect();
    match (segment.content, options.encoders.get(segment.encoder)) {
        (SegmentContent::Coded(frame), _) => match named {
            Some(NamedBlocks(names)) => vec![Cow::Borrowed(frame.columns()), Cow::Borrowed(names)],
            None => frame.parts().iter().map(Cow::Borrowed).collect(),
        },
        (SegmentContent::Entries(entries), Some(encoder)) => {
            owned(encoder.encode(segment.entry_type, entries))
        }
        (SegmentContent::Entries(entries), None) => owned(encoder::raw(entries)),
    }
}

/// The header of a segment's frame, which is made now.
pub(super) fn header(segment: &NewSegment<'_>, options: &CreateOptions) -> FrameHeader {
    let mut bounds = segment.bounds.unwrap_or_else(|| segment.content.bounds(segment.entry_type));
    if bounds.wall_ns.is_none() {
        bounds.wall_ns.add(segment.wall_ns);
    }
    bounds.wall_ns.add((options.clock)());
    FrameHeader {
        first_index: segment.first_index,
        entries: segment.count(),
        bounds,
        counts: segment.content.counts(segment.entry_type),
        ..FrameHeader::plain(FrameKind::Data, segment.stream, segment.sequence)
    }
}

pub(super) fn zstd_level(options: &CreateOptions, encoder: u32) -> i32 {
    match (options.level, encoder) {
        (_, number::LIVE | number::BLOCKS) => frame::ZSTD_LIVE,
        (_, number::ACCESS_ARCHIVE) | (Level::Archive, _) => frame::ZSTD_ARCHIVE,
        (Level::Standard, _) => frame::ZSTD_STANDARD,
    }
}

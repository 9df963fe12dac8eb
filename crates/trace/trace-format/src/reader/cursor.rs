//! Iterates over one stream of a shard, block by block.

use std::{ops::Range, sync::Arc};

use memref::{Access, Gap, GapReason, ProcessId, ThreadId, VirtAddr};

use super::{
    ahead::FramesAhead,
    content::FrameContent,
    file::FrameError,
    filter::{Filter, Filtered},
    shard::Shard,
    stream::Stream,
    trace::TraceData,
};
use crate::{Bounds, Error, KindSet, directory::FrameRef, entry::StreamEntry};

/// What a cursor came to.
pub(crate) enum CursorStep {
    /// Entries: in [`StreamCursor::block`].
    Block,
    /// Entries that are lost.
    Gap(Gap),
}

/// A cursor over the matching entries of one stream, which are decoded into `C`.
#[derive(Debug)]
pub(crate) struct StreamCursor<C: FrameContent> {
    pub(crate) inner: Arc<TraceData>,
    process: ProcessId,
    thread: ThreadId,
    stream: Option<Arc<Stream>>,
    filter: Filter,
    /// The next frame to look at.
    next: usize,
    /// Whether the hole before it was reported.
    hole_told: bool,
    content: C,
    ahead: FramesAhead<C>,
    chosen: Range<usize>,
    first_index: u64,
}

impl<E: Filtered> StreamCursor<Vec<E>> {
    /// The entries that the last step came to.
    pub(crate) fn block(&self) -> &[E] {
        &self.content[self.chosen.clone()]
    }
}

impl<C: FrameContent> StreamCursor<C> {
    pub(crate) fn new(shard: &Shard, filter: &Filter) -> Self {
        let stream = shard.inner.stream(C::Entry::KIND, Some(shard.thread));
        Self {
            inner: shard.inner.clone(),
            process: shard.process,
            thread: shard.thread,
            stream,
            filter: filter.clone(),
            next: 0,
            hole_told: false,
            content: C::default(),
            ahead: FramesAhead::default(),
            chosen: 0..0,
            first_index: 0,
        }
    }

    /// What the last step came to, and which of its items.
    pub(crate) fn content(&self) -> &C {
        &self.content
    }

    /// Which items of it match.
    pub(crate) fn chosen(&self) -> Range<usize> {
        self.chosen.clone()
    }

    /// The index of the block's first entry, where the filter takes whole runs of entries.
    pub(crate) fn first_index(&self) -> u64 {
        self.first_index
    }

    fn gap(&self, cycle: u64, count: u64) -> Option<CursorStep> {
        let wanted = self.filter.kinds.intersects(KindSet::GAPS);
        (wanted && count > 0).then_some(CursorStep::Gap(Gap {
            process: self.process,
            thread: self.thread,
            cycle,
            count,
            reason: GapReason::DamagedFrame,
            addr: VirtAddr(0),
        }))
    }

    /// Lost entries right before a frame that exists, if the filter may have asked for them.
    fn hole(&self, stream: &Stream, place: usize) -> Option<CursorStep> {
        let missing = stream.missing_before(place);
        let header = &stream.frames[place].header;
        let first = header.first_index - missing;
        let by_index = |range: &Range<u64>| first < range.end && header.first_index > range.start;
        // The lost ones were somewhere between the frames around them.
        let after = place.checked_sub(1).map_or(0, |before| stream.frames[before].header.bounds.cycles.max);
        let by_cycle = |range: &Range<u64>| after < range.end && header.bounds.cycles.min >= range.start;
        let asked = (!C::Entry::BY_INDEX || self.filter.index.as_ref().is_none_or(by_index))
            && (!C::Entry::BY_CYCLE || self.filter.cycles.as_ref().is_none_or(by_cycle));
        if asked { self.gap(header.bounds.cycles.min, missing) } else { None }
    }

    /// Goes on to the next block or gap; `None` at the end.
    pub(crate) fn step(&mut self) -> Result<Option<CursorStep>, Error> {
        let Some(stream) = self.stream.clone() else { return Ok(None) };
        if self.next == 0
            && C::Entry::BY_INDEX
            && let Some(index) = &self.filter.index
        {
            self.next = stream.frames.partition_point(|frame| frame.header.end_index() <= index.start);
        }
        while let Some(frame) = stream.frames.get(self.next) {
            if !self.hole_told {
                self.hole_told = true;
                if let Some(gap) = self.hole(&stream, self.next) {
                    return Ok(Some(gap));
                }
            }
            self.next += 1;
            self.hole_told = false;
            let place = self.next - 1;
            if !possible::<C::Entry>(&self.inner, &stream, &self.filter, place, frame) {
                continue;
            }
            match self.load(&stream, place) {
                Ok(()) if self.chosen.is_empty() => {}
                Ok(()) => return Ok(Some(CursorStep::Block)),
                Err(FrameError::Damaged(_)) => {
                    self.chosen = 0..0;
                    if let Some(gap) = self.gap(frame.header.bounds.cycles.min, frame.header.entries) {
                        return Ok(Some(gap));
                    }
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
        }
        self.chosen = 0..0;
        Ok(None)
    }

    fn load(&mut self, stream: &Arc<Stream>, place: usize) -> Result<(), FrameError> {
        let frame = &stream.frames[place];
        let header = &frame.header;
        let (inner, filter) = (&self.inner, &self.filter);
        if C::Entry::IS_INDEXED {
            self.ahead.start(
                inner,
                stream,
                place,
                |place, frame| possible::<C::Entry>(inner, stream, filter, place, frame),
                |frame| end_of::<C::Entry>(filter, frame),
            );
        }
        match self.ahead.take(place) {
            Some(decoded) => self.ahead.give_back(std::mem::replace(&mut self.content, decoded?)),
            None => {
                let end = end_of::<C::Entry>(filter, frame);
                self.content.decode(stream, &inner.file, &inner.encoders, frame, end)?;
            }
        }
        self.chosen = self.content.choose(&self.filter, header);
        self.first_index = header.first_index + self.chosen.start as u64;
        Ok(())
    }
}

/// Whether a frame may have entries that a filter asks for.
fn possible<E: Filtered>(
    inner: &TraceData,
    stream: &Stream,
    filter: &Filter,
    place: usize,
    frame: &FrameRef,
) -> bool {
    filter.may_match::<E>(&frame.header)
        && (!E::IS_INDEXED || inner.index.may_match(inner, stream, place, filter))
}

/// The cycle from which on a frame's entries are not wanted, if it has such.
fn end_of<E: Filtered>(filter: &Filter, frame: &FrameRef) -> Option<u64> {
    let end = filter.cycles.as_ref().map(|cycles| cycles.end);
    end.filter(|&end| E::BY_CYCLE && frame.header.bounds.cycles.max >= end)
}

/// A frame of accesses, as whoever plans a reading sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFrame {
    /// Its accesses, by their numbers in the thread.
    pub accesses: Range<u64>,
    /// What they span, as its header says.
    pub bounds: Bounds,
    /// Whether a cursor with that filter decodes it: neither its header nor the page index says that nothing in it matches.
    pub is_read: bool,
}

impl Shard {
    /// The frames of the thread's accesses, in order, and which of them a filter asks for. Reads headers and the page index alone.
    pub fn access_frames(&self, filter: &Filter) -> Vec<AccessFrame> {
        let Some(stream) = self.inner.stream(Access::KIND, Some(self.thread)) else { return Vec::new() };
        let frames = stream.frames.iter().enumerate();
        frames
            .map(|(place, frame)| AccessFrame {
                accesses: frame.header.first_index..frame.header.end_index(),
                bounds: frame.header.bounds,
                is_read: possible::<Access>(&self.inner, &stream, filter, place, frame),
            })
            .collect()
    }

    /// The accesses that match: the fast path.
    pub fn accesses(&self, filter: &Filter) -> AccessCursor {
        AccessCursor::new(self, filter)
    }
}

/// Goes through the matching accesses of a shard, a block at a time.
#[derive(Debug)]
pub struct AccessCursor {
    cursor: StreamCursor<Vec<Access>>,
    gaps: Vec<Gap>,
}

impl AccessCursor {
    pub(crate) fn new(shard: &Shard, filter: &Filter) -> Self {
        // Losses are told apart from the accesses, whatever kinds are asked for.
        let filter = Filter { kinds: filter.kinds | KindSet::GAPS, ..filter.clone() };
        Self { cursor: StreamCursor::new(shard, &filter), gaps: Vec::new() }
    }

    /// The next accesses, at least one; `None` at the end. Damaged frames are passed over and remembered.
    pub fn next_block(&mut self) -> Result<Option<&[Access]>, Error> {
        loop {
            match self.cursor.step()? {
                Some(CursorStep::Block) => return Ok(Some(self.cursor.block())),
                Some(CursorStep::Gap(gap)) => self.gaps.push(gap),
                None => return Ok(None),
            }
        }
    }

    /// The accesses that [`Self::next_block`] gave last.
    pub fn block(&self) -> &[Access] {
        self.cursor.block()
    }

    /// The index of the current block's first access, where the filter names indices at most; with other conditions, of
    /// the first access that was tested.
    pub fn first_index(&self) -> u64 {
        self.cursor.first_index()
    }

    /// What was lost so far to damaged and missing frames. Gaps that the tracer reported are events.
    pub fn lost(&self) -> &[Gap] {
        &self.gaps
    }
}

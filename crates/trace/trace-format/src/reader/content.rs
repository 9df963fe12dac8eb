//! The decoded content of a frame: entries, or for accesses the executions of blocks that made them.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use memref::Access;

use super::{
    file::{FrameError, TraceFile},
    filter::{Filter, Filtered},
    stream::Stream,
};
use crate::{Encoders, ExecutedFrame, directory::FrameRef, frame::FrameHeader};

/// The content of a frame, in memory that serves one frame after the other.
pub(crate) trait FrameContent: Debug + Default + Send + 'static {
    /// The entries that it stands for.
    type Entry: Filtered;

    /// Decodes a frame, in place of what is there; with `end`, entries after the first one of that cycle or a later one may be left out.
    fn decode(
        &mut self,
        stream: &Stream,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        end: Option<u64>,
    ) -> Result<(), FrameError>;

    /// Leaves what a filter asks for of the frame with that header, and says where that is.
    fn choose(&mut self, filter: &Filter, header: &FrameHeader) -> Range<usize>;

    /// The cycle of an item of it.
    fn cycle(&self, item: usize) -> u64;

    /// Whether there is memory in it to be used again.
    fn has_memory(&self) -> bool;

    /// Whether nobody looks at it any more.
    fn is_unused(&self) -> bool {
        true
    }
}

impl<E: Filtered> FrameContent for Vec<E> {
    type Entry = E;

    fn decode(
        &mut self,
        stream: &Stream,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        end: Option<u64>,
    ) -> Result<(), FrameError> {
        stream.decode_entries_before(file, encoders, frame, end, self)
    }

    fn choose(&mut self, filter: &Filter, header: &FrameHeader) -> Range<usize> {
        let mut chosen = 0..self.len();
        if E::BY_INDEX
            && let Some(index) = &filter.index
        {
            let read = self.len() as u64;
            let place = |index: u64| index.saturating_sub(header.first_index).min(read) as usize;
            chosen = place(index.start)..place(index.end);
        }
        if !filter.must_match::<E>(header) {
            self.truncate(chosen.end);
            self.drain(..chosen.start);
            self.retain(|entry| entry.matches(filter));
            chosen = 0..self.len();
        }
        chosen
    }

    fn cycle(&self, item: usize) -> u64 {
        self[item].cycle()
    }

    fn has_memory(&self) -> bool {
        self.capacity() > 0
    }
}

/// Shared with whoever looks at it after the cursor has gone on.
impl FrameContent for Arc<ExecutedFrame> {
    type Entry = Access;

    fn decode(
        &mut self,
        stream: &Stream,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        _end: Option<u64>,
    ) -> Result<(), FrameError> {
        // Its memory, unless somebody still looks at what is there.
        let mut executed = Self::into_inner(std::mem::take(self)).unwrap_or_default();
        let decoded = stream.decode_executions(file, encoders, frame, &mut executed);
        *self = Self::new(executed);
        decoded
    }

    /// Filters that choose among accesses are not asked for executions.
    fn choose(&mut self, _filter: &Filter, _header: &FrameHeader) -> Range<usize> {
        0..self.len()
    }

    fn cycle(&self, item: usize) -> u64 {
        self.first_cycle(item)
    }

    fn has_memory(&self) -> bool {
        !self.is_empty()
    }

    fn is_unused(&self) -> bool {
        Self::strong_count(self) == 1
    }
}

//! Decodes frames on other threads before a cursor reaches them, so that
//! reading uses the cores that the consumer of the entries leaves idle.
//!
//! Frames are independent of each other; the result is the same, in the same order. All cursors of this process
//! share a few threads at a time, which bounds the memory: a cursor that gets none decodes its frames itself.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::{content::FrameContent, file::FrameError, stream::Stream, trace::TraceData};
use crate::directory::FrameRef;

/// Frames that are decoded ahead at most, however many cores there are: a frame takes tens of megabytes.
const MOST: usize = 4;
/// Frames with fewer entries are not worth a thread.
const FEW: u64 = 1 << 14;
/// Frames with more entries take hundreds of megabytes: there is one at a time. memtap writes none unless it is told to.
const MANY: u64 = 1 << 21;

/// Frames that are being decoded ahead, or wait. Only a bound: nothing is ordered by it.
static AHEAD: AtomicUsize = AtomicUsize::new(0);

/// The right to have one frame decoded ahead.
#[derive(Debug)]
struct Permit;

impl Permit {
    fn get() -> Option<Self> {
        static LIMIT: OnceLock<usize> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let limit = *LIMIT.get_or_init(|| (cores() - 1).min(MOST));
        let more = |ahead| (ahead < limit).then_some(ahead + 1);
        AHEAD.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        AHEAD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What decoding a frame gave.
pub(super) type Decoded<C> = Result<C, FrameError>;

/// A frame on its way.
#[derive(Debug)]
struct FrameAhead<C> {
    place: usize,
    decoding: JoinHandle<Decoded<C>>,
    _permit: Permit,
}

/// The frames that a cursor has had decoded ahead, in their order.
#[derive(Debug)]
pub(super) struct FramesAhead<C> {
    frames: VecDeque<FrameAhead<C>>,
    /// Frames from this one on have not been looked at.
    next: usize,
    /// Memory of frames that were read, for the next ones.
    spare: Vec<C>,
}

impl<C> Default for FramesAhead<C> {
    fn default() -> Self {
        Self { frames: VecDeque::new(), next: 0, spare: Vec::new() }
    }
}

impl<C: FrameContent> FramesAhead<C> {
    /// Begins to decode frames after `place` that may be wanted, as far as threads are free. `end` is the cycle from which on entries may
    /// be left out of a frame.
    pub(super) fn start(
        &mut self,
        inner: &Arc<TraceData>,
        stream: &Arc<Stream>,
        place: usize,
        possible: impl Fn(usize, &FrameRef) -> bool,
        end: impl Fn(&FrameRef) -> Option<u64>,
    ) {
        self.next = self.next.max(place + 1);
        while self.frames.len() < MOST
            && let Some(&frame) = stream.frames.get(self.next)
        {
            if !(FEW..=MANY).contains(&frame.header.entries) || !possible(self.next, &frame) {
                self.next += 1;
                continue;
            }
            let Some(permit) = Permit::get() else { return };
            let (inner, stream, end) = (inner.clone(), stream.clone(), end(&frame));
            let unused = self.spare.iter().position(C::is_unused);
            let mut content = unused.map_or_else(C::default, |place| self.spare.swap_remove(place));
            let decode = move || {
                content.decode(&stream, &inner.file, &inner.encoders, &frame, end)?;
                Ok(content)
            };
            // Without a thread the cursor does it.
            let Ok(decoding) = std::thread::Builder::new().spawn(decode) else { return };
            self.frames.push_back(FrameAhead { place: self.next, decoding, _permit: permit });
            self.next += 1;
        }
    }

    /// The content of a frame, if it was decoded ahead.
    pub(super) fn take(&mut self, place: usize) -> Option<Decoded<C>> {
        while self.frames.front().is_some_and(|frame| frame.place < place) {
            self.frames.pop_front();
        }
        let frame = self.frames.pop_front_if(|frame| frame.place == place)?;
        let decoded = frame.decoding.join();
        Some(decoded.unwrap_or(Err(FrameError::Damaged("its decoder failed"))))
    }

    /// Keeps the memory of what was read.
    pub(super) fn give_back(&mut self, content: C) {
        if self.spare.len() < MOST && content.has_memory() {
            self.spare.push(content);
        }
    }
}

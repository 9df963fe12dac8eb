//! The frames of a trace with what the page index says of them. Tiles
//! are drawn from these where they need not be exact to the access.
//!
//! A frame has a hundred thousand accesses or more, and the index has one count per page for all of them. Where a
//! tile has several columns for a frame, more detail is worth the cost: the frame is decoded once, in the background,
//! and counted in [`SLICES`] parts of its time. These counts are kept in memory, up to a limit, and written nowhere.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use analysis::Session;
use memref::{Access, AccessKind, ProcessId, ThreadId};
use rustc_hash::FxHashMap;
use trace_format::{BuildStep, Filter, Interval, PageCell, PageIndex, StreamKind, StreamReader, Trace};

use crate::divided::Divided;
use crate::error::Error;
use crate::physical::MachineCounter;
use crate::shown::ShownAccesses;

/// Parts that a frame's time is counted in.
pub(crate) const SLICES: u64 = 64;
/// Cells of slices that are kept at most: 24 bytes each.
const MOST_SLICE_CELLS: usize = 4 << 20;
/// Bits of a page of 4,096 bytes.
pub(crate) const PAGE_SHIFT: u8 = 12;

/// Counts of a page in some stretch of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapCell {
    /// The page's number; the size of pages is the frame's.
    pub(crate) page: u64,
    /// Loads, stores, modifies.
    pub(crate) counts: [u32; 3],
    /// Which part of the frame's time.
    pub(crate) slice: u16,
}

/// A frame of accesses of one thread.
#[derive(Debug)]
pub(crate) struct MapFrame {
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
    /// Numbers of its accesses among those of its thread.
    pub(crate) entries: Range<u64>,
    pub(crate) cycles: Range<u64>,
    /// Bits of its pages' size in `cells`.
    pub(crate) shift: u8,
    pub(crate) cells: Box<[MapCell]>,
    /// Of a vCPU: its pages are those of physical memory.
    pub(crate) physical: bool,
    /// Its accesses could not be read.
    pub(crate) unreadable: bool,
    slices: OnceLock<Box<[MapCell]>>,
}

impl MapFrame {
    /// Its cells by parts of its time, with pages of 4,096 bytes, once they were counted.
    pub(crate) fn slices(&self) -> Option<&[MapCell]> {
        self.slices.get().map(AsRef::as_ref)
    }

    /// The cycles of a part of its time.
    pub(crate) fn slice_cycles(&self, slice: u16) -> Range<u64> {
        let parts = self.parts();
        parts.first(u64::from(slice))..parts.first(u64::from(slice) + 1)
    }

    fn parts(&self) -> Divided {
        Divided { range: self.cycles.clone(), parts: SLICES }
    }

    /// Its accesses.
    pub(crate) fn accesses(&self, session: &Session) -> Result<ShownAccesses, analysis::Error> {
        let filter = Filter { index: Some(self.entries.clone()), ..Filter::default() };
        ShownAccesses::new(session, self.thread, &filter, self.physical)
    }
}

/// The number of an access' kind in counts; `None` for what counts nothing.
pub(crate) fn kind_number(access: &Access) -> Option<usize> {
    match access.kind {
        AccessKind::Load => Some(0),
        AccessKind::Store => Some(1),
        AccessKind::Modify => Some(2),
        AccessKind::Prefetch => None,
    }
}

/// The streams of accesses, in the order of the file.
fn access_streams(trace: &Trace) -> impl Iterator<Item = (ThreadId, StreamReader)> {
    trace.streams().filter_map(|info| {
        let kind = StreamKind::from_guid(info.description.entry_type.guid);
        let is_accesses = matches!(kind, Some(StreamKind::Accesses | StreamKind::DataAccesses));
        let thread = info.description.thread.filter(|_| is_accesses)?;
        Some((thread, trace.stream(info.number)?))
    })
}

/// All frames, and who counts them again.
#[derive(Debug)]
pub(crate) struct MapFrames {
    pub(crate) frames: Vec<MapFrame>,
    wanted: Mutex<VecDeque<usize>>,
    more: Condvar,
    over: AtomicBool,
    /// Cells of slices so far: only a limit, so relaxed.
    slice_cells: AtomicUsize,
}

impl MapFrames {
    /// Of a trace with its index.
    pub(crate) fn new(session: &Session, index: &PageIndex) -> Result<Self, Error> {
        let mut cells = index.cells().map_err(Error::NoIndex)?.into_iter();
        let of_frame = |_: ThreadId, _: &Range<u64>| {
            Ok(cells.next().map(|(shift, cells)| (shift, cells.iter().map(cell_of).collect::<Vec<_>>())))
        };
        Self::with_cells(session, false, of_frame)
    }

    /// Of a machine, whose physical pages no index has: all of it is read. `progress` is told of each frame, and not what it has.
    pub(crate) fn of_machine(
        session: &Session,
        progress: &mut dyn FnMut(&BuildStep<'_>),
    ) -> Result<Self, Error> {
        let mut counter = MachineCounter::new(session);
        let streams = access_streams(session.trace());
        let (mut done, all) = (0, streams.map(|(_, stream)| stream.segments()).sum());
        Self::with_cells(session, true, |thread, entries| {
            let cells = counter.cells(thread, entries)?;
            done += 1;
            let (cycles, whole) = (Interval::NONE, Interval::NONE);
            progress(&BuildStep { done, all, process: ProcessId::default(), cycles, whole, cells: &[] });
            Ok(Some((PAGE_SHIFT, cells)))
        })
    }

    /// `cells` gives those of each frame, in their order: the thread, and the numbers of its accesses.
    fn with_cells(
        session: &Session,
        physical: bool,
        mut cells: impl FnMut(ThreadId, &Range<u64>) -> Result<Option<(u8, Vec<MapCell>)>, analysis::Error>,
    ) -> Result<Self, Error> {
        let trace = session.trace();
        let mut frames = Vec::new();
        for (thread, reader) in access_streams(trace) {
            let process = trace.shard(thread).process();
            for segment in (0..reader.segments()).filter_map(|place| reader.segment(place)) {
                let entries = segment.first_index..segment.first_index + segment.entries;
                let Some((shift, counted)) = cells(thread, &entries)? else { break };
                let interval = segment.bounds.cycles;
                frames.push(MapFrame {
                    process,
                    thread,
                    entries,
                    physical,
                    cycles: interval.min..interval.max.saturating_add(1),
                    shift,
                    unreadable: counted.is_empty() && segment.entries > 0,
                    cells: counted.into_iter().filter(|cell| cell.counts != [0; 3]).collect(),
                    slices: OnceLock::new(),
                });
            }
        }
        Ok(Self {
            frames,
            wanted: Mutex::default(),
            more: Condvar::new(),
            over: AtomicBool::new(false),
            slice_cells: AtomicUsize::new(0),
        })
    }

    /// Asks for a finer count of these frames, before those that were asked for earlier. Says how many of them will get one.
    pub(crate) fn want(&self, numbers: &[usize]) -> usize {
        if numbers.is_empty() || self.slice_cells.load(Ordering::Relaxed) >= MOST_SLICE_CELLS {
            return 0;
        }
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.clear();
        wanted.extend(numbers);
        self.more.notify_all();
        numbers.len()
    }

    /// Counts what is wanted, until [`Self::stop`].
    pub(crate) fn count_in_slices(&self, session: &Session) {
        while let Some(number) = self.next() {
            let frame = &self.frames[number];
            if frame.slices.get().is_none()
                && let Some(cells) = slices(session, frame)
            {
                self.slice_cells.fetch_add(cells.len(), Ordering::Relaxed);
                let _first = frame.slices.set(cells);
            }
        }
    }

    fn next(&self) -> Option<usize> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.over.load(Ordering::Relaxed) {
                return None;
            }
            if self.slice_cells.load(Ordering::Relaxed) >= MOST_SLICE_CELLS {
                wanted.clear();
            }
            match wanted.pop_front() {
                Some(number) => return Some(number),
                None => wanted = self.more.wait(wanted).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Ends [`Self::count_in_slices`].
    pub(crate) fn stop(&self) {
        let _wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        self.over.store(true, Ordering::Relaxed);
        self.more.notify_all();
    }
}

fn cell_of(cell: &PageCell) -> MapCell {
    MapCell { page: cell.page, counts: cell.counts, slice: 0 }
}

/// A frame's cells by parts of its time; `None` where it can't be read.
fn slices(session: &Session, frame: &MapFrame) -> Option<Box<[MapCell]>> {
    let mut cursor = frame.accesses(session).ok()?;
    let parts = frame.parts();
    let mut counts = SliceCounts::default();
    let mut last = ((u16::MAX, u64::MAX), [0u32; 3]);
    while let Some((_, accesses)) = cursor.next_block().ok()? {
        for access in accesses {
            let Some(kind) = kind_number(access) else { continue };
            let key = (parts.part(access.cycle) as u16, access.addr.0 >> PAGE_SHIFT);
            if key != last.0 {
                let (key, counted) = std::mem::replace(&mut last, (key, [0; 3]));
                enter(&mut counts, key, counted);
            }
            last.1[kind] += 1;
        }
    }
    enter(&mut counts, last.0, last.1);
    if cursor.is_lossy() {
        return None;
    }
    let cells = counts.into_iter().map(|((slice, page), counts)| MapCell { page, counts, slice });
    Some(cells.collect())
}

/// Counts by part of a frame's time and page.
type SliceCounts = FxHashMap<(u16, u64), [u32; 3]>;

fn enter(counts: &mut SliceCounts, key: (u16, u64), more: [u32; 3]) {
    if more != [0; 3] {
        let counted = counts.entry(key).or_default();
        for (count, more) in counted.iter_mut().zip(more) {
            *count += more;
        }
    }
}

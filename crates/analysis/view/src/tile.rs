//! Tiles: the counts of a window of cycles and addresses, as a grid.
//!
//! The counts of a tile add up to what happened in its window. A frame that extends beyond the window is
//! decoded. Counts from the index or from slices are divided so that neighbouring tiles together have
//! all of them. Where too many frames are cut to decode them all, the tile says how many are estimated.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use analysis::threads;
use serde_json::{Value, json};

use crate::axis::AddressAxis;
use crate::error::Refusal;
use crate::frames::{MapCell, MapFrame, PAGE_SHIFT, SLICES, kind_number};
use crate::grid::CountGrid;
use crate::map::TraceMap;
use crate::part::MapPart;

/// Frames that are decoded for one tile at most.
pub(crate) const MOST_DECODED: usize = 8;
/// A frame that has no more columns is fine enough: it may be shorter than one, and it takes long to count all of a trace again.
const LEAST_COLUMNS: u64 = 2;

/// Which accesses are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CountedKinds {
    #[default]
    All,
    /// Those that read: loads and modifies.
    Loads,
    /// Those that write: stores and modifies.
    Stores,
}

impl CountedKinds {
    /// Whether loads, stores and modifies are counted.
    fn mask(self) -> [u64; 3] {
        match self {
            Self::All => [1, 1, 1],
            Self::Loads => [1, 0, 1],
            Self::Stores => [0, 1, 1],
        }
    }

    /// Whether accesses of that kind are counted.
    pub(crate) fn has(self, kind: usize) -> bool {
        self.mask()[kind] > 0
    }

    fn of(self, cell: &MapCell) -> u64 {
        cell.counts.iter().zip(self.mask()).map(|(&count, one)| u64::from(count) * one).sum()
    }
}

/// A window, and how fine its grid is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TileRequest {
    pub(crate) part: MapPart,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) what: CountedKinds,
    /// Whether memtap's own memory has no place in it.
    pub(crate) hides_tracer: bool,
    /// Whether it is told whose accesses each cell has most of.
    pub(crate) by_thread: bool,
}

/// A tile.
#[derive(Debug)]
pub(crate) struct MapTile {
    pub(crate) grid: CountGrid,
    /// Frames of which something is in the window, and of these the decoded ones.
    frames: usize,
    decoded: usize,
    /// Frames that will be drawn more finely when the same tile is asked for again.
    waiting: usize,
    /// Frames whose accesses are spread over more than their place: a page has several rows, or a part of a frame several columns.
    spread: usize,
    /// Frames of which only a part is in the window, and how much is estimated.
    pub(crate) estimated: usize,
}

impl MapTile {
    /// What is said of it before its counts.
    pub(crate) fn json(&self) -> Value {
        let counts = &self.grid.counts;
        json!({
            "sum": counts.iter().map(|&count| u64::from(count)).sum::<u64>(),
            "most": counts.iter().max(),
            "frames": self.frames,
            "decoded": self.decoded,
            "waiting": self.waiting,
            "spread": self.spread,
            "estimated": self.estimated,
        })
    }
}

/// A frame under a window.
struct FrameUnder<'a> {
    number: usize,
    frame: &'a MapFrame,
    /// Where it is on the axis of time.
    span: Range<u64>,
    /// The window ends within its time, or within a page of it.
    cut_in_time: bool,
    cut_in_place: bool,
    /// It can be drawn more finely.
    coarse: bool,
}

/// The bytes of a cell's page.
fn bytes_of(page: u64, shift: u8) -> Range<u64> {
    page.saturating_mul(1 << shift)..page.saturating_add(1).saturating_mul(1 << shift)
}

impl TraceMap {
    /// Draws a tile.
    pub(crate) fn tile(&self, request: &TileRequest) -> Result<MapTile, Refusal> {
        self.tile_with(request, MOST_DECODED)
    }

    /// Draws a tile for which so many frames are decoded at most.
    pub(crate) fn tile_with(&self, request: &TileRequest, most_decoded: usize) -> Result<MapTile, Refusal> {
        let part = &request.part;
        let Some(process) = self.processes.get(&part.process) else {
            return Err(Refusal::wrong("process: no process has that number"));
        };
        let axis = process.axis_of(request.hides_tracer);
        let places = axis.place(part.addresses.start)..axis.place(part.addresses.end);
        if places.is_empty() {
            return Err(Refusal::wrong("low, high: nothing was accessed between these addresses"));
        }
        let mut grid = CountGrid::new(part.span.clone(), places, request.width, request.height);
        let mut under = self.under(request, &grid);
        let frames = under.len();
        // All of them where they are few; else those that have to be.
        let few = frames <= most_decoded;
        let is_cut = |frame: &FrameUnder| frame.cut_in_time || frame.cut_in_place;
        let first = |frame: &FrameUnder| if few { is_cut(frame) || frame.coarse } else { frame.cut_in_time };
        under.sort_by_key(|frame| !first(frame));
        let decoded = under.iter().take(most_decoded).take_while(|frame| first(frame)).count();
        let rest = under.split_off(decoded);
        let empty = (!under.is_empty()).then(|| grid.clone());
        let mut wanted = Vec::new();
        let (mut spread, mut estimated) = (0, 0);
        let counted = std::thread::scope(|scope| {
            let counting =
                empty.as_ref().map(|empty| scope.spawn(|| self.decode(request, axis, &under, empty)));
            for under in &rest {
                estimated += usize::from(is_cut(under));
                let columns = grid.columns_of(&under.span);
                match under.frame.slices().filter(|_| under.coarse) {
                    Some(cells) => {
                        spread += usize::from(columns > SLICES || grid.row_places() < 1 << PAGE_SHIFT);
                        self.draw(request, axis, under, (cells, PAGE_SHIFT), &mut grid);
                    }
                    None => {
                        spread += usize::from(under.coarse);
                        if columns > LEAST_COLUMNS {
                            wanted.push(under.number);
                        }
                        self.draw(request, axis, under, (&under.frame.cells, under.frame.shift), &mut grid);
                    }
                }
            }
            counting.map(|counting| counting.join().unwrap_or_else(|panic| resume_unwind(panic))).transpose()
        });
        if let Some(counted) = counted? {
            grid.join(&counted);
        }
        let waiting = self.frames.want(&wanted);
        Ok(MapTile { grid, frames, decoded, waiting, spread, estimated })
    }

    /// The frames of which something may be in the window.
    fn under(&self, request: &TileRequest, grid: &CountGrid) -> Vec<FrameUnder<'_>> {
        let mut all = Vec::new();
        let MapPart { process, thread, axis, span: window, addresses } = &request.part;
        let (low, high) = (addresses.start, addresses.end);
        for (number, frame) in self.frames.frames.iter().enumerate() {
            if frame.process != *process || thread.is_some_and(|thread| thread != frame.thread) {
                continue;
            }
            let span = self.stretch(*axis, frame.thread, &frame.cycles);
            if span.start >= window.end || span.end <= window.start {
                continue;
            }
            let first = frame.cells.partition_point(|cell| bytes_of(cell.page, frame.shift).end <= low);
            let end = frame.cells.partition_point(|cell| bytes_of(cell.page, frame.shift).start < high);
            let Some(cells) = frame.cells.get(first..end).filter(|cells| !cells.is_empty()) else { continue };
            let cuts = |cell: &MapCell| {
                let bytes = bytes_of(cell.page, frame.shift);
                bytes.start < low || bytes.end > high
            };
            all.push(FrameUnder {
                number,
                frame,
                cut_in_time: span.start < window.start || span.end > window.end,
                cut_in_place: cells.first().is_some_and(cuts) || cells.last().is_some_and(cuts),
                coarse: grid.row_places() < 1 << frame.shift || grid.columns_of(&span) > 1,
                span,
            });
        }
        all
    }

    /// Counts the accesses of some frames one by one, on several threads, in a grid like that one, which is empty.
    fn decode(
        &self,
        request: &TileRequest,
        axis: &AddressAxis,
        frames: &[FrameUnder<'_>],
        empty: &CountGrid,
    ) -> Result<CountGrid, analysis::Error> {
        let next = AtomicUsize::new(0);
        let count = || {
            let mut own = empty.clone();
            while let Some(under) = frames.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.count(request, axis, under.frame, &mut own)?;
            }
            Ok::<_, analysis::Error>(own)
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads().min(frames.len())).map(|_| scope.spawn(count)).collect();
            let mut all = count()?;
            for other in others {
                all.join(&other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
            }
            Ok(all)
        })
    }

    fn count(
        &self,
        request: &TileRequest,
        axis: &AddressAxis,
        frame: &MapFrame,
        grid: &mut CountGrid,
    ) -> Result<(), analysis::Error> {
        let mask = request.what.mask();
        let MapPart { axis: time_axis, span, addresses, .. } = &request.part;
        let mut moments = self.moments(*time_axis, frame.thread);
        let mut cursor = frame.accesses(&self.session)?;
        while let Some((_, accesses)) = cursor.next_block()? {
            for access in accesses {
                let when = moments.when(access.cycle);
                if span.contains(&when)
                    && addresses.contains(&access.addr.0)
                    && kind_number(access).is_some_and(|kind| mask[kind] > 0)
                    && (!request.hides_tracer || axis.has(access.addr.0))
                {
                    grid.add(when, axis.place(access.addr.0));
                }
            }
        }
        Ok(())
    }

    /// Draws a frame from cells of pages of a size.
    fn draw(
        &self,
        request: &TileRequest,
        axis: &AddressAxis,
        under: &FrameUnder<'_>,
        (cells, shift): (&[MapCell], u8),
        grid: &mut CountGrid,
    ) {
        let FrameUnder { frame, span, .. } = under;
        let addresses = &request.part.addresses;
        // Those of the index are of the whole frame.
        let in_slices = !std::ptr::eq(cells, &*frame.cells);
        for cell in cells {
            let bytes = bytes_of(cell.page, shift);
            if bytes.end <= addresses.start || bytes.start >= addresses.end {
                continue;
            }
            let places = axis.place(bytes.start)..axis.place(bytes.end);
            let of_slice = in_slices
                .then(|| self.stretch(request.part.axis, frame.thread, &frame.slice_cycles(cell.slice)));
            grid.spread(request.what.of(cell), of_slice.as_ref().unwrap_or(span), &places);
        }
    }
}

#[cfg(test)]
#[path = "tile_tests.rs"]
mod tests;

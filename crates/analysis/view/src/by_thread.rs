//! Which thread makes most of the accesses of each cell of a tile, so that a picture can have the colours of threads.

use memref::ThreadId;

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::tile::{MOST_DECODED, MapTile, TileRequest};

/// Threads with a colour of their own: those with most accesses.
const MOST_COLORS: usize = 7;
/// What stands for all other threads, and for none.
const OTHERS: u8 = MOST_COLORS as u8;
const NONE: u8 = u8::MAX;

/// Whose accesses the cells of a tile have most of.
#[derive(Debug)]
pub(crate) struct CellThreads {
    /// The threads that have a number, by that number.
    pub(crate) threads: Vec<ThreadId>,
    /// The number of each cell's thread; that after the last one for the others together, 255 where there is no access.
    pub(crate) cells: Vec<u8>,
}

/// Counts of a cell of threads by their numbers, and of all.
fn busiest(of_threads: impl Iterator<Item = u32>, all: u32) -> u8 {
    let (mut busiest, mut most, mut known) = (NONE, 0, 0_u64);
    for (number, count) in (0..).zip(of_threads) {
        known += u64::from(count);
        if count > most {
            (busiest, most) = (number, count);
        }
    }
    let others = u64::from(all).saturating_sub(known);
    if others > u64::from(most) { OTHERS } else { busiest }
}

impl TraceMap {
    /// A tile, and whose accesses its cells have.
    pub(crate) fn tile_by_thread(&self, request: &TileRequest) -> Result<(MapTile, CellThreads), Refusal> {
        let threads = self.colored_threads(&request.part);
        let decoded = MOST_DECODED / threads.len().max(1);
        let mut tiles = Vec::new();
        for &thread in &threads {
            let part = MapPart { thread: Some(thread), ..request.part.clone() };
            tiles.push(self.tile_with(&TileRequest { part, ..request.clone() }, decoded)?);
        }
        // Last, so that its frames are those that are counted again.
        let tile = self.tile(request)?;
        let cell = |(place, &all): (usize, &u32)| {
            busiest(tiles.iter().map(|tile| tile.grid.counts.get(place).copied().unwrap_or(0)), all)
        };
        let cells = tile.grid.counts.iter().enumerate().map(cell).collect();
        Ok((tile, CellThreads { threads, cells }))
    }

    /// The threads of a part's process that have colours, the busiest first.
    fn colored_threads(&self, part: &MapPart) -> Vec<ThreadId> {
        let records = self.session.trace().threads().iter();
        let mut threads: Vec<ThreadId> =
            records.filter(|record| record.process == part.process).map(|record| record.thread).collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(self.accesses_of(*thread)), *thread));
        threads.truncate(MOST_COLORS);
        threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_belongs_to_who_has_most_of_it() {
        let check = |of_threads: &[u32], all, expect| {
            assert_eq!(busiest(of_threads.iter().copied(), all), expect, "{of_threads:?} {all}");
        };
        check(&[], 0, NONE);
        check(&[0, 0], 0, NONE);
        check(&[1, 5, 5], 11, 1);
        check(&[1, 5], 12, OTHERS);
        check(&[1, 5], 11, 1);
        check(&[0, 0], 2, OTHERS);
        // A part of a frame that is estimated may have more here than in the whole tile.
        check(&[3], 2, 0);
    }
}

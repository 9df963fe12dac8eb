//! A grid of counts over time and addresses: the contents of a tile.

use std::ops::Range;

use crate::divided::Divided;

/// Counts of accesses by columns of time and rows of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountGrid {
    across: Divided,
    down: Divided,
    /// Row by row, the lowest addresses first.
    pub(crate) counts: Vec<u32>,
}

impl CountGrid {
    pub(crate) fn new(cycles: Range<u64>, places: Range<u64>, width: u32, height: u32) -> Self {
        Self {
            across: Divided { range: cycles, parts: u64::from(width) },
            down: Divided { range: places, parts: u64::from(height) },
            counts: vec![0; width as usize * height as usize],
        }
    }

    #[inline]
    fn slot(&mut self, column: u64, row: u64) -> &mut u32 {
        &mut self.counts[(row * self.across.parts + column) as usize]
    }

    /// Counts one access, if it is here.
    #[inline]
    pub(crate) fn add(&mut self, cycle: u64, place: u64) {
        if self.across.range.contains(&cycle) && self.down.range.contains(&place) {
            let slot = self.slot(self.across.part(cycle), self.down.part(place));
            *slot = slot.saturating_add(1);
        }
    }

    /// Counts accesses that were somewhere in these cycles and places, as if they were evenly there.
    pub(crate) fn spread(&mut self, count: u64, cycles: &Range<u64>, places: &Range<u64>) {
        let (across, down) = (self.across.clone(), self.down.clone());
        across.spread(count, cycles, |column, count| {
            down.spread(count, places, |row, count| {
                let slot = self.slot(column, row);
                *slot = slot.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            });
        });
    }

    /// Adds another grid of the same shape.
    pub(crate) fn join(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// Columns that a stretch of cycles has here.
    pub(crate) fn columns_of(&self, cycles: &Range<u64>) -> u64 {
        self.across.parts_of(cycles.end - cycles.start)
    }

    /// Places of a row.
    pub(crate) fn row_places(&self) -> u64 {
        (self.down.range.end - self.down.range.start) / self.down.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(grid: &CountGrid) -> u64 {
        grid.counts.iter().map(|&count| u64::from(count)).sum()
    }

    #[test]
    fn what_is_spread_over_parts_is_what_is_spread_over_the_whole() {
        let (cycles, places) = (17..1_018, 5..777);
        for parts in [1, 2, 3, 7, 50] {
            let mut all = 0;
            for part in 0..parts {
                let cut = |part: u64| part * 1_200 / parts;
                let mut grid = CountGrid::new(cut(part)..cut(part + 1), 0..1_000, 13, 11);
                grid.spread(997, &cycles, &places);
                all += sum(&grid);
            }
            assert_eq!(all, 997, "{parts} parts");
        }
    }

    #[test]
    fn single_accesses_are_in_their_cells() {
        let mut grid = CountGrid::new(10..20, 100..104, 5, 2);
        for (cycle, place) in [(10, 100), (11, 101), (19, 103), (20, 103), (19, 104), (9, 100)] {
            grid.add(cycle, place);
        }
        assert_eq!(grid.counts, [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        // Large values do not overflow.
        let mut grid = CountGrid::new(0..u64::MAX, 0..u64::MAX, 4096, 2);
        grid.add(u64::MAX - 1, u64::MAX - 1);
        assert_eq!(grid.counts.last(), Some(&1));
    }

    #[test]
    fn one_count_is_one_cell() {
        let mut grid = CountGrid::new(0..100, 0..100, 10, 10);
        grid.spread(1, &(0..50), &(0..100));
        assert_eq!((sum(&grid), grid.counts.iter().filter(|&&count| count > 0).count()), (1, 1));
    }
}

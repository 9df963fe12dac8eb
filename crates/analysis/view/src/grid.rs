//! A grid of counts over time and addresses: the contents of a tile.

use std::ops::Range;

/// Counts of accesses by columns of time and rows of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountGrid {
    across: Divided,
    down: Divided,
    /// Row by row, the lowest addresses first.
    pub(crate) counts: Vec<u32>,
}

/// A range in so many parts of nearly the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Divided {
    range: Range<u64>,
    parts: u32,
}

impl Divided {
    /// The part that a value of the range is in.
    #[inline]
    fn part(&self, value: u64) -> u32 {
        let (offset, len) = (value - self.range.start, self.range.end - self.range.start);
        // Mostly the product fits, and the division is a fast one.
        match offset.checked_mul(u64::from(self.parts)) {
            Some(product) => (product / len) as u32,
            None => (u128::from(offset) * u128::from(self.parts) / u128::from(len)) as u32,
        }
    }

    /// The first value of a part.
    fn first(&self, part: u32) -> u64 {
        let len = u128::from(self.range.end - self.range.start);
        self.range.start + (len * u128::from(part)).div_ceil(u128::from(self.parts)) as u64
    }

    /// Divides a count that belongs to all of `over` evenly, and says what comes to the parts here. However a range is cut, each cut gets the same.
    fn spread(&self, count: u64, over: &Range<u64>, mut each: impl FnMut(u32, u64)) {
        let here = over.start.max(self.range.start)..over.end.min(self.range.end);
        if here.is_empty() || count == 0 {
            return;
        }
        let len = u128::from(over.end - over.start);
        let until = |value: u64| (u128::from(count) * u128::from(value - over.start) / len) as u64;
        let (first, last) = (self.part(here.start), self.part(here.end - 1));
        let mut done = until(here.start);
        for part in first..=last {
            let end = if part == last { here.end } else { self.first(part + 1) };
            let now = until(end);
            if now > done {
                each(part, now - done);
            }
            done = now;
        }
    }
}

impl CountGrid {
    pub(crate) fn new(cycles: Range<u64>, places: Range<u64>, width: u32, height: u32) -> Self {
        Self {
            across: Divided { range: cycles, parts: width },
            down: Divided { range: places, parts: height },
            counts: vec![0; width as usize * height as usize],
        }
    }

    fn slot(&mut self, column: u32, row: u32) -> &mut u32 {
        &mut self.counts[row as usize * self.across.parts as usize + column as usize]
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
        let len = self.across.range.end - self.across.range.start;
        (u128::from(cycles.end - cycles.start) * u128::from(self.across.parts)).div_ceil(u128::from(len))
            as u64
    }

    /// Places of a row.
    pub(crate) fn row_places(&self) -> u64 {
        (self.down.range.end - self.down.range.start) / u64::from(self.down.parts)
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

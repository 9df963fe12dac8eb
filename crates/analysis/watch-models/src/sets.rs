//! The places of lines in a set-associative cache.

use std::ops::Range;

/// The shape of such a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    sets: u64,
    ways: usize,
}

impl Sets {
    /// As many lines, that many of them a set; at least one set of one line.
    pub(crate) fn new(lines: usize, ways: usize) -> Self {
        let ways = ways.max(1);
        Self { sets: (lines / ways).max(1) as u64, ways }
    }

    /// All lines.
    pub(crate) fn lines(self) -> usize {
        self.sets as usize * self.ways
    }

    /// The places where a line of that number may be.
    #[inline]
    pub(crate) fn of(self, number: u64) -> Range<usize> {
        // A division takes longer than all else that a look-up does.
        let set = if self.sets.is_power_of_two() { number & (self.sets - 1) } else { number % self.sets };
        let first = set as usize * self.ways;
        first..first + self.ways
    }
}

//! A value over time in bounded memory: the smallest and largest value
//! of each interval. Intervals double in length when there are too many.

/// Intervals kept at most.
const MOST: usize = 2048;

/// The smallest and the largest value of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The smallest.
    pub low: u32,
    /// The largest.
    pub high: u32,
}

/// The series.
#[derive(Clone, Debug)]
pub struct Series {
    intervals: Vec<Extremes>,
    /// Values in a full interval.
    stride: u64,
    /// Values in the last one.
    filled: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self { intervals: Vec::new(), stride: 1, filled: 1 }
    }
}

impl Series {
    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: u32) {
        if self.filled == self.stride {
            if self.intervals.len() == MOST {
                let join = |pair: &[Extremes]| Extremes {
                    low: pair[0].low.min(pair[1].low),
                    high: pair[0].high.max(pair[1].high),
                };
                self.intervals = self.intervals.chunks(2).map(join).collect();
                self.stride *= 2;
            }
            self.intervals.push(Extremes { low: value, high: value });
            self.filled = 1;
            return;
        }
        self.filled += 1;
        if let Some(last) = self.intervals.last_mut() {
            *last = Extremes { low: last.low.min(value), high: last.high.max(value) };
        }
    }

    /// Values in each interval but the last.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// Smallest and largest value of each interval.
    pub fn intervals(&self) -> &[Extremes] {
        &self.intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive() {
        let mut series = Series::default();
        for value in 0..100_000_u32 {
            series.push(if value == 77_777 { 1_000_000 } else { value % 10 + 1 });
        }
        assert!(series.intervals().len() <= MOST);
        assert_eq!(series.intervals().iter().map(|i| i.high).max(), Some(1_000_000));
        assert_eq!(series.intervals().iter().map(|i| i.low).min(), Some(1));
        let at = series.intervals().iter().position(|i| i.high == 1_000_000).unwrap() as u64;
        assert_eq!(at, 77_777 / series.stride());
    }
}

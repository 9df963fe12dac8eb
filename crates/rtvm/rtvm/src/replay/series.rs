//! A value over time in bounded memory: smallest and largest of each interval, which double in length when there are too
//! many.

/// Intervals kept at most.
const MOST: usize = 2048;

/// The series.
#[derive(Clone, Debug)]
pub struct Series {
    intervals: Vec<(u32, u32)>,
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
                let halves = self.intervals.chunks(2);
                self.intervals =
                    halves.map(|pair| (pair[0].0.min(pair[1].0), pair[0].1.max(pair[1].1))).collect();
                self.stride *= 2;
            }
            self.intervals.push((value, value));
            self.filled = 1;
            return;
        }
        self.filled += 1;
        if let Some((low, high)) = self.intervals.last_mut() {
            (*low, *high) = ((*low).min(value), (*high).max(value));
        }
    }

    /// Values in each interval but the last.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// Smallest and largest value of each interval.
    pub fn intervals(&self) -> &[(u32, u32)] {
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
        assert_eq!(series.intervals().iter().map(|i| i.1).max(), Some(1_000_000));
        assert_eq!(series.intervals().iter().map(|i| i.0).min(), Some(1));
        let at = series.intervals().iter().position(|i| i.1 == 1_000_000).unwrap() as u64;
        assert_eq!(at, 77_777 / series.stride());
    }
}

//! Runs of numbers - bytes or blocks - with the same watchpoints, in a balanced tree.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Watched;

/// Runs by their start. What is in none of them is not watched; neighbours differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: BTreeMap<u64, (u64, Watched)>,
}

impl Runs {
    /// The largest run of equal watchpoints that a number is in.
    pub(crate) fn get(&self, number: u64) -> (Range<u64>, Watched) {
        let mut start = 0;
        if let Some((&from, &(end, watched))) = self.runs.range(..=number).next_back() {
            if number < end {
                return (from..end, watched);
            }
            start = end;
        }
        let end = self.runs.range(number..).next().map_or(u64::MAX, |(&from, _)| from);
        (start..end, Watched::NONE)
    }

    /// The starts of watched runs that lie in `range`, its end included.
    pub(crate) fn starts(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        self.runs.range(range.start..=range.end).map(|(&start, _)| start)
    }

    /// Gives every number of the range these watchpoints.
    pub(crate) fn set(&mut self, range: Range<u64>, watched: Watched) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // What begins before and reaches into the range, or ends at its start.
        if let Some((&from, &(to, old))) = self.runs.range(..start).next_back()
            && to >= start
        {
            if old == watched {
                start = from;
                end = end.max(to);
            } else if to > start {
                self.runs.insert(from, (start, old));
                if to > end {
                    self.runs.insert(end, (to, old));
                }
            }
        }
        // What begins inside the range, or at its end.
        while let Some((&from, &(to, old))) = self.runs.range(start..=end).next() {
            if from == end && old != watched {
                break;
            }
            self.runs.remove(&from);
            if to > end {
                if old == watched {
                    end = to;
                } else {
                    self.runs.insert(end, (to, old));
                }
                break;
            }
        }
        if !watched.is_none() {
            self.runs.insert(start, (end, watched));
        }
    }
}

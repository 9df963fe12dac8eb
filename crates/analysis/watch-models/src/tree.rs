//! The backing store: a balanced tree of ranges that do not overlap (section 2.3.1).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Change, Watched};

/// Ranges by their start. What is in none of them is not watched; neighbours differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeTree {
    ranges: BTreeMap<u64, (u64, Watched)>,
}

impl RangeTree {
    /// Levels that a binary search tree of this size has: what a handler goes through.
    pub(crate) fn levels(&self) -> u64 {
        u64::from(usize::BITS - self.ranges.len().leading_zeros()) + 1
    }

    /// The largest range around `addr` of equal watchpoints.
    pub(crate) fn get(&self, addr: u64) -> (Range<u64>, Watched) {
        let mut start = 0;
        if let Some((&from, &(end, watched))) = self.ranges.range(..=addr).next_back() {
            if addr < end {
                return (from..end, watched);
            }
            start = end;
        }
        let end = self.ranges.range(addr..).next().map_or(u64::MAX, |(&from, _)| from);
        (start..end, Watched::NONE)
    }

    /// All ranges that meet `range`, clipped to it, unwatched ones included.
    pub(crate) fn each(&self, range: Range<u64>, mut visit: impl FnMut(Range<u64>, Watched)) {
        let mut at = range.start;
        let first = self.ranges.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        for (&start, &(end, watched)) in self.ranges.range(first..range.end.max(first)) {
            let (start, end) = (start.max(range.start), end.min(range.end));
            if start >= end {
                continue;
            }
            if at < start {
                visit(at..start, Watched::NONE);
            }
            visit(start..end, watched);
            at = end;
        }
        if at < range.end {
            visit(at..range.end, Watched::NONE);
        }
    }

    /// How many ranges, unwatched ones included, `range` consists of.
    pub(crate) fn count(&self, range: Range<u64>) -> usize {
        let mut count = 0;
        self.each(range, |_, _| count += 1);
        count
    }

    /// Whether any byte of the range is watched, for what.
    pub(crate) fn union(&self, range: Range<u64>) -> Watched {
        let mut all = Watched::NONE;
        self.each(range, |_, watched| all = all.with(watched));
        all
    }

    /// Gives every byte of the range these watchpoints.
    pub(crate) fn set(&mut self, range: Range<u64>, watched: Watched) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // What begins before and reaches into the range, or ends at its start.
        if let Some((&from, &(to, old))) = self.ranges.range(..start).next_back()
            && to >= start
        {
            if old == watched {
                start = from;
                end = end.max(to);
            } else if to > start {
                self.ranges.insert(from, (start, old));
                if to > end {
                    self.ranges.insert(end, (to, old));
                }
            }
        }
        // What begins inside the range, or at its end.
        while let Some((&from, &(to, old))) = self.ranges.range(start..=end).next() {
            if from == end && old != watched {
                break;
            }
            self.ranges.remove(&from);
            if to > end {
                if old == watched {
                    end = to;
                } else {
                    self.ranges.insert(end, (to, old));
                }
                break;
            }
        }
        if !watched.is_none() {
            self.ranges.insert(start, (end, watched));
        }
    }

    /// Changes every byte of the range.
    pub(crate) fn change(&mut self, range: Range<u64>, change: Change) {
        if let Change::Set(watched) = change {
            self.set(range, watched);
            return;
        }
        let mut pieces = Vec::new();
        self.each(range, |piece, old| {
            let new = change.apply(old);
            if new != old {
                pieces.push((piece, new));
            }
        });
        for (piece, new) in pieces {
            self.set(piece, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_change() -> impl Strategy<Value = Change> {
        (0..3_u8, 0..4_u8).prop_map(|(kind, bits)| match kind {
            0 => Change::Set(Watched::from_bits(bits)),
            1 => Change::Add(Watched::from_bits(bits)),
            _ => Change::Remove(Watched::from_bits(bits)),
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_a_map_of_bytes(ops in prop::collection::vec((0..200_u64, 0..60_u64, any_change()), 0..80)) {
            let mut tree = RangeTree::default();
            let mut bytes = [Watched::NONE; 300];
            for (start, len, change) in ops {
                tree.change(start..start + len, change);
                for byte in &mut bytes[start as usize..(start + len) as usize] {
                    *byte = change.apply(*byte);
                }
                for (addr, &byte) in bytes.iter().enumerate() {
                    let (range, watched) = tree.get(addr as u64);
                    prop_assert_eq!(watched, byte);
                    prop_assert!(range.contains(&(addr as u64)));
                    // Neighbours differ: what is found is the largest range.
                    if range.start > 0 {
                        prop_assert_ne!(bytes[range.start as usize - 1], byte);
                    }
                    prop_assert_eq!(bytes.get(range.end as usize).is_some_and(|&next| next == byte), false);
                }
            }
        }
    }
}

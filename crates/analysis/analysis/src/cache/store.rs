//! The lines that one cache level holds.

use super::{CacheShape, Replacement};

const DIRTY: u64 = 1;
const FETCHED: u64 = 2;
const FLAGS: u64 = DIRTY | FETCHED;
const FLAG_BITS: u32 = 2;
const EMPTY: u64 = u64::MAX;

/// A line that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether the prefetcher had brought it, and nobody had asked for it since.
    pub(super) was_fetched: bool,
}

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) line: u64,
    pub(super) is_dirty: bool,
}

/// One level's lines, set by set. With LRU each set is in the order of use, the last used first.
#[derive(Clone, Debug)]
pub(super) struct CacheStore {
    entries: Box<[u64]>,
    ways: usize,
    sets: u64,
    /// Where the number of sets is a power of two.
    mask: Option<u64>,
    replacement: Replacement,
    /// Pseudo-LRU: the bits of each set's tree.
    trees: Box<[u64]>,
    random: u64,
}

impl CacheStore {
    pub(super) fn new(shape: &CacheShape, replacement: Replacement) -> Self {
        let (sets, ways) = (shape.sets(), shape.ways as usize);
        let trees = if replacement == Replacement::PseudoLru { sets as usize } else { 0 };
        Self {
            entries: vec![EMPTY; sets as usize * ways].into_boxed_slice(),
            ways,
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            replacement,
            trees: vec![0; trees].into_boxed_slice(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    #[inline]
    fn set(&self, line: u64) -> usize {
        match self.mask {
            Some(mask) => (line & mask) as usize,
            None => (line % self.sets) as usize,
        }
    }

    #[inline]
    fn position(&self, set: usize, line: u64) -> Option<usize> {
        let begin = set * self.ways;
        self.entries[begin..begin + self.ways].iter().position(|entry| entry >> FLAG_BITS == line)
    }

    /// Asks for a line, which is used by that.
    #[inline]
    pub(super) fn access(&mut self, line: u64, writes: bool) -> Option<Found> {
        let set = self.set(line);
        let begin = set * self.ways;
        let dirty = if writes { DIRTY } else { 0 };
        // The last used one is asked for most often.
        let first = &mut self.entries[begin];
        if *first >> FLAG_BITS == line && *first & FETCHED == 0 && self.replacement != Replacement::PseudoLru
        {
            *first |= dirty;
            return Some(Found { was_fetched: false });
        }
        let place = self.position(set, line)?;
        let entry = self.entries[begin + place];
        let used = entry & !FETCHED | dirty;
        match self.replacement {
            Replacement::Lru => {
                self.entries.copy_within(begin..begin + place, begin + 1);
                self.entries[begin] = used;
            }
            Replacement::PseudoLru => {
                self.entries[begin + place] = used;
                self.point_away(set, place);
            }
            Replacement::Random => self.entries[begin + place] = used,
        }
        Some(Found { was_fetched: entry & FETCHED != 0 })
    }

    /// Whether it holds a line; this is no use of it.
    pub(super) fn has(&self, line: u64) -> bool {
        self.position(self.set(line), line).is_some()
    }

    /// Takes in a line that it does not hold.
    pub(super) fn fill(&mut self, line: u64, is_dirty: bool, was_fetched: bool) -> Option<Victim> {
        let set = self.set(line);
        let begin = set * self.ways;
        let flags = if is_dirty { DIRTY } else { 0 } | if was_fetched { FETCHED } else { 0 };
        let entry = line << FLAG_BITS | flags;
        let empty = self.entries[begin..begin + self.ways].iter().position(|entry| *entry == EMPTY);
        let place = empty.unwrap_or_else(|| self.choose(set));
        let old = self.entries[begin + place];
        if self.replacement == Replacement::Lru {
            self.entries.copy_within(begin..begin + place, begin + 1);
            self.entries[begin] = entry;
        } else {
            self.entries[begin + place] = entry;
            if self.replacement == Replacement::PseudoLru {
                self.point_away(set, place);
            }
        }
        (old != EMPTY).then_some(Victim { line: old >> FLAG_BITS, is_dirty: old & DIRTY != 0 })
    }

    /// Makes its copy dirty, if it has one; this is no use of it.
    pub(super) fn soil(&mut self, line: u64) -> bool {
        let set = self.set(line);
        match self.position(set, line) {
            Some(place) => {
                self.entries[set * self.ways + place] |= DIRTY;
                true
            }
            None => false,
        }
    }

    /// Its copy is as memory is from now on; whether it was dirty.
    pub(super) fn clean(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(place) = self.position(set, line) else { return false };
        let entry = &mut self.entries[set * self.ways + place];
        let was = *entry & DIRTY != 0;
        *entry &= !DIRTY;
        was
    }

    /// Gives up its copy, if it has one.
    pub(super) fn remove(&mut self, line: u64) -> Option<Victim> {
        let set = self.set(line);
        let begin = set * self.ways;
        let place = self.position(set, line)?;
        let old = self.entries[begin + place];
        if self.replacement == Replacement::Lru {
            // What is empty is last.
            self.entries.copy_within(begin + place + 1..begin + self.ways, begin + place);
            self.entries[begin + self.ways - 1] = EMPTY;
        } else {
            self.entries[begin + place] = EMPTY;
        }
        Some(Victim { line, is_dirty: old & FLAGS & DIRTY != 0 })
    }

    /// Which way of a full set goes.
    fn choose(&mut self, set: usize) -> usize {
        match self.replacement {
            Replacement::Lru => self.ways - 1,
            Replacement::Random => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random % self.ways as u64) as usize
            }
            Replacement::PseudoLru => {
                let (tree, leaves) = (self.trees[set], self.ways.next_power_of_two());
                let mut node = 1;
                while node < leaves {
                    let right = 2 * node + 1;
                    // A side that has no ways is never pointed to.
                    let goes_right = tree >> node & 1 == 1 && first_leaf(right, leaves) < self.ways;
                    node = 2 * node + usize::from(goes_right);
                }
                node - leaves
            }
        }
    }

    /// The tree's bits on the way to that way point to the other side.
    fn point_away(&mut self, set: usize, place: usize) {
        let leaves = self.ways.next_power_of_two();
        let mut node = leaves + place;
        while node > 1 {
            let is_right = node & 1 == 1;
            node /= 2;
            let tree = &mut self.trees[set];
            *tree = *tree & !(1 << node) | u64::from(!is_right) << node;
        }
    }
}

/// The first of the leaves under a node.
fn first_leaf(mut node: usize, leaves: usize) -> usize {
    while node < leaves {
        node *= 2;
    }
    node - leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(ways: u32, replacement: Replacement) -> CacheStore {
        let bytes = u64::from(ways) * 64 * 2;
        CacheStore::new(&CacheShape { bytes, ways, line_bytes: 64 }, replacement)
    }

    /// Asks for lines one after the other, and gives the misses.
    fn misses(store: &mut CacheStore, lines: &[u64]) -> Vec<u64> {
        let mut missed = Vec::new();
        for &line in lines {
            if store.access(line, false).is_none() {
                missed.push(line);
                store.fill(line, false, false);
            }
        }
        missed
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        // Even lines are in the first set, odd ones in the second.
        let mut lru = store(2, Replacement::Lru);
        assert_eq!(misses(&mut lru, &[0, 2, 1, 0, 4, 0, 2, 1]), [0, 2, 1, 4, 2]);
        let mut tree = store(4, Replacement::PseudoLru);
        // After 0 2 4 6 the tree points to 0's side; using 0 turns it to the other one, to 4.
        assert_eq!(misses(&mut tree, &[0, 2, 4, 6, 0, 8, 0, 2, 6, 4]), [0, 2, 4, 6, 8, 4]);
    }

    #[test]
    fn dirty_lines_are_told_where_they_go() {
        let mut one = store(1, Replacement::Lru);
        assert_eq!(one.fill(0, true, false), None);
        assert_eq!(one.fill(2, false, false), Some(Victim { line: 0, is_dirty: true }));
        assert!(one.access(2, true).is_some());
        assert!(one.clean(2) && !one.clean(2));
        assert!(one.soil(2) && !one.soil(4));
        assert_eq!(one.remove(2), Some(Victim { line: 2, is_dirty: true }));
        assert!(!one.has(2));
    }

    #[test]
    fn what_was_fetched_is_told_once() {
        for replacement in [Replacement::Lru, Replacement::PseudoLru, Replacement::Random] {
            let mut store = store(4, replacement);
            store.fill(0, false, true);
            assert_eq!(store.access(0, false), Some(Found { was_fetched: true }));
            assert_eq!(store.access(0, false), Some(Found { was_fetched: false }));
        }
    }

    #[test]
    fn twelve_ways_are_all_used_by_a_tree_of_sixteen() {
        let mut tree = store(12, Replacement::PseudoLru);
        let lines: Vec<u64> = (0..12).map(|line| line * 2).collect();
        assert_eq!(misses(&mut tree, &lines).len(), 12);
        assert_eq!(misses(&mut tree, &lines).len(), 0);
        let others: Vec<u64> = (100..400).map(|line| line * 2).collect();
        assert_eq!(misses(&mut tree, &others).len(), 300);
    }
}

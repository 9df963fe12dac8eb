//! The backing store: a balanced tree of non-overlapping ranges (section 2.3.1).
//!
//! Software on the modelled hardware uses a tree, and the cost of a handler depends on its depth alone. Here bitmaps
//! give the answers, because a tree of 262,144 small ranges takes a dozen cache misses per access. The number of ranges
//! that the tree would have is counted separately: it follows from the bytes, because neighbours in the tree differ.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::bits::{BLOCK_BYTES, BitPair, BlockBits, PAIR_BYTES};
use crate::runs::Runs;
use crate::{Change, Watched};

/// Watchpoints of all of memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeTree {
    /// Blocks, by number, whose bytes are not all watched for the same.
    mixed: FxHashMap<u64, Box<BlockBits>>,
    /// Their numbers.
    mixed_numbers: BTreeSet<u64>,
    /// All other blocks by number. What it says of blocks that are mixed means nothing.
    uniform: Runs,
    /// Watched ranges, each as large as possible.
    ranges: usize,
}

/// The first byte of a block, or the end of memory.
fn first_byte(block: u64) -> u64 {
    block.saturating_mul(BLOCK_BYTES)
}

impl RangeTree {
    /// Levels that a binary search tree of this size has: what a handler goes through.
    #[inline]
    pub(crate) fn levels(&self) -> u64 {
        u64::from(usize::BITS - self.ranges.leading_zeros()) + 1
    }

    /// The largest range around `addr` of equal watchpoints.
    pub(crate) fn get(&self, addr: u64) -> (Range<u64>, Watched) {
        let block = addr / BLOCK_BYTES;
        let base = first_byte(block);
        let (range, watched) = match self.mixed.get(&block) {
            Some(bits) => {
                let range = bits.range(addr - base);
                if range.start > 0 && range.end < BLOCK_BYTES {
                    return (base + range.start..base + range.end, bits.get(addr - base));
                }
                (range, bits.get(addr - base))
            }
            None => (0..BLOCK_BYTES, self.uniform.get(block).1),
        };
        let start = if range.start > 0 { base + range.start } else { self.start_of_run(block, watched) };
        let end =
            if range.end < BLOCK_BYTES { base + range.end } else { self.end_of_run(block + 1, watched) };
        (start..end, watched)
    }

    /// Where the bytes before a block begin that are watched for the same.
    fn start_of_run(&self, mut block: u64, watched: Watched) -> u64 {
        while let Some(before) = block.checked_sub(1) {
            if let Some(bits) = self.mixed.get(&before) {
                let same = bits.get(BLOCK_BYTES - 1) == watched;
                return first_byte(block)
                    - if same { BLOCK_BYTES - bits.range(BLOCK_BYTES - 1).start } else { 0 };
            }
            let (run, other) = self.uniform.get(before);
            if other != watched {
                return first_byte(block);
            }
            block =
                self.mixed_numbers.range(run.start..before).next_back().map_or(run.start, |mixed| mixed + 1);
        }
        0
    }

    /// Where the bytes from a block on end that are watched for the same.
    fn end_of_run(&self, mut block: u64, watched: Watched) -> u64 {
        while block < u64::MAX / BLOCK_BYTES + 1 {
            if let Some(bits) = self.mixed.get(&block) {
                let same = bits.get(0) == watched;
                return first_byte(block) + if same { bits.range(0).end } else { 0 };
            }
            let (run, other) = self.uniform.get(block);
            if other != watched {
                break;
            }
            block = self.mixed_numbers.range(block..run.end).next().map_or(run.end, |&mixed| mixed);
        }
        first_byte(block)
    }

    /// What the bytes of a block are watched for.
    pub(crate) fn block(&self, block: u64) -> BlockBits {
        match self.mixed.get(&block) {
            Some(bits) => (**bits).clone(),
            None => BlockBits::new(self.uniform.get(block).1),
        }
    }

    /// How many ranges, unwatched ones included, a block consists of.
    pub(crate) fn ranges_of_block(&self, block: u64) -> usize {
        self.mixed.get(&block).map_or(1, |bits| bits.ranges())
    }

    /// The bits of the bytes from `addr` on, both multiples of 64, inside of one block.
    pub(crate) fn pairs<const N: usize>(&self, addr: u64) -> [BitPair; N] {
        let block = addr / BLOCK_BYTES;
        match self.mixed.get(&block) {
            Some(bits) => {
                let first = (addr % BLOCK_BYTES / PAIR_BYTES) as usize;
                std::array::from_fn(|pair| bits.pairs()[first + pair])
            }
            None => [BitPair::all(self.uniform.get(block).1); N],
        }
    }

    /// What any byte of the range is watched for.
    pub(crate) fn union(&self, range: Range<u64>) -> Watched {
        let mut all = Watched::NONE;
        let mut at = range.start;
        while at < range.end && all != Watched::BOTH {
            let block = at / BLOCK_BYTES;
            let mut next = block + 1;
            all = all.with(match self.mixed.get(&block) {
                Some(bits) => {
                    let base = first_byte(block);
                    bits.union(at - base, (range.end - base).min(BLOCK_BYTES))
                }
                None => {
                    let (run, watched) = self.uniform.get(block);
                    if range.end > first_byte(next) {
                        let mut mixed = self.mixed_numbers.range(next..run.end.max(next));
                        next = mixed.next().copied().unwrap_or(run.end);
                    }
                    watched
                }
            });
            at = first_byte(next);
        }
        all
    }

    /// Gives every byte of the range these watchpoints.
    pub(crate) fn set(&mut self, range: Range<u64>, watched: Watched) {
        self.change(range, Change::Set(watched));
    }

    /// Gives a block these watchpoints.
    pub(crate) fn set_block(&mut self, block: u64, bits: BlockBits) {
        if let Some(watched) = bits.uniform() {
            self.change_blocks(block..block + 1, Change::Set(watched));
            return;
        }
        self.ranges -= self.starts(block..block + 1);
        self.mixed.insert(block, Box::new(bits));
        self.mixed_numbers.insert(block);
        self.ranges += self.starts(block..block + 1);
    }

    /// Changes every byte of the range.
    pub(crate) fn change(&mut self, range: Range<u64>, change: Change) {
        if range.is_empty() {
            return;
        }
        let (mut first, last) = (range.start / BLOCK_BYTES, range.end / BLOCK_BYTES);
        let (from, to) = (range.start % BLOCK_BYTES, range.end % BLOCK_BYTES);
        if first == last {
            self.change_part(first, from..to, change);
            return;
        }
        if from > 0 {
            self.change_part(first, from..BLOCK_BYTES, change);
            first += 1;
        }
        if first < last {
            self.change_blocks(first..last, change);
        }
        if to > 0 {
            self.change_part(last, 0..to, change);
        }
    }

    /// Changes a part of a block.
    fn change_part(&mut self, block: u64, part: Range<u64>, change: Change) {
        // Whether a range begins with a block depends on the last byte before, too.
        let (at_start, at_end) = (part.start == 0, part.end == BLOCK_BYTES);
        let edges = |tree: &Self| {
            usize::from(at_start && tree.begins_with(block))
                + usize::from(at_end && tree.begins_with(block + 1))
        };
        let edges_before = edges(self);
        if let Some(bits) = self.mixed.get_mut(&block) {
            let before = bits.starts();
            bits.change(part.start, part.end, change);
            self.ranges = self.ranges + bits.starts() - before;
            if let Some(watched) = bits.uniform() {
                self.mixed.remove(&block);
                self.mixed_numbers.remove(&block);
                self.uniform.set(block..block + 1, watched);
            }
        } else {
            let old = self.uniform.get(block).1;
            if change.apply(old) == old {
                return;
            }
            let mut bits = BlockBits::new(old);
            bits.change(part.start, part.end, change);
            self.ranges += bits.starts();
            self.mixed.insert(block, Box::new(bits));
            self.mixed_numbers.insert(block);
        }
        self.ranges = self.ranges + edges(self) - edges_before;
    }

    /// Changes whole blocks.
    fn change_blocks(&mut self, blocks: Range<u64>, change: Change) {
        self.ranges -= self.starts(blocks.clone());
        let mixed: Vec<u64> = self.mixed_numbers.range(blocks.clone()).copied().collect();
        if let Change::Set(watched) = change {
            for block in mixed {
                self.mixed.remove(&block);
                self.mixed_numbers.remove(&block);
            }
            self.uniform.set(blocks.clone(), watched);
        } else {
            let mut at = blocks.start;
            while at < blocks.end {
                let (run, old) = self.uniform.get(at);
                let end = run.end.min(blocks.end);
                self.uniform.set(at..end, change.apply(old));
                at = end;
            }
            for block in mixed {
                let Some(bits) = self.mixed.get_mut(&block) else { continue };
                bits.change(0, BLOCK_BYTES, change);
                if let Some(watched) = bits.uniform() {
                    self.mixed.remove(&block);
                    self.mixed_numbers.remove(&block);
                    self.uniform.set(block..block + 1, watched);
                }
            }
        }
        self.ranges += self.starts(blocks);
    }

    /// How many ranges begin in these blocks, or just behind them.
    fn starts(&self, blocks: Range<u64>) -> usize {
        let mut starts = 0;
        // Blocks that a range may begin with: the others are as the uniform block before them.
        let mut edges = vec![blocks.start, blocks.end];
        edges.extend(self.uniform.starts(blocks.clone()));
        for &block in self.mixed_numbers.range(blocks) {
            starts += self.mixed.get(&block).map_or(0, |bits| bits.starts());
            edges.extend([block, block + 1]);
        }
        edges.sort_unstable();
        edges.dedup();
        starts + edges.into_iter().filter(|&block| self.begins_with(block)).count()
    }

    /// Whether a range begins with the first byte of a block.
    fn begins_with(&self, block: u64) -> bool {
        let first = self.byte(block, 0);
        !first.is_none()
            && block.checked_sub(1).is_none_or(|before| self.byte(before, BLOCK_BYTES - 1) != first)
    }

    fn byte(&self, block: u64, offset: u64) -> Watched {
        self.mixed.get(&block).map_or_else(|| self.uniform.get(block).1, |bits| bits.get(offset))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::tests::any_change;

    /// Where a tree is tested: some blocks.
    const END: u64 = 4 * BLOCK_BYTES;

    fn any_range() -> impl Strategy<Value = Range<u64>> {
        // Around the edges of blocks, and whole ones.
        let edge = (0..=4_u64, -70..70_i64)
            .prop_map(|(block, off)| (block * BLOCK_BYTES).saturating_add_signed(off));
        let block = (0..=4_u64).prop_map(|block| block * BLOCK_BYTES);
        let place = prop_oneof![edge, block, 0..END].prop_map(|at| at.min(END));
        prop_oneof![
            (place.clone(), place.clone()).prop_map(|(one, other)| one.min(other)..one.max(other)),
            (place, 0..80_u64).prop_map(|(at, len)| at..(at + len).min(END)),
        ]
    }

    proptest! {
        // Each step compares with all bytes.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_tree_is_a_map_of_bytes(ops in prop::collection::vec((any_range(), any_change(), any_range()), 0..60)) {
            let mut tree = RangeTree::default();
            let mut bytes = vec![Watched::NONE; END as usize];
            for (range, change, other) in ops {
                tree.change(range.clone(), change);
                for byte in &mut bytes[range.start as usize..range.end as usize] {
                    *byte = change.apply(*byte);
                }
                // Ranges as a tree would have them: each as large as possible.
                let borders: Vec<u64> =
                    (1..END).filter(|&at| bytes[at as usize] != bytes[at as usize - 1]).collect();
                let starts = borders.iter().chain([&0]).filter(|&&at| !bytes[at as usize].is_none()).count();
                prop_assert_eq!(tree.ranges, starts);
                for addr in [other.start, range.start, range.end, range.start.saturating_sub(1), other.end] {
                    let addr = addr.min(END - 1);
                    let next = borders.partition_point(|&border| border <= addr);
                    let start = next.checked_sub(1).map_or(0, |before| borders[before]);
                    let watched = bytes[addr as usize];
                    let last = bytes[END as usize - 1];
                    let end = borders.get(next).copied().unwrap_or(if last.is_none() { u64::MAX } else { END });
                    prop_assert_eq!(tree.get(addr), (start..end, watched));
                }
                let all = bytes[other.start as usize..other.end as usize]
                    .iter()
                    .fold(Watched::NONE, |all, &byte| all.with(byte));
                prop_assert_eq!(tree.union(other.clone()), all);
                let block = other.start.min(END - 1) / BLOCK_BYTES;
                let bits = tree.block(block);
                let base = (block * BLOCK_BYTES) as usize;
                prop_assert!((0..BLOCK_BYTES).all(|at| bits.get(at) == bytes[base + at as usize]));
                prop_assert_eq!(tree.ranges_of_block(block), bits.ranges());
                let mut copy = tree.clone();
                copy.set(first_byte(block)..first_byte(block + 1), Watched::WRITE);
                copy.set_block(block, bits);
                prop_assert_eq!(copy.ranges, tree.ranges);
                prop_assert_eq!(copy.get(other.start), tree.get(other.start));
            }
        }
    }

    #[test]
    fn both_ends_of_memory_are_as_others() {
        let mut tree = RangeTree::default();
        tree.set(0..u64::MAX, Watched::READ);
        assert_eq!((tree.get(7), tree.ranges), ((0..u64::MAX, Watched::READ), 1));
        tree.set(0..1, Watched::NONE);
        tree.set(u64::MAX - 1..u64::MAX, Watched::BOTH);
        assert_eq!(tree.get(0), (0..1, Watched::NONE));
        assert_eq!(tree.get(1), (1..u64::MAX - 1, Watched::READ));
        assert_eq!((tree.get(u64::MAX - 1), tree.ranges), ((u64::MAX - 1..u64::MAX, Watched::BOTH), 2));
        assert_eq!(tree.union(5..u64::MAX), Watched::BOTH);
    }
}

//! The watchpoints of a block of memory as bits: two per byte.

use std::ops::Range;

use crate::{Change, Watched};

/// Bytes that one [`BlockBits`] speaks of.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Bytes that one [`BitPair`] speaks of.
pub(crate) const PAIR_BYTES: u64 = 64;
const PAIRS: usize = (BLOCK_BYTES / PAIR_BYTES) as usize;

/// The bits of 64 bytes, the first byte lowest: for reads, and for writes. Side by side, because who wants one of them
/// mostly wants the other one too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BitPair {
    pub(crate) read: u64,
    pub(crate) write: u64,
}

/// The bits of `from..to` within a word; not empty.
#[inline]
fn mask(from: u64, to: u64) -> u64 {
    (u64::MAX >> (64 - (to - from))) << from
}

/// A bit in all places.
#[inline]
fn splat(bit: u64) -> u64 {
    (bit & 1).wrapping_neg()
}

impl BitPair {
    pub(crate) fn all(watched: Watched) -> Self {
        let bits = u64::from(watched.bits());
        Self { read: splat(bits), write: splat(bits >> 1) }
    }

    /// What all bytes are watched for, where that is the same.
    #[inline]
    pub(crate) fn uniform(self) -> Option<Watched> {
        let first = self.get(0);
        (self == Self::all(first)).then_some(first)
    }

    #[inline]
    pub(crate) fn get(self, byte: u64) -> Watched {
        Watched::from_bits((self.read >> byte & 1 | (self.write >> byte & 1) << 1) as u8)
    }

    #[inline]
    fn change(&mut self, bits: u64, change: Change) {
        let chosen = |watched: Watched, bit| if watched.meets(bit) { bits } else { 0 };
        match change {
            Change::Set(new) => {
                self.read = self.read & !bits | chosen(new, Watched::READ);
                self.write = self.write & !bits | chosen(new, Watched::WRITE);
            }
            Change::Add(more) => {
                self.read |= chosen(more, Watched::READ);
                self.write |= chosen(more, Watched::WRITE);
            }
            Change::Remove(less) => {
                self.read &= !chosen(less, Watched::READ);
                self.write &= !chosen(less, Watched::WRITE);
            }
        }
    }

    /// The bytes that are watched for something else than `watched`.
    #[inline]
    fn other_than(self, watched: Watched) -> u64 {
        let same = Self::all(watched);
        (self.read ^ same.read) | (self.write ^ same.write)
    }
}

/// Calls `visit` with the number of each pair that has bytes of `from..to`, and which of its bytes these are.
#[inline]
fn pairs(from: u64, to: u64, mut visit: impl FnMut(usize, u64)) {
    let mut at = from;
    while at < to {
        let end = to.min((at | (PAIR_BYTES - 1)) + 1);
        visit((at / PAIR_BYTES) as usize, mask(at % PAIR_BYTES, end - (at & !(PAIR_BYTES - 1))));
        at = end;
    }
}

/// What any byte of `from..to`, offsets, is watched for.
#[inline]
pub(crate) fn union(bits: &[BitPair], from: u64, to: u64) -> Watched {
    if from >= to {
        return Watched::NONE;
    }
    let (first, last) = ((from / PAIR_BYTES) as usize, ((to - 1) / PAIR_BYTES) as usize);
    let after = u64::MAX << (from % PAIR_BYTES);
    let before = u64::MAX >> (PAIR_BYTES - 1 - (to - 1) % PAIR_BYTES);
    let (mut read, mut write) = if first == last {
        (bits[first].read & after & before, bits[first].write & after & before)
    } else {
        let (first, last) = (bits[first], bits[last]);
        (first.read & after | last.read & before, first.write & after | last.write & before)
    };
    for pair in bits.get(first + 1..last).unwrap_or_default() {
        read |= pair.read;
        write |= pair.write;
    }
    Watched::from_bits(u8::from(read != 0) | u8::from(write != 0) << 1)
}

/// Changes the bytes of `from..to`, offsets.
#[inline]
pub(crate) fn change(bits: &mut [BitPair], from: u64, to: u64, change: Change) {
    pairs(from, to, |pair, chosen| bits[pair].change(chosen, change));
}

/// The first offset after `at` whose byte is watched for something else than that of `at`, or the end.
#[inline]
pub(crate) fn run_end(bits: &[BitPair], at: u64) -> u64 {
    let first = (at / PAIR_BYTES) as usize;
    let watched = bits[first].get(at % PAIR_BYTES);
    let mut chosen = u64::MAX << (at % PAIR_BYTES);
    for (pair, bits) in bits.iter().enumerate().skip(first) {
        let other = bits.other_than(watched) & chosen;
        if other != 0 {
            return pair as u64 * PAIR_BYTES + u64::from(other.trailing_zeros());
        }
        chosen = u64::MAX;
    }
    bits.len() as u64 * PAIR_BYTES
}

/// The first offset of the run of equal watchpoints that `at` is in.
#[inline]
fn run_start(bits: &[BitPair], at: u64) -> u64 {
    let last = (at / PAIR_BYTES) as usize;
    let watched = bits[last].get(at % PAIR_BYTES);
    let mut chosen = u64::MAX >> (PAIR_BYTES - 1 - at % PAIR_BYTES);
    for (pair, bits) in bits[..=last].iter().enumerate().rev() {
        let other = bits.other_than(watched) & chosen;
        if other != 0 {
            return (pair as u64 + 1) * PAIR_BYTES - u64::from(other.leading_zeros());
        }
        chosen = u64::MAX;
    }
    0
}

/// The bits of a naturally aligned 4 KiB block, and how many ranges they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBits {
    bits: [BitPair; PAIRS],
    /// Bytes that are watched for something else than the one before; of the first one nothing is known.
    borders: u16,
    /// Those of them that are watched.
    starts: u16,
}

impl BlockBits {
    pub(crate) fn new(watched: Watched) -> Self {
        Self { bits: [BitPair::all(watched); PAIRS], borders: 0, starts: 0 }
    }

    /// Whether any byte of `from..to`, offsets into the block, is watched for these.
    #[inline]
    pub(crate) fn meets(&self, from: u64, to: u64, watched: Watched) -> bool {
        self.union(from, to).meets(watched)
    }

    /// Changes `from..to`, offsets into the block.
    pub(crate) fn change(&mut self, from: u64, to: u64, what: Change) {
        if from >= to {
            return;
        }
        // The byte behind may be a border now.
        let (first, last) = (from / PAIR_BYTES, to.min(BLOCK_BYTES - 1) / PAIR_BYTES);
        let before = self.count(first as usize, last as usize);
        change(&mut self.bits, from, to, what);
        let after = self.count(first as usize, last as usize);
        self.borders = self.borders + after.0 - before.0;
        self.starts = self.starts + after.1 - before.1;
    }

    /// Borders and starts in some pairs.
    #[inline]
    fn count(&self, first: usize, last: usize) -> (u16, u16) {
        let before = self.bits[first.saturating_sub(1)];
        let (mut read, mut write) = (before.read >> 63, before.write >> 63);
        let (mut borders, mut starts) = (0, 0);
        for (pair, bits) in self.bits[first..=last].iter().enumerate() {
            let mut changed =
                (bits.read ^ (bits.read << 1 | read)) | (bits.write ^ (bits.write << 1 | write));
            if first + pair == 0 {
                changed &= !1;
            }
            borders += changed.count_ones() as u16;
            starts += (changed & (bits.read | bits.write)).count_ones() as u16;
            (read, write) = (bits.read >> 63, bits.write >> 63);
        }
        (borders, starts)
    }

    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Watched {
        self.bits[(offset / PAIR_BYTES) as usize].get(offset % PAIR_BYTES)
    }

    /// The bits, for 64 bytes each.
    pub(crate) fn pairs(&self) -> &[BitPair; PAIRS] {
        &self.bits
    }

    /// How many ranges of equal watchpoints it consists of.
    pub(crate) fn ranges(&self) -> usize {
        usize::from(self.borders) + 1
    }

    /// How many watched ranges begin behind its first byte.
    pub(crate) fn starts(&self) -> usize {
        self.starts.into()
    }

    /// The range of equal watchpoints that an offset is in.
    #[inline]
    pub(crate) fn range(&self, offset: u64) -> Range<u64> {
        run_start(&self.bits, offset)..run_end(&self.bits, offset)
    }

    /// What all bytes are watched for, where that is the same.
    pub(crate) fn uniform(&self) -> Option<Watched> {
        (self.borders == 0).then(|| self.get(0))
    }

    /// What any byte is watched for.
    #[inline]
    pub(crate) fn union(&self, from: u64, to: u64) -> Watched {
        union(&self.bits, from, to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::change::tests::any_change;

    #[test]
    fn ranges_are_counted_as_they_are_listed() {
        let mut bits = BlockBits::new(Watched::NONE);
        assert_eq!((bits.ranges(), bits.uniform()), (1, Some(Watched::NONE)));
        bits.change(0, 1, Change::Set(Watched::READ));
        bits.change(63, 65, Change::Add(Watched::WRITE));
        bits.change(64, 65, Change::Add(Watched::READ));
        bits.change(4095, 4096, Change::Set(Watched::BOTH));
        let mut listed = Vec::new();
        let mut at = 0;
        while at < BLOCK_BYTES {
            let range = bits.range(at);
            at = range.end;
            listed.push((range.clone(), bits.get(range.start).bits()));
        }
        assert_eq!(listed, [(0..1, 1), (1..63, 0), (63..64, 2), (64..65, 3), (65..4095, 0), (4095..4096, 3)]);
        assert_eq!((bits.ranges(), bits.starts()), (listed.len(), 3));
        assert!(bits.meets(0, 64, Watched::WRITE) && !bits.meets(1, 63, Watched::BOTH));
        bits.change(0, 4096, Change::Remove(Watched::BOTH));
        assert_eq!(bits.uniform(), Some(Watched::NONE));
    }

    proptest! {
        #[test]
        fn a_block_is_a_map_of_bytes(ops in prop::collection::vec((0..4096_u64, 0..300_u64, any_change()), 0..40)) {
            let mut bits = BlockBits::new(Watched::NONE);
            let mut bytes = [Watched::NONE; 4096];
            for (from, len, change) in ops {
                let to = (from + len).min(BLOCK_BYTES);
                bits.change(from, to, change);
                for byte in &mut bytes[from as usize..to as usize] {
                    *byte = change.apply(*byte);
                }
                let borders: Vec<usize> = (1..4096).filter(|&at| bytes[at] != bytes[at - 1]).collect();
                prop_assert_eq!(bits.ranges(), borders.len() + 1);
                prop_assert_eq!(bits.starts(), borders.iter().filter(|&&at| !bytes[at].is_none()).count());
                let here = borders.partition_point(|&at| at as u64 <= from);
                let start = here.checked_sub(1).map_or(0, |at| borders[at] as u64);
                let end = borders.get(here).map_or(BLOCK_BYTES, |&at| at as u64);
                prop_assert_eq!(bits.range(from), start..end);
                let all = bytes[from as usize..to as usize].iter().fold(Watched::NONE, |all, &byte| all.with(byte));
                prop_assert_eq!(bits.union(from, to), all);
            }
        }
    }
}

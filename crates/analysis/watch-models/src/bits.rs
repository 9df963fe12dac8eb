//! Watchpoints of a block of memory as bits: two a byte.

use std::ops::Range;

use crate::{Change, Watched};

/// Bytes that one [`BlockBits`] speaks of.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const WORDS: usize = (BLOCK_BYTES / 64) as usize;

/// The bits of a naturally aligned 4 KiB block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBits {
    read: [u64; WORDS],
    write: [u64; WORDS],
}

/// The bits of `from..to` within a word.
fn mask(from: u64, to: u64) -> u64 {
    let high = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
    high & !((1 << from) - 1)
}

impl BlockBits {
    pub(crate) fn new(watched: Watched) -> Self {
        let word = |bit: Watched| if watched.meets(bit) { u64::MAX } else { 0 };
        Self { read: [word(Watched::READ); WORDS], write: [word(Watched::WRITE); WORDS] }
    }

    /// Whether any byte of `from..to`, offsets into the block, is watched for these.
    #[inline]
    pub(crate) fn meets(&self, from: u64, to: u64, watched: Watched) -> bool {
        let mut at = from;
        while at < to {
            let word = (at / 64) as usize;
            let end = to.min((at | 63) + 1);
            let bits = mask(at % 64, end - (at & !63));
            if watched.meets(Watched::READ) && self.read[word] & bits != 0
                || watched.meets(Watched::WRITE) && self.write[word] & bits != 0
            {
                return true;
            }
            at = end;
        }
        false
    }

    /// Changes `from..to`, offsets into the block.
    pub(crate) fn change(&mut self, from: u64, to: u64, change: Change) {
        let mut at = from;
        while at < to {
            let word = (at / 64) as usize;
            let end = to.min((at | 63) + 1);
            let bits = mask(at % 64, end - (at & !63));
            for (words, bit) in [(&mut self.read, Watched::READ), (&mut self.write, Watched::WRITE)] {
                let place = &mut words[word];
                match change {
                    Change::Set(new) if new.meets(bit) => *place |= bits,
                    Change::Set(_) => *place &= !bits,
                    Change::Add(more) if more.meets(bit) => *place |= bits,
                    Change::Remove(less) if less.meets(bit) => *place &= !bits,
                    _ => {}
                }
            }
            at = end;
        }
    }

    pub(crate) fn get(&self, offset: u64) -> Watched {
        let (word, bit) = ((offset / 64) as usize, offset % 64);
        Watched::from_bits((self.read[word] >> bit & 1 | (self.write[word] >> bit & 1) << 1) as u8)
    }

    /// The bits of the 64 bytes from `offset`, a multiple of 64, for reads and writes.
    pub(crate) fn words(&self, offset: u64) -> (u64, u64) {
        let word = (offset / 64) as usize;
        (self.read[word], self.write[word])
    }

    /// How many ranges of equal watchpoints it consists of.
    pub(crate) fn ranges(&self) -> usize {
        let mut count = 1;
        let mut last = (self.read[0] & 1, self.write[0] & 1);
        for (&read, &write) in self.read.iter().zip(&self.write) {
            // A bit where a byte differs from the one before it.
            let changes = (read ^ (read << 1 | last.0)) | (write ^ (write << 1 | last.1));
            count += changes.count_ones() as usize;
            last = (read >> 63, write >> 63);
        }
        count
    }

    /// All ranges of equal watchpoints, as offsets.
    pub(crate) fn each(&self, mut visit: impl FnMut(Range<u64>, Watched)) {
        let mut start = 0;
        let mut watched = self.get(0);
        for offset in 1..BLOCK_BYTES {
            let next = self.get(offset);
            if next != watched {
                visit(start..offset, watched);
                (start, watched) = (offset, next);
            }
        }
        visit(start..BLOCK_BYTES, watched);
    }

    /// What all bytes are watched for, where that is the same.
    pub(crate) fn uniform(&self) -> Option<Watched> {
        (self.ranges() == 1).then(|| self.get(0))
    }

    /// What any byte is watched for.
    pub(crate) fn union(&self, from: u64, to: u64) -> Watched {
        let mut all = Watched::NONE;
        for bit in [Watched::READ, Watched::WRITE] {
            if self.meets(from, to, bit) {
                all = all.with(bit);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_as_they_are_listed() {
        let mut bits = BlockBits::new(Watched::NONE);
        assert_eq!((bits.ranges(), bits.uniform()), (1, Some(Watched::NONE)));
        bits.change(0, 1, Change::Set(Watched::READ));
        bits.change(63, 65, Change::Add(Watched::WRITE));
        bits.change(64, 65, Change::Add(Watched::READ));
        bits.change(4095, 4096, Change::Set(Watched::BOTH));
        let mut listed = Vec::new();
        bits.each(|range, watched| listed.push((range, watched.bits())));
        assert_eq!(listed, [(0..1, 1), (1..63, 0), (63..64, 2), (64..65, 3), (65..4095, 0), (4095..4096, 3)]);
        assert_eq!(bits.ranges(), listed.len());
        assert!(bits.meets(0, 64, Watched::WRITE) && !bits.meets(1, 63, Watched::BOTH));
        bits.change(0, 4096, Change::Remove(Watched::BOTH));
        assert_eq!(bits.uniform(), Some(Watched::NONE));
    }
}

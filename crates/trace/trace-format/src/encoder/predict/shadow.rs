//! The content of memory, as far as the accesses have shown it: a load returns what was last stored or loaded there.
//!
//! This is a table of words by address, without tags, whose size does not depend on the
//! program's addresses. Words that share a place cause a wrong prediction, not a wrong result.

const LINE_WORDS: u64 = 64;

/// The words.
#[derive(Debug)]
pub(super) struct ShadowMemory {
    words: Vec<u64>,
    shift: u32,
}

/// Keeps the low `bytes` bytes.
#[inline]
pub(super) fn mask(bytes: u32) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 }
}

impl ShadowMemory {
    /// Of `2^bits` words, at least a line of 64.
    pub(super) fn new(bits: u32) -> Self {
        Self { words: vec![0; 1 << bits], shift: 64 - bits + LINE_WORDS.trailing_zeros() }
    }

    #[inline]
    fn place(&self, word: u64) -> usize {
        let line = (word / LINE_WORDS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        (line * LINE_WORDS + word % LINE_WORDS) as usize & (self.words.len() - 1)
    }

    /// The 8 bytes from `addr` on.
    #[inline]
    pub(super) fn load(&self, addr: u64) -> u64 {
        let (word, shift) = (addr >> 3, addr as u32 % 8 * 8);
        let low = self.words[self.place(word)] >> shift;
        if shift == 0 {
            return low;
        }
        low | self.words[self.place(word.wrapping_add(1))] << (64 - shift)
    }

    /// Stores the low `bytes` bytes (at most 8) of `value` at `addr`.
    #[inline]
    pub(super) fn store(&mut self, addr: u64, bytes: u32, value: u64) {
        let (word, shift) = (addr >> 3, addr as u32 % 8 * 8);
        let mask = mask(bytes);
        let place = self.place(word);
        let place = &mut self.words[place];
        *place = *place & !(mask << shift) | (value & mask) << shift;
        if shift > 0 && shift + bytes * 8 > 64 {
            let place = self.place(word.wrapping_add(1));
            let place = &mut self.words[place];
            let over = 64 - shift;
            *place = *place & !(mask >> over) | (value & mask) >> over;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_memory(stores in prop::collection::vec((0u64..64, 1u32..=8, any::<u64>()), 0..50)) {
            let (mut shadow, mut model) = (ShadowMemory::new(10), [0u8; 80]);
            for (addr, bytes, value) in stores {
                shadow.store(addr, bytes, value);
                let at = addr as usize;
                model[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
                for at in 0..70 {
                    let word = u64::from_le_bytes(model[at..at + 8].try_into().unwrap());
                    prop_assert_eq!(shadow.load(at as u64), word);
                }
            }
        }
    }
}

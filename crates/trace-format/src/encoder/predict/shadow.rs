//! What memory holds, as far as accesses told: a load returns what was last stored or loaded there.
//!
//! A table of words by address, without tags and of one size whatever the program's addresses are: words that share a place cost
//! a wrong prediction, not a wrong result.

const LINE_WORDS: u64 = 64;
const BITS: u32 = 20;

/// The words.
#[derive(Debug)]
pub(super) struct Shadow(Vec<u64>);

/// Keeps the low `bytes` bytes.
#[inline]
pub(super) fn mask(bytes: u32) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 }
}

impl Shadow {
    pub(super) fn new() -> Self {
        Self(vec![0; 1 << BITS])
    }

    #[inline]
    fn place(word: u64) -> usize {
        let line = (word / LINE_WORDS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS + 6);
        (line * LINE_WORDS + word % LINE_WORDS) as usize & ((1 << BITS) - 1)
    }

    /// The 8 bytes from `addr` on.
    #[inline]
    pub(super) fn load(&self, addr: u64) -> u64 {
        let (word, shift) = (addr >> 3, addr as u32 % 8 * 8);
        let low = self.0[Self::place(word)] >> shift;
        if shift == 0 { low } else { low | self.0[Self::place(word.wrapping_add(1))] << (64 - shift) }
    }

    /// Stores the low `bytes` bytes (at most 8) of `value` at `addr`.
    #[inline]
    pub(super) fn store(&mut self, addr: u64, bytes: u32, value: u64) {
        let (word, shift) = (addr >> 3, addr as u32 % 8 * 8);
        let mask = mask(bytes);
        let place = &mut self.0[Self::place(word)];
        *place = *place & !(mask << shift) | (value & mask) << shift;
        if shift > 0 && shift + bytes * 8 > 64 {
            let place = &mut self.0[Self::place(word.wrapping_add(1))];
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
            let (mut shadow, mut model) = (Shadow::new(), [0u8; 80]);
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

//! Random numbers that are the same on every machine: SplitMix64 (Steele, Lea and Flood, 2014).

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own sequence for each seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1. Uneven by less than `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

//! The processor's features, queried once: leaf 7 of cpuid.

use core::sync::atomic::{AtomicU8, Ordering};

/// A bit of ebx, and the answer once it is known.
struct Feature {
    bit: u32,
    answer: AtomicU8,
}

const YES: u8 = 1;
const NO: u8 = 2;

impl Feature {
    const fn new(bit: u32) -> Self {
        Self { bit, answer: AtomicU8::new(0) }
    }

    fn is_there(&self) -> bool {
        match self.answer.load(Ordering::Relaxed) {
            0 => {
                let answer = core::arch::x86_64::__cpuid_count(7, 0).ebx >> self.bit & 1 != 0;
                self.answer.store(if answer { YES } else { NO }, Ordering::Relaxed);
                answer
            }
            answer => answer == YES,
        }
    }
}

/// Whether it has an instruction that stores a whole mask register (AVX-512 BW).
pub(crate) fn keeps_masks() -> bool {
    static BW: Feature = Feature::new(30);
    BW.is_there()
}

/// Whether it rotates without touching flags (BMI2).
pub(crate) fn rotates() -> bool {
    static BMI2: Feature = Feature::new(8);
    BMI2.is_there()
}

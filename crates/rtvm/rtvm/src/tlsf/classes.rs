//! Size classes: a power of two, cut into 32 (Masmano et al. 2004, section 4).

/// Every block begins and ends at a multiple of this.
pub const GRANULE: u64 = 16;
/// Bytes of a tag, before every payload.
pub const TAG_BYTES: u64 = 16;
/// Bytes of the smallest block: a tag, and the two links of a free one.
pub const MIN_BLOCK: u64 = 32;
/// Bytes of the largest block.
pub const MAX_BLOCK: u64 = 1 << 40;

const SECOND_BITS: u32 = 5;
/// Classes that a power of two is cut into.
pub(crate) const SECONDS: usize = 1 << SECOND_BITS;
/// Below this, classes are a granule apart.
const LINEAR_BITS: u32 = SECOND_BITS + GRANULE.ilog2();
/// Powers of two, the linear part being the first.
pub(crate) const FIRSTS: usize = (MAX_BLOCK.ilog2() - LINEAR_BITS) as usize + 2;

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

/// The class that a block of `bytes` belongs to.
#[inline]
pub(crate) fn class_of(bytes: u64) -> Class {
    if bytes < 1 << LINEAR_BITS {
        return Class { first: 0, second: (bytes / GRANULE) as usize };
    }
    let log = bytes.ilog2();
    let second = (bytes >> (log - SECOND_BITS)) as usize & (SECONDS - 1);
    Class { first: (log - LINEAR_BITS + 1) as usize, second }
}

/// The smallest size such that every block of its class, and of all larger ones, has `bytes`.
#[inline]
pub(crate) fn round_up(bytes: u64) -> u64 {
    if bytes < 1 << LINEAR_BITS {
        return bytes;
    }
    let step = 1 << (bytes.ilog2() - SECOND_BITS);
    (bytes + step - 1) & !(step - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_order_and_fit() {
        let mut last = (0, 0);
        let mut bytes = MIN_BLOCK;
        while bytes < MAX_BLOCK {
            let class = class_of(bytes);
            assert!(class.first < FIRSTS && class.second < SECONDS, "{bytes}");
            assert!((class.first, class.second) >= last, "{bytes}");
            last = (class.first, class.second);
            let up = round_up(bytes);
            assert!(up >= bytes && up - bytes <= bytes / 32, "{bytes}");
            assert!(
                up == bytes || class_of(up) != class,
                "{bytes}: smaller ones of its class are in the way"
            );
            assert_eq!(class_of(up), class_of(round_up(up)));
            bytes += (bytes / 97 + 1).next_multiple_of(GRANULE);
        }
        assert!(class_of(MAX_BLOCK).first < FIRSTS);
    }
}

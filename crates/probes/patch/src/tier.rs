//! How strong a single store can carry a patch: the strongest tier that fits the changed bytes.
//!
//! Deliberately a pure function of addresses and bytes. Only the bytes that differ count:
//! switching off a call by its first byte is a one-byte patch wherever the call lies.

use crate::{FETCH_BYTES, pages::Access};
use std::ops::Range;

/// The tiers, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The bytes are there already.
    Unchanged,
    /// One byte changes.
    OneByte,
    /// All changed bytes lie in one aligned word of eight bytes.
    AlignedWord,
    /// All changed bytes lie in what one fetch reads of a cache line ([`FETCH_BYTES`]).
    CacheLine,
    /// The changed bytes lie on both sides of a boundary.
    Straddler,
}

/// The bytes of `addr .. addr + len` that a patch from `old` to `new` changes, as offsets.
#[inline]
#[must_use]
pub fn changed(old: u64, new: u64, len_bytes: usize) -> Range<usize> {
    let mask = if len_bytes >= 8 { u64::MAX } else { (1 << (8 * len_bytes)) - 1 };
    let diff = (old ^ new) & mask;
    if diff == 0 {
        return 0..0;
    }
    diff.trailing_zeros() as usize / 8..8 - diff.leading_zeros() as usize / 8
}

/// The boundary that a single store through `access` must not cross.
#[inline]
#[must_use]
pub fn unit_bytes(access: Access) -> usize {
    match access {
        Access::Direct => FETCH_BYTES,
        Access::ProcMem => 8,
    }
}

/// The tier of a change of the bytes at the offsets `changed` of `addr`.
#[inline]
#[must_use]
pub fn tier(addr: usize, changed: &Range<usize>, access: Access) -> Tier {
    let (first, last) = (addr + changed.start, addr + changed.end.max(1) - 1);
    if changed.is_empty() {
        Tier::Unchanged
    } else if changed.len() == 1 {
        Tier::OneByte
    } else if first / 8 == last / 8 {
        Tier::AlignedWord
    } else if first / unit_bytes(access) == last / unit_bytes(access) {
        Tier::CacheLine
    } else {
        Tier::Straddler
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn check(addr: usize, old: &[u8], new: &[u8], expect: Tier) {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
        let range = changed(word(old), word(new), old.len());
        assert_eq!(tier(addr, &range, Access::Direct), expect, "{addr:#x} {old:x?} -> {new:x?}");
    }

    #[test]
    fn the_strongest_tier_that_fits_is_chosen() {
        let call = [0xe8, 1, 2, 3, 4];
        let test = [0xa9, 1, 2, 3, 4];
        let nop = crate::NOP5;
        check(0x1000, &call, &call, Tier::Unchanged);
        check(0x103f, &call, &test, Tier::OneByte);
        check(0x1000, &call, &nop, Tier::AlignedWord);
        check(0x1003, &call, &nop, Tier::AlignedWord);
        check(0x1004, &call, &nop, Tier::CacheLine);
        check(0x103b, &call, &nop, Tier::AlignedWord);
        for addr in 0x103c..0x1040 {
            check(addr, &call, &nop, Tier::Straddler);
        }
        check(0x1040, &call, &nop, Tier::AlignedWord);
        check(0x103f, &call, &[0xe8, 9, 9, 9, 9], Tier::AlignedWord);
    }

    #[test]
    fn words_are_the_unit_of_proc_mem() {
        assert_eq!(tier(0x1004, &(0..5), Access::ProcMem), Tier::Straddler);
        assert_eq!(tier(0x1003, &(0..5), Access::ProcMem), Tier::AlignedWord);
    }
}

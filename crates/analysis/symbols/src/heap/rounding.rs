//! The number of bytes that an allocator provides for a request, as
//! `malloc_usable_size` reports it. A program may use all of them.
//!
//! The trace has the requested size. The rule of the GNU C library is known. Where blocks have addresses that this rule rules
//! out, they came from another allocator, which places blocks in slots; a block that replaces another one has its slot.

use memref::VirtAddr;

/// The rule of a process's allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// That of the GNU C library.
    #[default]
    Gnu,
    /// Unknown: at most as many more as the first rule says, or those of the block that was at its address before, and none
    /// from where another block began.
    Slots,
}

/// A chunk of the GNU C library: a multiple of that.
const GNU_CHUNK: u64 = 16;
/// The least that it gives.
const GNU_LEAST: u64 = 24;

impl Rounding {
    /// The bytes of a block that was asked to have `len`; `old` are those of the block that began there before.
    pub(crate) fn usable(&mut self, start: VirtAddr, len: u64, old: Option<u64>) -> u64 {
        if !start.0.is_multiple_of(GNU_CHUNK) {
            *self = Self::Slots;
        }
        // A chunk's head has 8 bytes, which are at the end of the one before it.
        let rounded = len.saturating_add(8).checked_next_multiple_of(GNU_CHUNK).unwrap_or(u64::MAX) - 8;
        let rounded = rounded.max(GNU_LEAST);
        match self {
            // What would be left is too short for a chunk: it is given, too.
            Self::Gnu if old.is_some_and(|old| old.checked_sub(GNU_CHUNK) == Some(rounded)) => {
                rounded + GNU_CHUNK
            }
            Self::Gnu => rounded,
            Self::Slots => rounded.max(old.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gnu_rule() {
        let check = |len, old, expect| {
            assert_eq!(Rounding::Gnu.usable(VirtAddr(0x1010), len, old), expect, "{len} {old:?}");
        };
        check(0, None, 24);
        check(24, None, 24);
        check(25, None, 40);
        check(33, None, 40);
        check(40, None, 40);
        check(41, None, 56);
        check(40, Some(56), 56);
        check(40, Some(72), 40);
        check(u64::MAX - 4, None, u64::MAX - 8);
    }

    #[test]
    fn addresses_that_the_gnu_rule_never_gives() {
        let mut rounding = Rounding::Gnu;
        assert_eq!(rounding.usable(VirtAddr(0x1008), 5, None), 24);
        assert_eq!(rounding, Rounding::Slots);
        assert_eq!(rounding.usable(VirtAddr(0x1010), 5, Some(64)), 64);
    }
}

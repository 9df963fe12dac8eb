//! One access of a block, and how its address follows from the values recorded by an execution.

use memref::{AccessKind, VirtAddr};

use crate::Masked;

/// Stands for no value, where the number of one is expected.
pub const NO_VALUE: u8 = 0xff;

/// One access of a block. Numbers of values count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAccess {
    /// Which instruction of the block makes it, from 0.
    pub instruction: u16,
    /// The instruction's distance from the block's address, in bytes.
    pub offset: i64,
    /// Bytes.
    pub size: u16,
    /// What is done.
    pub kind: AccessKind,
    /// The value to start from; for repeated ones where they begin.
    pub base: u8,
    /// The value that is scaled; for repeated ones the count before.
    pub index: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Whether the thread's fs base is added.
    pub fs: bool,
    /// Whether the address wraps at 32 bits.
    pub short: bool,
    /// For a repeated string instruction: where it stands afterwards.
    pub repeated: Option<Repeated>,
    /// For vectors under a mask: which of their elements are accessed.
    pub masked: Option<Masked>,
    /// The value from which on its bytes are, [`data_words`] of them; 0: they are not recorded.
    pub data: u8,
    /// What is added.
    pub displacement: i64,
}

/// The values of a repeated string instruction after it was executed, wholly or in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The value that holds the count afterwards.
    pub count_after: u8,
    /// The value that holds the place afterwards: it says in which direction the instruction went.
    pub place_after: u8,
}

/// Words that an access's bytes take. The last one of a size above 8 that is no multiple of it holds the last 8 bytes, some
/// of them for the second time.
pub const fn data_words(size: usize) -> usize {
    size.div_ceil(8)
}

#[inline]
fn value(values: &[u64], number: u8) -> u64 {
    values.get(usize::from(number)).copied().unwrap_or(0)
}

impl BlockAccess {
    /// An access of no bytes at address 0.
    pub const NONE: Self = Self {
        instruction: 0,
        offset: 0,
        size: 0,
        kind: AccessKind::Load,
        base: NO_VALUE,
        index: NO_VALUE,
        scale: 1,
        fs: false,
        short: false,
        repeated: None,
        masked: None,
        data: 0,
        displacement: 0,
    };

    /// The bytes that it read or wrote, piece by piece; nothing where they were not recorded.
    pub fn bytes(&self, values: &[u64], mut put: impl FnMut(&[u8])) {
        let size = usize::from(self.size);
        if self.data == 0 {
            return;
        }
        let word =
            |index: usize| values.get(usize::from(self.data) + index).copied().unwrap_or(0).to_le_bytes();
        for index in 0..size / 8 {
            put(&word(index));
        }
        let (rest, last) = (size % 8, word(size / 8));
        let part = if size < 8 { last.get(..rest) } else { last.get(8 - rest..) };
        if rest > 0 {
            put(part.unwrap_or(&[]));
        }
    }

    /// The address of an access that is not repeated.
    #[inline]
    pub fn address(&self, values: &[u64], fs_base: u64) -> VirtAddr {
        let mut addr = value(values, self.base)
            .wrapping_add(value(values, self.index).wrapping_mul(u64::from(self.scale)))
            .wrapping_add(self.displacement as u64);
        if self.short {
            addr &= 0xffff_ffff;
        }
        VirtAddr(if self.fs { addr.wrapping_add(fs_base) } else { addr })
    }

    /// How often a repeated string instruction made the access; `None` where it is not one's.
    #[inline]
    pub fn times(&self, values: &[u64]) -> Option<u64> {
        let Repeated { count_after, .. } = self.repeated?;
        Some(value(values, self.index).wrapping_sub(value(values, count_after)))
    }

    /// Where a repeated string instruction accessed memory for the `time`-th time, from 0; `None` where it is not one's.
    #[inline]
    pub fn repeated_address(&self, values: &[u64], fs_base: u64, time: u64) -> Option<VirtAddr> {
        let Repeated { place_after, .. } = self.repeated?;
        let start = value(values, self.base);
        let distance = time.wrapping_mul(self.size.into());
        let backwards = (value(values, place_after).wrapping_sub(start) as i64) < 0;
        let addr = if backwards { start.wrapping_sub(distance) } else { start.wrapping_add(distance) };
        Some(VirtAddr(addr.wrapping_add(if self.fs { fs_base } else { 0 })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn bytes_are_whole_words_and_the_last_eight_bytes() {
        let words = [0x1000, 0x0706_0504_0302_0100, 0x0908_0706_0504_0302];
        let check = |size: u16, expect: &[u8]| {
            let access = BlockAccess { size, data: 1, ..BlockAccess::NONE };
            let mut bytes = Vec::new();
            access.bytes(&words, |part| bytes.extend_from_slice(part));
            assert_eq!(bytes, expect, "{size}");
        };
        check(1, &[0]);
        check(4, &[0, 1, 2, 3]);
        check(8, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        BlockAccess { size: 8, ..BlockAccess::NONE }.bytes(&words, |_| panic!("nothing is recorded"));
        assert_eq!([1, 8, 10, 64].map(data_words), [1, 1, 2, 8]);
    }

    #[test]
    fn addresses_follow_from_values() {
        let access = BlockAccess { base: 0, index: 1, scale: 4, displacement: -8, ..BlockAccess::NONE };
        assert_eq!(access.address(&[1000, 3], 50), VirtAddr(1004));
        assert_eq!(BlockAccess { fs: true, ..access }.address(&[1000, 3], 50), VirtAddr(1054));
        assert_eq!(BlockAccess { short: true, ..access }.address(&[0xffff_ffff, 3], 0), VirtAddr(3));
        assert_eq!(BlockAccess { displacement: 40, ..BlockAccess::NONE }.address(&[], 2), VirtAddr(40));
    }

    #[test]
    fn repeated_accesses_go_where_the_place_went() {
        let repeated = Some(Repeated { count_after: 2, place_after: 3 });
        let access = BlockAccess { size: 8, base: 0, index: 1, repeated, ..BlockAccess::NONE };
        let check = |place_after: u64, expect: [u64; 2]| {
            let values = [0x1000, 5, 3, place_after];
            assert_eq!(access.times(&values), Some(2));
            assert_eq!([0, 1].map(|time| access.repeated_address(&values, 7, time).unwrap().0), expect);
        };
        check(0x1010, [0x1000, 0x1008]);
        check(0x0ff0, [0x1000, 0x0ff8]);
        assert_eq!(
            BlockAccess { fs: true, ..access }.repeated_address(&[16, 1, 0, 24], 7, 0),
            Some(VirtAddr(23))
        );
        assert_eq!(BlockAccess::NONE.times(&[1]), None);
    }
}

//! The place of a machine's main memory.

use core::ops::Range;

/// Where the main memory of a PC lies among its physical addresses: in one piece from 0 on, or in two, if it is so large that a part
/// would lie where devices answer. That part begins at 4 GiB.
///
/// ```
/// use memref::RamLayout;
///
/// let ram = RamLayout::new(16 << 30, 3 << 30);
/// assert_eq!(ram.end(), 17 << 30);
/// assert_eq!(ram.place(5 << 30, 8), Some(4 << 30));
/// assert_eq!(ram.place(3 << 30, 8), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RamLayout {
    bytes: u64,
    low_bytes: u64,
}

impl RamLayout {
    /// Where the second piece begins.
    pub const HIGH: u64 = 1 << 32;

    /// So many bytes in all, `low_bytes` of them in the first piece, which ends at 4 GiB at the latest.
    pub const fn new(bytes: u64, low_bytes: u64) -> Self {
        let most = if bytes < Self::HIGH { bytes } else { Self::HIGH };
        Self { bytes, low_bytes: if low_bytes < most { low_bytes } else { most } }
    }

    /// Bytes of memory.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Bytes of the first piece.
    pub const fn low_bytes(self) -> u64 {
        self.low_bytes
    }

    /// The address behind the last byte.
    pub const fn end(self) -> u64 {
        let high = self.bytes - self.low_bytes;
        if high == 0 { self.low_bytes } else { Self::HIGH.saturating_add(high) }
    }

    /// The piece in which an address lies.
    pub const fn piece(self, addr: u64) -> Option<Range<u64>> {
        if addr < self.low_bytes {
            Some(0..self.low_bytes)
        } else if addr >= Self::HIGH && addr < self.end() {
            Some(Self::HIGH..self.end())
        } else {
            None
        }
    }

    /// The place of an address among the bytes of memory, if so many bytes lie there in one piece.
    #[inline]
    pub const fn place(self, addr: u64, len: u64) -> Option<u64> {
        match self.piece(addr) {
            Some(piece) if len <= piece.end - addr => {
                Some(if piece.start == 0 { addr } else { addr - piece.start + self.low_bytes })
            }
            _ => None,
        }
    }

    /// The address of a place. Of places behind the last byte it is one behind the last, too.
    #[inline]
    pub const fn addr(self, place: u64) -> u64 {
        if place < self.low_bytes { place } else { place.saturating_add(Self::HIGH - self.low_bytes) }
    }

    /// The addresses of a range of places, in a piece each.
    pub fn addrs(self, places: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let end = places.end.min(self.bytes);
        let low = places.start..end.min(self.low_bytes);
        let high = places.start.max(self.low_bytes)..end;
        [low, self.addr(high.start)..self.addr(high.end)].into_iter().filter(|piece| piece.start < piece.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_addresses_agree() {
        for (bytes, low) in [(0, 0), (0x8000, 0x8000), (0x8000, 0x9000), (0x9000, 0x8000), (9 << 30, 2 << 30)]
        {
            let ram = RamLayout::new(bytes, low);
            let pieces = || ram.addrs(0..u64::MAX);
            assert_eq!(pieces().map(|piece| piece.end - piece.start).sum::<u64>(), bytes);
            assert_eq!(pieces().last().map_or(0, |piece| piece.end), ram.end());
            let mut before = 0;
            for piece in pieces() {
                assert_eq!(ram.piece(piece.start), Some(piece.clone()));
                assert_eq!(ram.place(piece.start, piece.end - piece.start), Some(before));
                assert_eq!(ram.addr(before), piece.start);
                assert_eq!(ram.place(piece.end - 1, 2), None);
                assert_eq!(ram.piece(piece.end), None);
                before += piece.end - piece.start;
            }
        }
        let ram = RamLayout::new(6 << 30, 3 << 30);
        let across = (3 << 30) - 0x1000..(3 << 30) + 0x1000;
        assert!(ram.addrs(across).eq([(3 << 30) - 0x1000..3 << 30, 4 << 30..(4 << 30) + 0x1000]));
    }

    #[test]
    fn what_a_damaged_file_says_overflows_nothing() {
        for (bytes, low) in [(u64::MAX, 0), (u64::MAX, u64::MAX), (0, u64::MAX)] {
            let ram = RamLayout::new(bytes, low);
            assert!(ram.low_bytes() <= RamLayout::HIGH);
            assert!(ram.end() >= ram.low_bytes());
            assert_eq!(ram.place(u64::MAX, 2), None);
            assert!(ram.addrs(0..u64::MAX).count() <= 2);
        }
    }
}

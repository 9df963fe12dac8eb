//! The entries of a page index: their bytes, and the checks for entries that no builder would write (docs/format.md, *The page index*).

use memref::ProcessId;

use super::MOST_CELLS;
use crate::{
    Interval,
    bytes::{put_words, u32_at, u64_at},
};

/// Bits of a page's size: 4,096 bytes.
pub(crate) const PAGE_SHIFT: u8 = 12;
const UNREADABLE: u8 = 1;
/// Bytes of an entry of each of the three streams.
pub(crate) const ENTRY_BYTES: usize = 48;

/// What a frame of accesses did to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCell {
    /// The page's number: its address by the size of the frame's pages.
    pub page: u64,
    /// Accesses that begin in it, by [`memref::AccessKind`]: loads, stores, modifies. Prefetches are not counted.
    pub counts: [u32; 3],
    /// Bytes of these.
    pub bytes: u64,
    /// Lines, 64 a page, of which a load, modify or prefetch touched a byte.
    pub read_lines: u64,
    /// Lines of which a store or modify touched a byte.
    pub written_lines: u64,
}

impl PageCell {
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let [loads, stores, modifies] = self.counts.map(u64::from);
        let counts = [loads | stores << 32, modifies];
        put_words(&[self.page, counts[0], counts[1], self.bytes, self.read_lines, self.written_lines])
    }

    /// `None` where bytes are not zero that must be.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (u32_at(bytes, 20) == 0).then(|| Self {
            page: u64_at(bytes, 0),
            counts: [8, 12, 16].map(|at| u32_at(bytes, at)),
            bytes: u64_at(bytes, 24),
            read_lines: u64_at(bytes, 32),
            written_lines: u64_at(bytes, 40),
        })
    }
}

/// A frame of accesses in the index, and which cells are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexedFrame {
    pub(crate) stream: u32,
    pub(crate) sequence: u64,
    /// Bits of its pages' size.
    pub(crate) shift: u8,
    /// Whether it could not be decoded: there are no cells then.
    pub(crate) unreadable: bool,
    pub(crate) first_cell: u64,
    pub(crate) cells: u16,
    /// Entries that its header claims.
    pub(crate) entries: u64,
    /// What accesses of many pages span.
    pub(crate) wide: Interval,
}

impl IndexedFrame {
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let flags = if self.unreadable { u64::from(UNREADABLE) } else { 0 };
        let head =
            u64::from(self.stream) | u64::from(self.shift) << 32 | flags << 40 | u64::from(self.cells) << 48;
        put_words(&[head, self.sequence, self.first_cell, self.entries, self.wide.min, self.wide.max])
    }

    /// `None` where nobody would have written it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let head = u64_at(bytes, 0);
        let (shift, flags, cells) = ((head >> 32) as u8, (head >> 40) as u8, (head >> 48) as u16);
        let sound = (PAGE_SHIFT..64).contains(&shift)
            && flags & !UNREADABLE == 0
            && usize::from(cells) <= MOST_CELLS
            && (flags == 0 || cells == 0);
        sound.then(|| Self {
            stream: head as u32,
            sequence: u64_at(bytes, 8),
            shift,
            unreadable: flags != 0,
            first_cell: u64_at(bytes, 16),
            cells,
            entries: u64_at(bytes, 24),
            wide: Interval { min: u64_at(bytes, 32), max: u64_at(bytes, 40) },
        })
    }
}

/// What a whole trace did to a page of 4,096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTotal {
    /// Whose.
    pub process: ProcessId,
    /// The page's number.
    pub page: u64,
    /// Accesses that begin in it: loads, stores, modifies.
    pub counts: [u64; 3],
    /// Bytes of these.
    pub bytes: u64,
}

impl PageTotal {
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let [loads, stores, modifies] = self.counts;
        put_words(&[u64::from(self.process.0), self.page, loads, stores, modifies, self.bytes])
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (u32_at(bytes, 4) == 0).then(|| Self {
            process: ProcessId(u32_at(bytes, 0)),
            page: u64_at(bytes, 8),
            counts: [16, 24, 32].map(|at| u64_at(bytes, at)),
            bytes: u64_at(bytes, 40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        let cell = PageCell {
            page: u64::MAX >> 12,
            counts: [1, u32::MAX, 3],
            bytes: 1 << 40,
            read_lines: 5,
            written_lines: u64::MAX,
        };
        assert_eq!(PageCell::from_bytes(&cell.to_bytes()), Some(cell));
        let frame = IndexedFrame {
            stream: 7,
            sequence: 8,
            shift: 19,
            unreadable: false,
            first_cell: 1 << 33,
            cells: 1024,
            entries: 1 << 20,
            wide: Interval { min: 3, max: 9 },
        };
        assert_eq!(IndexedFrame::from_bytes(&frame.to_bytes()), Some(frame));
        let total = PageTotal { process: ProcessId(3), page: 4, counts: [5, 6, 1 << 33], bytes: 7 };
        assert_eq!(PageTotal::from_bytes(&total.to_bytes()), Some(total));
    }

    #[test]
    fn what_nobody_writes_is_refused() {
        let frame = IndexedFrame {
            stream: 1,
            sequence: 0,
            shift: PAGE_SHIFT,
            unreadable: true,
            first_cell: 0,
            cells: 0,
            entries: 1,
            wide: Interval::NONE,
        };
        assert_eq!(IndexedFrame::from_bytes(&frame.to_bytes()), Some(frame));
        let refused = |frame: IndexedFrame| IndexedFrame::from_bytes(&frame.to_bytes()).is_none();
        assert!(refused(IndexedFrame { cells: 1, ..frame }));
        assert!(refused(IndexedFrame { shift: 11, ..frame }));
        assert!(refused(IndexedFrame { shift: 64, ..frame }));
        assert!(refused(IndexedFrame { cells: 1025, unreadable: false, ..frame }));
    }
}

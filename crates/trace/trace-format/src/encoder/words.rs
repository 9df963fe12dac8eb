//! An access as the words of its entry, the form in which the encoders of accesses process it.

use memref::{Access, AccessKind, VirtAddr};

use crate::EntryType;

/// Bytes of an entry without data.
pub(super) const PLAIN_BYTES: usize = 32;
/// Bytes of an entry with data.
pub(super) const DATA_BYTES: usize = 40;

/// Whether accesses of that type carry data.
pub(super) fn has_data(entry_type: &EntryType) -> bool {
    entry_type.entry_bytes as usize == DATA_BYTES
}

/// An entry's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccessWords {
    pub(super) cycle: u64,
    pub(super) ip: u64,
    pub(super) addr: u64,
    /// Size u32, kind u8, bytes of the value u8, zero u16.
    pub(super) shape: u64,
    /// Zero where there is no data.
    pub(super) value: u64,
}

impl AccessWords {
    /// Those of an entry with data or without.
    #[inline]
    pub(super) fn of<const BYTES: usize>(entry: &[u8; BYTES]) -> Self {
        let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
        let value = if BYTES == DATA_BYTES { word(32) } else { 0 };
        Self { cycle: word(0), ip: word(8), addr: word(16), shape: word(24), value }
    }

    /// Appends the entry.
    #[inline]
    pub(super) fn put(&self, data: bool, out: &mut Vec<u8>) {
        let mut entry = [0; DATA_BYTES];
        let all = [self.cycle, self.ip, self.addr, self.shape, self.value];
        for (place, word) in entry.as_chunks_mut().0.iter_mut().zip(all) {
            *place = word.to_le_bytes();
        }
        out.extend_from_slice(if data { &entry } else { &entry[..PLAIN_BYTES] });
    }

    /// The access; `None` where its kind is a number that stands for nothing.
    #[inline]
    pub(super) fn access(&self) -> Option<Access> {
        let &Self { cycle, ip, addr, shape, .. } = self;
        let kind = AccessKind::from_code(kind(shape))?;
        Some(Access { cycle, ip: VirtAddr(ip), addr: VirtAddr(addr), size: shape as u32, kind })
    }
}

/// The kind of access that a shape says.
#[inline]
pub(super) fn kind(shape: u64) -> u8 {
    (shape >> 32) as u8
}

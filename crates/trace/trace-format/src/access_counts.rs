//! The number of accesses of each kind in a frame, for its header (docs/format.md, *Frame*).

use memref::AccessKind;

use crate::{EntryType, StreamKind};

/// Where the kind of an access stands in its entry, with data and without.
const KIND_AT: usize = 28;

/// Accesses by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Modifies.
    pub modifies: u64,
    /// Prefetches, which access nothing.
    pub prefetches: u64,
}

impl AccessCounts {
    /// Adds so many of one kind.
    #[inline]
    pub fn add(&mut self, kind: AccessKind, times: u64) {
        *match kind {
            AccessKind::Load => &mut self.loads,
            AccessKind::Store => &mut self.stores,
            AccessKind::Modify => &mut self.modifies,
            AccessKind::Prefetch => &mut self.prefetches,
        } += times;
    }

    /// Adds those of another frame.
    pub fn join(&mut self, other: Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.modifies += other.modifies;
        self.prefetches += other.prefetches;
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.loads + self.stores + self.modifies + self.prefetches
    }

    /// Those of whole entries; `None` where the type is none of accesses, or an entry is of no kind.
    pub(crate) fn of(entry_type: &EntryType, entries: &[u8]) -> Option<Self> {
        let kind = StreamKind::of(entry_type)?;
        if !matches!(kind, StreamKind::Accesses | StreamKind::DataAccesses) {
            return None;
        }
        let mut codes = [0u64; 4];
        for entry in entries.chunks_exact(kind.entry_bytes()) {
            *codes.get_mut(usize::from(*entry.get(KIND_AT)?))? += 1;
        }
        let mut counts = Self::default();
        for (code, times) in (0..).zip(codes) {
            counts.add(AccessKind::from_code(code)?, times);
        }
        Some(counts)
    }
}

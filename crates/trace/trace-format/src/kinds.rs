//! Sets of event kinds: what a frame contains, and what a filter selects (docs/format.md, *Kind bits*).

use std::ops::BitOr;

use memref::{AccessKind, AllocationKind, BlockKind, MarkerKind};

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindSet(pub u32);

impl KindSet {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind, also those of later versions.
    pub const ALL: Self = Self(u32::MAX);
    /// Every kind of access.
    pub const ACCESSES: Self = Self(0xf);
    /// Loads and modifies.
    pub const READS: Self = Self(0b0101);
    /// Stores and modifies.
    pub const WRITES: Self = Self(0b0110);
    /// Block operations.
    pub const BLOCKS: Self = Self(0x70);
    /// Allocations and releases.
    pub const ALLOCATIONS: Self = Self(0xff00);
    /// Markers.
    pub const MARKERS: Self = Self(0x7_0000);
    /// Order marks.
    pub const ORDERS: Self = Self(1 << 24);
    /// Gaps.
    pub const GAPS: Self = Self(1 << 25);
    /// Synchronisation.
    pub const SYNCS: Self = Self(1 << 26);

    /// One kind of access.
    pub const fn access(kind: AccessKind) -> Self {
        Self(1 << kind.code())
    }

    /// One kind of block operation.
    pub const fn block(kind: BlockKind) -> Self {
        Self(1 << (4 + kind.code()))
    }

    /// One kind of allocation event.
    pub const fn allocation(kind: AllocationKind) -> Self {
        Self(1 << (8 + kind.code()))
    }

    /// One kind of marker.
    pub const fn marker(kind: MarkerKind) -> Self {
        Self(1 << (16 + kind.code()))
    }

    /// The kinds of this set that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the two sets have a kind in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for KindSet {
    fn default() -> Self {
        Self::ALL
    }
}

impl BitOr for KindSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

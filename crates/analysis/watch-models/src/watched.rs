//! The two bits of a watched byte.

use memref::AccessKind;

/// What of a byte is watched: reads, writes, both or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched(u8);

impl Watched {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Reads.
    pub const READ: Self = Self(1);
    /// Writes.
    pub const WRITE: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// From two bits; higher ones are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 3)
    }

    /// Bit 0 reads, bit 1 writes.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// What an access of that kind hits.
    pub const fn hit_by(kind: AccessKind) -> Self {
        Self(kind.reads() as u8 | (kind.writes() as u8) << 1)
    }

    /// Whether the two have a bit in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Either's bits.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This one's bits but for those of the other.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether nothing is watched.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

//! Newtypes for numbers that must not be confused.

use core::fmt;

/// Bytes of the pages that Linux maps on x86-64: of the memory under a real heap, as opposed to a modelled one.
pub const HOST_PAGE_BYTES: usize = 4096;

/// A virtual page, by its number in its address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Page(pub u32);

/// A physical frame, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FrameNumber(pub u32);

/// What a region allows, or an access wants: a set of read, write and execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Loads.
    pub const READ: Self = Self(1);
    /// Stores.
    pub const WRITE: Self = Self(2);
    /// Instruction fetches.
    pub const EXECUTE: Self = Self(4);
    /// Loads and stores.
    pub const READ_WRITE: Self = Self(3);

    /// Three bits: read, write, execute. Others are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Three bits: read, write, execute.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `wanted` is among these.
    pub const fn allow(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Self::READ, "read"), (Self::WRITE, "write"), (Self::EXECUTE, "execute")];
        let mut first = true;
        for (right, name) in names {
            if self.allow(right) {
                write!(f, "{}{name}", if first { "" } else { " and " })?;
                first = false;
            }
        }
        if first { write!(f, "nothing") } else { Ok(()) }
    }
}

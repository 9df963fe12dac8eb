//! Addresses as they are in files.

use core::fmt;

/// An address as its file was linked. In memory it is that plus what the loader added to all addresses of the file, its bias,
/// which is zero where the file can't be moved. Of a thread-local variable it is an offset in the file's template.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct LinkAddr(pub u64);

impl LinkAddr {
    /// The last one.
    pub const MAX: Self = Self(u64::MAX);

    /// This address plus `bytes`, wrapping as the processor does.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Where it is in a process that has the file's addresses moved by `bias`, wrapping as the loader's addition does.
    #[must_use]
    pub const fn placed(self, bias: u64) -> u64 {
        self.0.wrapping_add(bias)
    }

    /// This address plus `bytes`, or the last one: what a file says need not fit.
    #[must_use]
    pub const fn saturating_offset(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Bytes from `base` up to this address, or `None` where it lies below.
    #[must_use]
    pub const fn checked_sub(self, base: Self) -> Option<u64> {
        self.0.checked_sub(base.0)
    }
}

impl fmt::Debug for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

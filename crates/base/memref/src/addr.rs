//! Addresses of the traced program.

use core::fmt;

/// An address in the traced program's address space. It means nothing in this process and can't be dereferenced here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct VirtAddr(pub u64);

impl VirtAddr {
    /// Bits of an address that lie within its page.
    pub const PAGE_SHIFT: u32 = 12;
    /// Bytes of a small page.
    pub const PAGE_BYTES: u64 = 1 << Self::PAGE_SHIFT;

    /// The first address of the page that holds this one.
    pub const fn page_start(self) -> Self {
        Self(self.0 & !(Self::PAGE_BYTES - 1))
    }

    /// The number of the page that holds this address.
    pub const fn page_number(self) -> u64 {
        self.0 / Self::PAGE_BYTES
    }

    /// This address plus `len_bytes`, wrapping as the hardware does.
    pub const fn offset(self, len_bytes: u64) -> Self {
        Self(self.0.wrapping_add(len_bytes))
    }

    /// Bytes from `base` up to this address, or `None` where it lies below.
    pub const fn checked_sub(self, base: Self) -> Option<u64> {
        self.0.checked_sub(base.0)
    }

    /// Whether it lies in the upper half of the address space, which is the kernel's.
    pub const fn is_of_kernel(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Bytes between this address and another one, whichever is lower.
    pub const fn distance(self, other: Self) -> u64 {
        self.0.abs_diff(other.0)
    }
}

impl fmt::Debug for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

//! A table with one byte per page that describes the page, so that a handler looks
//! up an address with one load; and the place of the second view of an address.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use memref::VirtAddr;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;

/// The distance of the two views. Programs live at 0x0000..., 0x55.. and 0x7f..; their views at 0x50.., 0x05.. and 0x2f...
pub(crate) const VIEW: u64 = 0x5000_0000_0000;

/// The end of the addresses that a program can have.
pub(crate) const TOP: u64 = 1 << 47;

/// Where the bytes for the pages are.
pub(crate) const PAGES_AT: u64 = 0x1100_0000_0000;
pub(crate) const PAGES_BYTES: u64 = TOP >> 12;

/// The page has a second view.
pub(crate) const PAGE_VIEWED: u8 = 1;

/// Accesses to the page are recorded.
pub(crate) const PAGE_TRACED: u8 = 2;

/// The program may read it.
pub(crate) const PAGE_READ: u8 = 4;

/// The program may write it.
pub(crate) const PAGE_WRITE: u8 = 8;

/// The bytes for the pages, or null.
pub(crate) static PAGES: AtomicUsize = AtomicUsize::new(0);

/// Whether an address is that of a page.
pub(crate) const fn is_page_start(addr: u64) -> bool {
    addr.is_multiple_of(PAGE_BYTES)
}

/// The first byte of the page that an address is in.
pub(crate) const fn start_of_page(addr: u64) -> u64 {
    addr & !(PAGE_BYTES - 1)
}

/// The end of the page that the byte before an address is in.
pub(crate) const fn end_of_page(addr: u64) -> u64 {
    start_of_page(addr.saturating_add(PAGE_BYTES - 1))
}

/// Bytes from an address to the end of its page.
pub(crate) const fn rest_of_page(addr: u64) -> u64 {
    PAGE_BYTES - (addr & (PAGE_BYTES - 1))
}

/// A length in whole pages; zero where there are none so long: the kernel refuses the call.
pub(crate) fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE_BYTES).unwrap_or(0)
}

/// Whether any page of the process can have a second view.
pub(crate) fn are_viewed() -> bool {
    PAGES.load(Ordering::Relaxed) != 0
}

/// What page an address is in. Zero: one that we leave alone.
#[inline]
pub(crate) fn page(addr: u64) -> u8 {
    let pages = PAGES.load(Ordering::Relaxed) as *const AtomicU8;
    if addr >= TOP || pages.is_null() {
        return 0;
    }
    // SAFETY: the table has a byte for each page below TOP and is never unmapped.
    unsafe { (*pages.add((addr >> 12) as usize)).load(Ordering::Relaxed) }
}

/// Our view of an address in a viewed page.
#[inline]
pub(crate) const fn view(addr: u64) -> u64 {
    addr ^ VIEW
}

/// Whether all of a range has a second view.
pub(crate) fn is_viewed(addr: u64, len: u64) -> bool {
    let Some(last) = addr.checked_add(len.max(1) - 1) else { return false };
    (addr >> 12..=last >> 12).all(|number| page(number << 12) & PAGE_VIEWED != 0)
}

/// Where `addr` can be read or written now, whatever is closed: itself, or its view.
#[inline]
pub(crate) fn open_address(addr: u64) -> u64 {
    if page(addr) & PAGE_VIEWED != 0 { view(addr) } else { addr }
}

/// The program's address of what a fault is about: that of memory that one of our views shows, or the address itself.
pub(crate) fn program_address(addr: u64) -> u64 {
    if page(view(addr)) & PAGE_VIEWED != 0 { view(addr) } else { addr }
}

//! Copies of what our views show: for a forked child, and where the program's memory moves.
//!
//! A view has the program's access rights, and memory without read permission is moved, too. It is therefore
//! read through a third mapping of the same pages; meanwhile the view stays closed to calls of other threads.

use tracee::sys;

use crate::memory::pages::{self, PAGE_BYTES};
use crate::memory::ranges::{RANGES, Range};

/// Words of a page.
const WORDS_OF_PAGE: usize = PAGE_BYTES as usize / size_of::<u64>();

/// Pages that the kernel is asked about at once.
const PAGES_ASKED: usize = 4096;

/// Copies memory page by page, leaving out pages of zeros: they stay unallocated.
///
/// # Safety
/// Both ranges must be mapped (`from` readable), page-aligned and apart.
pub(crate) unsafe fn copy_pages(from: u64, to: u64, len: u64) {
    for offset in (0..len).step_by(PAGE_BYTES as usize) {
        let (source, target) = ((from + offset) as *const u64, (to + offset) as *mut u64);
        // SAFETY: the caller vouches for both pages.
        unsafe {
            if (0..WORDS_OF_PAGE).any(|index| source.add(index).read_volatile() != 0) {
                core::ptr::copy_nonoverlapping(source, target, WORDS_OF_PAGE);
            }
        }
    }
}

/// Copies what our view of a range shows, whatever the program may do with it. `false`: there is no memory for that.
///
/// # Safety
/// The range has a view; `to` is as long, can be written, is zero and apart from both.
pub(crate) unsafe fn copy_view(range: &Range, to: u64) -> bool {
    let (view, len) = (pages::view(range.start), range.end - range.start);
    let is_readable = range.prot & (sys::PROT_READ | sys::PROT_WRITE) != 0;
    let Some(from) = (if is_readable { Some(view) } else { open_again(view, len) }) else { return false };
    // A byte for each page.
    let mut resident = [0u8; PAGES_ASKED];
    for chunk in (0..len).step_by(PAGE_BYTES as usize * PAGES_ASKED) {
        let bytes = (len - chunk).min(PAGE_BYTES * PAGES_ASKED as u64);
        // SAFETY: the kernel writes a byte for each page of our view into the array.
        let asked = unsafe {
            let args = [(view + chunk) as usize, bytes as usize, resident.as_mut_ptr() as usize, 0, 0, 0];
            sys::syscall(libc::SYS_mincore as usize, args)
        };
        for page in 0..bytes / PAGE_BYTES {
            if sys::failed(asked) || resident.get(page as usize).is_some_and(|byte| byte & 1 != 0) {
                let offset = chunk + page * PAGE_BYTES;
                // SAFETY: both mappings span the page.
                unsafe { copy_pages(from + offset, to + offset, PAGE_BYTES) };
            }
        }
    }
    if from != view {
        // SAFETY: the mapping that was made above, which nobody else knows of.
        unsafe { sys::munmap(from, len) };
    }
    true
}

/// As [`copy_view`], of all ranges between two addresses.
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_views(start: u64, end: u64, to: u64) -> bool {
    let mut is_copied = true;
    RANGES.lock().each_within(start, end, |part| {
        // SAFETY: the caller's promise.
        is_copied &= unsafe { copy_view(&part, to + (part.start - start)) };
    });
    is_copied
}

/// Another mapping of the pages of a view, which can be read; `None` where there is no memory for it.
fn open_again(view: u64, len: u64) -> Option<u64> {
    // SAFETY: an old length of zero makes another mapping of the same shared pages, where nothing is, and leaves the view.
    let again = unsafe { sys::mremap(view, 0, len, sys::MREMAP_MAYMOVE, 0) };
    if sys::failed(again) {
        return None;
    }
    let again = again as u64;
    // SAFETY: nobody else knows of it.
    unsafe {
        if !sys::failed(sys::mprotect(again, len, sys::PROT_READ)) {
            return Some(again);
        }
        sys::munmap(again, len);
    }
    None
}

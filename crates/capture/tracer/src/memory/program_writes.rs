//! Writes the program's memory as the kernel would for the program: an invalid
//! pointer yields an error, not a fault, and code at the written place is forgotten.

use core::sync::atomic::{AtomicUsize, Ordering};

use tracee::guarded;

use crate::memory::pages;
use crate::memory::program_memory::AnyBytes;

/// What opens pages that are kept from being written because code in them is translated; [`set_opener`] alone writes it.
static OPENER: AtomicUsize = AtomicUsize::new(0);

/// Opens the pages of a range, which the tracer writes for the program, and forgets their code. `false`: there is none.
pub(crate) type Opener = fn(start: u64, len: u64) -> bool;

/// From now on pages with code are opened by that. Told instead of called by name: who translates knows how the program's memory is
/// written, so that this file can't know who translates.
pub(crate) fn set_opener(opener: Opener) {
    OPENER.store(opener as usize, Ordering::Release);
}

/// How often a page is opened for one write.
const MAX_OPENINGS: u32 = 32;

fn open(start: u64, len: u64) -> bool {
    let opener = OPENER.load(Ordering::Acquire);
    if opener == 0 {
        return false;
    }
    // SAFETY: `set_opener` stored it, an `Opener`; functions of this library stay where they are.
    let opener = unsafe { core::mem::transmute::<usize, Opener>(opener) };
    opener(start, len)
}

/// Writes the program's memory. `false`: not all of it can be written.
///
/// # Safety
/// The range is one that the program asks the kernel to write now.
pub(crate) unsafe fn write(addr: u64, bytes: &[u8]) -> bool {
    let mut done = 0;
    let mut openings = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        let at = addr.wrapping_add(done as u64);
        let part = rest.len().min(pages::rest_of_page(at) as usize);
        // SAFETY: the caller's promise.
        let copied = unsafe { guarded::copy(pages::open_address(at), rest.as_ptr() as u64, part) };
        done += copied;
        if copied != part {
            // It may be a page with code, which is kept from being written.
            // Another thread may execute it, and close it again.
            if openings == MAX_OPENINGS || !open(at, part as u64) {
                return false;
            }
            openings += 1;
        } else {
            openings = 0;
        }
    }
    true
}

/// Leaves a value in the program's memory. `false`: it can't be written.
///
/// # Safety
/// As [`write()`].
pub(crate) unsafe fn set_value<T: AnyBytes>(addr: u64, value: &T) -> bool {
    // SAFETY: the bytes of a value without padding that matters; the caller's promise.
    unsafe { write(addr, core::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>())) }
}

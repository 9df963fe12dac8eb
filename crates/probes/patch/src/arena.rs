//! Memory for descriptions that live as long as the process: one reserved mapping and a counter.
//!
//! Probes are discovered in the middle of arbitrary functions, including the allocator's,
//! so nothing here may call it, and no lock is taken. Memory is never freed.

use std::sync::atomic::{AtomicUsize, Ordering};

const RESERVED_BYTES: usize = 1 << 30;

/// Start of the reserved mapping, 0 before the first use; set once by whoever maps first.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes handed out.
static USED: AtomicUsize = AtomicUsize::new(0);

fn base() -> Option<usize> {
    let base = BASE.load(Ordering::Acquire);
    if base != 0 {
        return Some(base);
    }
    let fresh = map_anonymous(RESERVED_BYTES)?;
    match BASE.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(winner) => {
            // SAFETY: `fresh` was mapped a moment ago and nobody else has seen it.
            unsafe { crate::sys::syscall(libc::SYS_munmap, [fresh, RESERVED_BYTES, 0, 0, 0, 0]) };
            Some(winner)
        }
    }
}

/// How far below this library mappings are asked for: punned jumps reach two gigabytes around the code that they stand in, and
/// each place that is taken there may cost a function its jump.
const DISTANCE: usize = 1 << 40;
/// The bytes that were asked for so far.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Where the next mapping should lie, if nothing is there; 0: anywhere.
fn hint(len_bytes: usize) -> usize {
    let offset = ASKED.fetch_add(len_bytes.next_multiple_of(crate::PAGE_BYTES), Ordering::Relaxed);
    let start = (&raw const BASE as usize).checked_sub(DISTANCE).filter(|_| offset < DISTANCE / 2);
    start.map_or(0, |start| (start & !(crate::PAGE_BYTES - 1)) + offset)
}

/// A new zeroed anonymous mapping of at least `len_bytes` bytes, without going through libc.
#[must_use]
pub fn map_anonymous(len_bytes: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new private anonymous mapping, where the kernel finds nothing else, disturbs nothing.
    let got = unsafe {
        crate::sys::syscall(
            libc::SYS_mmap,
            [hint(len_bytes), len_bytes, prot as usize, flags as usize, usize::MAX, 0],
        )
    };
    (got > 0).then_some(got as usize)
}

/// `len_bytes` zeroed bytes, aligned to 64, for the rest of the process's life; `None` when the reservation is used up.
#[must_use]
pub fn allocate(len_bytes: usize) -> Option<*mut u8> {
    let rounded = len_bytes.checked_add(63)? & !63;
    let base = base()?;
    let offset = USED.fetch_add(rounded, Ordering::Relaxed);
    (offset.checked_add(rounded)? <= RESERVED_BYTES).then_some((base + offset) as *mut u8)
}

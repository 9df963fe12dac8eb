//! Executable memory within reach of a 32-bit displacement, for trampolines.
//!
//! Chunks are mapped in the gaps around the requesting code and handed out by a counter; nothing is freed.

use crate::{LINE_BYTES, PAGE_BYTES, maps, sys};
use std::sync::atomic::{AtomicUsize, Ordering};

const CHUNK_BYTES: usize = 256 << 10;
/// Displacements up to this much are within reach, with room for the site and the chunk themselves.
const REACH_BYTES: usize = (1 << 31) - (1 << 20);
const CHUNKS: usize = 4096;

struct Chunk {
    /// 0: free; written once.
    base: AtomicUsize,
    used: AtomicUsize,
}

static TABLE: [Chunk; CHUNKS] =
    [const { Chunk { base: AtomicUsize::new(0), used: AtomicUsize::new(0) } }; CHUNKS];

/// `len_bytes` writable and executable bytes within two gigabytes of `addr`, filled with `int3`, aligned to 16.
/// `None`: no gap is near, or the system forbids writable code.
#[must_use]
pub fn allocate_near(addr: usize, len_bytes: usize) -> Option<usize> {
    allocate(addr, len_bytes, 16)
}

/// As [`allocate_near`], aligned to lines of the cache.
#[must_use]
pub fn allocate_lines_near(addr: usize, len_bytes: usize) -> Option<usize> {
    allocate(addr, len_bytes, LINE_BYTES)
}

fn allocate(addr: usize, len_bytes: usize, align: usize) -> Option<usize> {
    let rounded = len_bytes.next_multiple_of(align);
    if rounded > CHUNK_BYTES {
        return None;
    }
    // Several threads may find the same gap; all but one try again, and then share the winner's chunk.
    for _ in 0..16 {
        if let Some(place) = from_chunks(addr, rounded, align) {
            return Some(place);
        }
        if let Some(base) = map_near(addr) {
            TABLE.iter().find(|chunk| {
                chunk.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            })?;
        }
    }
    None
}

/// Whether `addr` lies in memory that was handed out here.
#[must_use]
pub fn contains(addr: usize) -> bool {
    TABLE
        .iter()
        .map(|chunk| chunk.base.load(Ordering::Acquire))
        .take_while(|base| *base != 0)
        .any(|base| (base..base + CHUNK_BYTES).contains(&addr))
}

/// Takes the right to write from all chunks, or gives it to them again: nothing may be written here in between.
pub fn seal(sealed: bool) {
    let write = if sealed { 0 } else { libc::PROT_WRITE };
    let rights = libc::PROT_READ | libc::PROT_EXEC | write;
    for base in TABLE.iter().map(|chunk| chunk.base.load(Ordering::Acquire)).take_while(|base| *base != 0) {
        // SAFETY: a chunk of ours, which stays readable and executable.
        unsafe { sys::syscall(libc::SYS_mprotect, [base, CHUNK_BYTES, rights as usize, 0, 0, 0]) };
    }
}

fn from_chunks(addr: usize, rounded: usize, align: usize) -> Option<usize> {
    for chunk in &TABLE {
        let base = chunk.base.load(Ordering::Acquire);
        if base == 0 {
            break;
        }
        if base.abs_diff(addr) >= REACH_BYTES {
            continue;
        }
        let end =
            |used: usize| Some(used.next_multiple_of(align) + rounded).filter(|end| *end <= CHUNK_BYTES);
        if let Ok(used) = chunk.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end) {
            return Some(base + used.next_multiple_of(align));
        }
    }
    None
}

/// Maps one chunk in the nearest gap.
fn map_near(addr: usize) -> Option<usize> {
    let mut best: Option<usize> = None;
    let mut previous_end = 0x1_0000;
    let mut consider = |start: usize, end: usize| {
        if end.saturating_sub(start) < CHUNK_BYTES {
            return;
        }
        // Below the code the nearest place is the gap's end; above, its start (a little off, the heap grows there).
        let place = if end <= addr {
            end - CHUNK_BYTES
        } else {
            start.next_multiple_of(CHUNK_BYTES).min(end - CHUNK_BYTES) & !(PAGE_BYTES - 1)
        };
        if place.abs_diff(addr) < REACH_BYTES && best.is_none_or(|b| place.abs_diff(addr) < b.abs_diff(addr))
        {
            best = Some(place);
        }
    };
    maps::for_each(|mapping| {
        consider(previous_end, mapping.start);
        previous_end = mapping.end;
        true
    });
    consider(previous_end, 0x7fff_ffff_0000);
    map_exactly(best?, CHUNK_BYTES)
}

/// Maps `len_bytes` of writable code at exactly `start`, filled with `int3`; `None` where something is mapped already.
#[must_use]
pub fn map_exactly(start: usize, len_bytes: usize) -> Option<usize> {
    let start = map_empty(start, len_bytes)?;
    // SAFETY: freshly mapped, writable, ours alone.
    unsafe { std::ptr::write_bytes(start as *mut u8, crate::INT3, len_bytes) };
    Some(start)
}

/// As [`map_exactly`], filled with zeros: no page of it is there before it is written.
#[must_use]
pub fn map_empty(start: usize, len_bytes: usize) -> Option<usize> {
    let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    // SAFETY: MAP_FIXED_NOREPLACE never touches an existing mapping.
    let got = unsafe {
        sys::syscall(libc::SYS_mmap, [start, len_bytes, prot as usize, flags as usize, usize::MAX, 0])
    };
    if got <= 0 {
        return None;
    }
    let got = got as usize;
    if got != start {
        // SAFETY: an old kernel ignored the flag; the mapping is ours and unused.
        unsafe { sys::syscall(libc::SYS_munmap, [got, len_bytes, 0, 0, 0, 0]) };
        return None;
    }
    Some(start)
}

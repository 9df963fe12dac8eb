//! The stores that change code. They are in a section of their own, so that a patch of the patcher itself can be refused.
//!
//! There is deliberately no protocol here: each function makes one store (or, for a length without a store instruction, one
//! locked compare-and-exchange of the surrounding eight bytes, which does not disturb a concurrent patch of a neighbour).

use crate::{LINE_BYTES, pages};
use std::{
    arch::asm,
    sync::atomic::{AtomicBool, Ordering},
};

unsafe extern "C" {
    #[link_name = "__start_memtap_patch_text"]
    static SECTION_START: u8;
    #[link_name = "__stop_memtap_patch_text"]
    static SECTION_END: u8;
}

/// Whether `[addr, addr + len_bytes)` touches the code that patches.
#[must_use]
pub fn is_own_code(addr: usize, len_bytes: usize) -> bool {
    let (start, end) = (&raw const SECTION_START as usize, &raw const SECTION_END as usize);
    addr < end && start < addr + len_bytes
}

/// Reads `len_bytes` (at most 8) code bytes, the first in the lowest byte.
///
/// # Safety
/// The bytes must be readable.
#[inline]
#[must_use]
pub unsafe fn read(addr: usize, len_bytes: usize) -> u64 {
    let mut word = 0u64;
    for index in 0..len_bytes {
        // SAFETY: the caller vouches for the range; volatile, other threads may patch it.
        word |= u64::from(unsafe { ((addr + index) as *const u8).read_volatile() }) << (8 * index);
    }
    word
}

/// Writes the low `len_bytes` bytes of `value` with one store that all cores fetch whole.
///
/// # Safety
/// The range must be writable (opened by [`pages::open`] as direct) and lie inside one cache line.
#[inline(never)]
#[unsafe(link_section = "memtap_patch_text")]
pub unsafe extern "C" fn store(addr: usize, len_bytes: usize, value: u64) {
    // SAFETY: one store of exactly the caller's bytes; asm, so that the compiler cannot split or widen it.
    unsafe {
        match len_bytes {
            1 => {
                asm!("mov byte ptr [{a}], {v}", a = in(reg) addr, v = in(reg_byte) value as u8, options(nostack, preserves_flags))
            }
            2 => {
                asm!("mov word ptr [{a}], {v:x}", a = in(reg) addr, v = in(reg) value, options(nostack, preserves_flags))
            }
            4 => {
                asm!("mov dword ptr [{a}], {v:e}", a = in(reg) addr, v = in(reg) value, options(nostack, preserves_flags))
            }
            8 => {
                asm!("mov qword ptr [{a}], {v}", a = in(reg) addr, v = in(reg) value, options(nostack, preserves_flags))
            }
            _ => store_window(addr, len_bytes, value),
        }
    }
}

/// Writes three, five, six or seven bytes by exchanging the eight bytes around them.
///
/// # Safety
/// As for [`store`].
#[inline(never)]
#[unsafe(link_section = "memtap_patch_text")]
unsafe extern "C" fn store_window(addr: usize, len_bytes: usize, value: u64) {
    let aligned = addr & !7;
    let line_last = (addr & !(LINE_BYTES - 1)) + LINE_BYTES - 8;
    let window = if addr + len_bytes <= aligned + 8 {
        aligned
    } else if addr < line_last {
        addr
    } else {
        line_last
    };
    let shift = 8 * (addr - window) as u32;
    let mask = ((1u64 << (8 * len_bytes)) - 1) << shift;
    let bytes = (value << shift) & mask;
    // SAFETY: the window lies in the cache line, hence in the page, of the caller's range.
    let mut seen: u64 = unsafe { (window as *const u64).read_unaligned() };
    loop {
        let wanted = seen & !mask | bytes;
        let found: u64;
        // SAFETY: the window lies in the cache line of the caller's range, so the lock is not a split lock.
        unsafe {
            asm!("lock cmpxchg qword ptr [{w}], {n}", w = in(reg) window, n = in(reg) wanted,
                 inlateout("rax") seen => found, options(nostack));
        }
        if found == seen {
            return;
        }
        seen = found;
    }
}

/// Held while a word is read, changed and written through `/proc/self/mem`; signals are blocked meanwhile.
static PROC_MEM_LOCK: AtomicBool = AtomicBool::new(false);

/// As [`store`], through `/proc/self/mem`.
///
/// # Safety
/// The range must be readable code and lie inside one aligned word.
pub unsafe fn store_proc_mem(addr: usize, len_bytes: usize, value: u64) {
    let _quiet = crate::sys::SignalsBlocked::new();
    while PROC_MEM_LOCK.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        crate::sys::yield_now();
    }
    let word_at = addr & !7;
    let shift = 8 * (addr - word_at) as u32;
    let mask = if len_bytes == 8 { u64::MAX } else { ((1u64 << (8 * len_bytes)) - 1) << shift };
    // SAFETY: an aligned word around the caller's readable range lies in the same page.
    let old = unsafe { (word_at as *const u64).read_volatile() };
    pages::write_word(word_at, old & !mask | (value << shift) & mask);
    PROC_MEM_LOCK.store(false, Ordering::Release);
}

//! One pointer of thread-local storage.
//!
//! Initial-exec, in the static block that the loader reserves for libraries that are there at start-up: reading it is
//! one instruction, and no allocation stands behind it, unlike std's thread-locals. A new thread starts with null.

use core::arch::{asm, global_asm};

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".hidden memtap_tls",
    ".globl memtap_tls",
    ".type memtap_tls, @object",
    ".size memtap_tls, 8",
    "memtap_tls: .zero 8",
    ".text",
);

/// The pointer that [`set`] stored in this thread.
#[inline(always)]
pub fn get<T>() -> *mut T {
    let value: *mut T;
    // SAFETY: reads eight bytes of the thread's static block, which exist as long as the thread.
    unsafe {
        asm!("mov {0}, qword ptr [rip + memtap_tls@gottpoff]", "mov {0}, qword ptr fs:[{0}]", out(reg) value,
            options(nostack, readonly, preserves_flags));
    }
    value
}

/// Stores this thread's pointer.
#[inline(always)]
pub fn set<T>(value: *mut T) {
    // SAFETY: writes the eight bytes that `get` reads.
    unsafe {
        asm!("mov {0}, qword ptr [rip + memtap_tls@gottpoff]", "mov qword ptr fs:[{0}], {1}", out(reg) _, in(reg) value,
            options(nostack, preserves_flags));
    }
}

/// The base of fs: the thread control block's own address, which the ABI keeps in its first word.
#[inline(always)]
pub fn fs_base() -> u64 {
    let value: u64;
    // SAFETY: the first word of the thread control block is its address (System V ABI, x86-64 TLS).
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) value, options(nostack, readonly, preserves_flags)) };
    value
}

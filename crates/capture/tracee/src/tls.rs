//! One pointer of thread-local storage.
//!
//! It uses the initial-exec model, in the static block that the loader reserves for libraries that are present at start-up.
//! Unlike std's thread-locals, reading it takes one instruction and no allocation. A new thread starts with null.
//!
//! This does not work in two cases. A static executable brings thread control blocks of its own, so fs belongs to the program
//! alone. And a thread may be created with its creator's control block, so that fs does not tell the two threads apart. In these
//! cases the pointer is a word at an offset from the base of gs ([`by_gs`]), which a new thread inherits from its creator.

use core::arch::{asm, global_asm};

use crate::sys;

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 8",
    ".hidden memtap_tls",
    ".globl memtap_tls",
    ".type memtap_tls, @object",
    ".size memtap_tls, 8",
    "memtap_tls: .zero 8",
    ".section .data",
    ".hidden memtap_tls_by_gs",
    ".globl memtap_tls_by_gs",
    "memtap_tls_by_gs: .byte 0",
    ".text",
);

/// How far from the base of gs the pointer is.
pub const GS_AT: u32 = 136;

unsafe extern "C" {
    static mut memtap_tls_by_gs: u8;
}

/// From now on the pointer is reached by gs. Where there are other threads, theirs are in both places already: it does not
/// matter when they see this.
pub fn use_gs() {
    // SAFETY: one byte that is only ever changed from zero to one.
    unsafe { (&raw mut memtap_tls_by_gs).write_volatile(1) };
}

/// Whether the pointer is reached by gs.
#[inline(always)]
pub fn by_gs() -> bool {
    // SAFETY: one byte, see `use_gs`.
    unsafe { (&raw const memtap_tls_by_gs).read_volatile() != 0 }
}

/// The pointer that [`set`] stored in this thread.
#[inline(always)]
pub fn get<T>() -> *mut T {
    let value: *mut T;
    if by_gs() {
        // SAFETY: every thread's gs has such a word, its own or its creator's.
        unsafe {
            asm!("mov {0}, qword ptr gs:[{at}]", out(reg) value, at = const GS_AT,
                options(nostack, readonly, preserves_flags));
        }
        return value;
    }
    // SAFETY: reads eight bytes of the thread's static block, which exist as long as the thread.
    unsafe {
        asm!("mov {0}, qword ptr [rip + memtap_tls@gottpoff]", "mov {0}, qword ptr fs:[{0}]", out(reg) value,
            options(nostack, readonly, preserves_flags));
    }
    value
}

/// Stores this thread's pointer; where it is reached by gs, whoever sets the base of gs does that.
#[inline(always)]
pub fn set<T>(value: *mut T) {
    if by_gs() {
        return;
    }
    // SAFETY: writes the eight bytes that `get` reads.
    unsafe {
        asm!("mov {0}, qword ptr [rip + memtap_tls@gottpoff]", "mov qword ptr fs:[{0}], {1}", out(reg) _, in(reg) value,
            options(nostack, preserves_flags));
    }
}

/// The base of fs: the thread control block's own address, which the ABI keeps in its first word. Programs that bring
/// their own blocks may keep something else there.
#[inline(always)]
pub fn fs_base() -> u64 {
    let mut value: u64 = 0;
    if by_gs() {
        let args = [sys::ARCH_GET_FS, &raw mut value as usize, 0, 0, 0, 0];
        // SAFETY: the kernel writes the word.
        unsafe { sys::syscall(libc::SYS_arch_prctl as usize, args) };
        return value;
    }
    // SAFETY: the first word of the thread control block is its address (System V ABI, x86-64 TLS).
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) value, options(nostack, readonly, preserves_flags)) };
    value
}

//! The words of each thread that a hit reads first, in thread-local storage of
//! the initial-exec model: reading one takes one instruction, and calls nothing.

use std::{
    arch::{asm, global_asm},
    mem::offset_of,
};

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 16",
    ".hidden memtap_probes_tls",
    ".globl memtap_probes_tls",
    ".type memtap_probes_tls, @object",
    ".size memtap_probes_tls, {bytes}",
    "memtap_probes_tls:",
    ".zero {bytes}",
    ".text",
    bytes = const size_of::<ThreadWords>(),
);

/// The words of a thread. Written by that thread only.
#[repr(C, align(16))]
pub struct ThreadWords {
    /// The stack pointer of the handler under way, maybe with [`OPAQUE`]; 0: none is; [`MUTED`].
    pub guard: usize,
    /// The thread's [`crate::thread::ThreadState`]; null before its first hit.
    pub state: *mut libc::c_void,
    /// Its counts by function; null: it does not count.
    pub counts: *mut u64,
    /// Whether the program asked for SIGTRAP to be blocked, which it never is.
    pub blocks_trap: bool,
}

// The trampoline's assembly looks at the guard without an offset.
const _: () = assert!(offset_of!(ThreadWords, guard) == 0);

/// A guard that says nothing of where the handler's return address is: set by what is not the trampoline.
pub const OPAQUE: usize = 1;
/// The guard of a thread whose hits are neither measured nor counted.
pub const MUTED: usize = usize::MAX;

/// The words of this thread.
#[inline]
#[must_use]
pub fn words() -> *mut ThreadWords {
    let at: *mut ThreadWords;
    // SAFETY: the initial-exec model's address of this thread's copy of the symbol above.
    unsafe {
        asm!(
            "mov {a}, qword ptr [rip + memtap_probes_tls@GOTTPOFF]",
            "add {a}, qword ptr fs:[0]",
            a = out(reg) at, options(nostack, pure, readonly),
        );
    }
    at
}

/// Where the word with the counts lies from the thread pointer: the same in every thread.
pub(crate) fn counts_offset() -> i32 {
    let thread_pointer: usize;
    // SAFETY: on x86-64 Linux the first word of the thread control block is its own address.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) thread_pointer, options(nostack, pure, readonly)) };
    (words() as usize).wrapping_sub(thread_pointer) as i32 + offset_of!(ThreadWords, counts) as i32
}

/// Sets the guard and returns the previous one.
pub fn set_guard(value: usize) -> usize {
    // SAFETY: this thread's own word.
    unsafe { std::mem::replace(&mut (*words()).guard, value) }
}

/// Runs `f` with this thread's probes muted: what it calls is neither measured nor counted.
pub fn muted<R>(f: impl FnOnce() -> R) -> R {
    let before = set_guard(MUTED);
    // SAFETY: this thread's own word.
    let counts = unsafe { std::mem::replace(&mut (*words()).counts, std::ptr::null_mut()) };
    let result = f();
    // SAFETY: this thread's own word.
    unsafe { (*words()).counts = counts };
    set_guard(before);
    result
}

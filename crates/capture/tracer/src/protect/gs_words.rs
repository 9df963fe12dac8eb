//! Threads that share a thread pointer, under page protection. A process that shares its creator's memory
//! and thread control block (clone with CLONE_VM alone) is told apart by its gs base, which 64-bit programs
//! do not use. The gs base of each thread points to a page of its own that holds the pointer to its state.

use tracee::{sys, tls};

use crate::memory::pages::PAGE_BYTES;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// A thread is about to be made that has the thread pointer of the calling one: from now on threads are told apart by their base of gs.
/// `false`: the process has other threads, or uses gs itself.
pub(crate) fn tell_apart(thread: &mut TracedThread) -> bool {
    if PROCESS.is_threaded() || base() != 0 || !prepare(thread) {
        return false;
    }
    begin(thread);
    tls::use_gs();
    true
}

/// Makes a page for a thread that is about to begin. `false`: there is no memory for it.
pub(crate) fn prepare(thread: *mut TracedThread) -> bool {
    if thread.is_null() {
        return false;
    }
    // SAFETY: a state that its maker has, or the calling thread's own: nobody else uses it.
    let words = unsafe { &mut (*thread).protection.gs_words };
    if words.is_null() {
        let Some(page) = sys::map_anonymous(PAGE_BYTES, sys::PROT_READ | sys::PROT_WRITE) else {
            return false;
        };
        *words = page.cast();
    }
    // SAFETY: a page of our own, and the word is aligned.
    unsafe { words.byte_add(tls::GS_AT as usize).write(thread as u64) };
    true
}

/// The calling thread is found by its base of gs, for which a page was made.
pub(crate) fn begin(thread: &TracedThread) {
    let args = [sys::ARCH_SET_GS, thread.protection.gs_words as usize, 0, 0, 0, 0];
    // SAFETY: gs is nobody's: it was zero when its use began, and the program can't set it since.
    unsafe { sys::syscall(libc::SYS_arch_prctl as usize, args) };
}

/// The base of gs.
pub(crate) fn base() -> u64 {
    let mut base = 0u64;
    // SAFETY: the kernel writes the word.
    unsafe {
        let args = [sys::ARCH_GET_GS, &raw mut base as usize, 0, 0, 0, 0];
        sys::syscall(libc::SYS_arch_prctl as usize, args);
    }
    base
}

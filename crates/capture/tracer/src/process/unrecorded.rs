//! Continues a process unrecorded: everything of ours is removed from it, and the program continues natively at its current point.

use core::sync::atomic::Ordering;

use memref::GapReason;
use tracee::frame::UContext;
use tracee::{sys, tls};

use crate::emit::thread_buffers;
use crate::process::{give_back, image};
use crate::protect::{fork_copy, views};
use crate::signal::{actions, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_translation::ThreadTranslation;
use crate::translate::{process, translated_thread};

/// Whether a process can: it has one thread, the calling one, and its memory is nobody else's.
pub(crate) fn is_possible() -> bool {
    !PROCESS.is_threaded() && !PROCESS.has_sharer() && !PROCESS.is_vfork_child()
}

/// Tells a gap with these words after the program's name, at that instruction.
pub(crate) fn tell(thread: &mut TracedThread, reason: GapReason, ip: u64, why: &[u8]) {
    let mut words = image::program();
    words.push(why);
    thread.emit_gap(reason, 1, ip, words.as_bytes());
}

/// The process goes on so, from its context on, which is the program's own; a gap, with these words after the program's name. Where
/// that [is possible](is_possible).
pub(crate) fn go_on_natively(thread: &mut TracedThread, context: &mut UContext, why: &[u8]) {
    tell(thread, GapReason::UntracedProgram, context.gregs.rip, why);
    process::tell_work(thread);
    if tls::by_gs() {
        // What is reached by gs stays its.
        thread_buffers::settle(thread);
        thread.submit();
        thread.translation = ThreadTranslation::NONE;
    } else {
        translated_thread::end_running(thread);
        // SAFETY: no pointers; gs was nobody's.
        unsafe {
            sys::syscall(libc::SYS_arch_prctl as usize, [sys::ARCH_SET_GS, 0, 0, 0, 0, 0]);
        }
    }
    views::close_all(false);
    PROCESS.recording.store(false, Ordering::Release);
    fork_copy::give_back_all();
    // SAFETY: the one thread is here, and its context is not in the cache.
    unsafe { give_back::give_back() };
    TracedThread::watch_system_calls(false);
    // The program's actions and its mask, with what it blocks: what has come of that meanwhile comes to the kernel.
    let mask = context.mask | thread.signals.virtual_mask;
    sys::set_mask(!0);
    actions::give_back_all();
    while let Some(kept) = waiting::take_kept(thread, !0) {
        waiting::send_again(&kept);
    }
    thread.signals.virtual_mask = 0;
    context.mask = mask;
    context.stack = thread.signals.alt_stack;
}

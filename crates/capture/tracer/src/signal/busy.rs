//! Runs tracer code in the calling thread outside of handlers, deferring its signals meanwhile.

use core::sync::atomic::Ordering;

use tracee::sys;

use crate::signal::waiting;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// Runs `body` as the calling thread, outside of a handler: signals that come meanwhile are put off. `None` where the
/// process is not traced.
pub(crate) fn as_thread<R>(body: impl FnOnce(&mut TracedThread) -> R) -> Option<R> {
    let thread = TracedThread::current();
    if thread.is_null() || !PROCESS.ready.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the state of the calling thread; handlers that interrupt us leave it alone while `busy` is set.
    unsafe {
        (*thread).busy += 1;
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        let result = body(&mut *thread);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        (*thread).busy -= 1;
        // Its places are taken from the first on, and emptied together.
        if (*thread).busy == 0 && (*thread).signals.are_pending() {
            waiting::send_pending_again(&mut *thread);
        }
        if (*thread).busy == 0
            && let Some(mask) = (*thread).signals.held_mask.take()
        {
            sys::set_mask(mask);
        }
        Some(result)
    }
}

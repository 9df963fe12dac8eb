//! The recorder, as a thread sees it: waiting for a buffer, and the order of the session.

use core::sync::atomic::Ordering;

use buffers::Control;
use tracee::sys;

use crate::state::process::PROCESS;

/// How long a thread without a buffer sleeps before it looks again by itself.
const WAIT_NS: u64 = 20_000_000;

/// Waits until the recorder gives a buffer back, `seen` being what its count was before none was free; no longer than a moment.
/// Where it died without a word, the pool is closed in its place: the program must not wait for ever.
pub(crate) fn wait_for_free(control: &Control, seen: u32) {
    sys::futex_wake(control.submitted_word().as_ptr());
    sys::futex_wait(control.freed_word().as_ptr(), seen, WAIT_NS);
    if control.freed_word().load(Ordering::Acquire) == seen
        && let Some(recorder) = control.recorder()
        && !sys::is_process(recorder)
    {
        control.close();
    }
}

/// The next order of the session.
pub(crate) fn next_order() -> u64 {
    PROCESS.pool().map_or(0, |pool| pool.control().next_order())
}

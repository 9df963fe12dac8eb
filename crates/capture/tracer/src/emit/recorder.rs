//! The recorder as a thread sees it: waits for a buffer, and draws the order of the session.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use buffers::Control;
use tracee::sys;

use crate::state::process::PROCESS;

/// How long a thread without a buffer sleeps before it looks again by itself.
const WAIT_NS: u64 = 20_000_000;

/// Whether it may be asked for: a filter of system calls may not allow that.
static MAY_ASK: AtomicBool = AtomicBool::new(true);
/// Waits in vain, one after the other, after which a recorder that can't be asked for is taken for dead: five minutes.
const MAX_VAIN: u32 = 15_000;
static VAIN: AtomicU32 = AtomicU32::new(0);

/// A question whether the recorder lives would be the program's end.
pub(crate) fn ask_no_more() {
    MAY_ASK.store(false, Ordering::Relaxed);
}

/// Waits until the recorder gives a buffer back, `seen` being what its count was before none was free; no longer than a moment.
/// Where it died without a word, the pool is closed in its place: the program must not wait for ever.
pub(crate) fn wait_for_free(control: &Control, seen: u32) {
    sys::futex_wake(control.submitted_word().as_ptr());
    sys::futex_wait(control.freed_word().as_ptr(), seen, WAIT_NS);
    if control.freed_word().load(Ordering::Acquire) != seen {
        VAIN.store(0, Ordering::Relaxed);
        return;
    }
    let is_gone = match MAY_ASK.load(Ordering::Relaxed) {
        true => control.recorder().is_some_and(|recorder| !sys::is_process(recorder)),
        false => VAIN.fetch_add(1, Ordering::Relaxed) >= MAX_VAIN,
    };
    if is_gone {
        control.close();
    }
}

/// The next order of the session.
pub(crate) fn next_order() -> u64 {
    PROCESS.pool().map_or(0, |pool| pool.control().next_order())
}

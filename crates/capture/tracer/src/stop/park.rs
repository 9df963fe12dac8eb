//! Threads that wait where their own state is known, while the process is about to be left.

use core::sync::atomic::{AtomicU32, Ordering};

use tracee::frame::UContext;
use tracee::sys;

use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// Not zero while the process is about to be left: threads wait where their own state is known.
static PARKING: AtomicU32 = AtomicU32::new(0);

/// How long a thread waits at most: whoever asked may have died.
const PARK_NS: u64 = 30_000_000_000;

/// Has all threads wait where their own state is known, or lets them go on.
pub(crate) fn set_parking(on: bool) {
    PARKING.store(on.into(), Ordering::Release);
    if !on {
        sys::futex_wake(PARKING.as_ptr());
    }
}

/// Whether threads are to wait.
pub(crate) fn is_asked() -> bool {
    PARKING.load(Ordering::Acquire) != 0
}

/// Waits with a context of the program's own as long as the process is about to be left.
pub(crate) fn park(thread: &mut TracedThread, context: &mut UContext) {
    let is_native =
        thread.busy == 0 && thread.translation.own_call.is_none() && !PROCESS.owns_code(context.gregs.rip);
    if PARKING.load(Ordering::Acquire) == 0 || !is_native || PROCESS.is_vfork_child() {
        return;
    }
    thread.parked.store(context, Ordering::Release);
    let begun = sys::realtime_ns();
    loop {
        let rest = PARK_NS.saturating_sub(sys::realtime_ns().saturating_sub(begun));
        if rest == 0 || PARKING.load(Ordering::Acquire) == 0 {
            break;
        }
        sys::futex_wait(PARKING.as_ptr(), 1, rest);
    }
    thread.parked.store(core::ptr::null_mut(), Ordering::Release);
}

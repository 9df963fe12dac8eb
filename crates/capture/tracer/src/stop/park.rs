//! Parks threads where their native state is known, before the tracer detaches from the process.

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

#[cfg(test)]
mod tests {
    use core::ptr;
    use core::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::state::thread_translation::OwnCall;
    use crate::testing;

    /// Whether a thread that is asked to waits with that context. It is let go as soon as it is seen.
    fn waits(thread: &mut TracedThread, context: &mut UContext) -> bool {
        let at = ptr::from_mut(context) as usize;
        // SAFETY: an atomic word of a state, which is never unmapped.
        let parked = unsafe { &*ptr::from_ref(&thread.parked) };
        let is_over = AtomicBool::new(false);
        set_parking(true);
        assert!(is_asked());
        let seen = thread::scope(|scope| {
            let observer = scope.spawn(|| {
                loop {
                    // In this order: it may wait for no more than a moment.
                    let is_over = is_over.load(Ordering::Acquire);
                    let seen = parked.load(Ordering::Acquire) as usize;
                    if seen != 0 || is_over {
                        set_parking(false);
                        return seen;
                    }
                    thread::yield_now();
                }
            });
            park(thread, context);
            is_over.store(true, Ordering::Release);
            observer.join().unwrap()
        });
        assert!(parked.load(Ordering::Acquire).is_null() && !is_asked());
        assert!(seen == 0 || seen == at);
        seen == at
    }

    #[test]
    fn a_thread_waits_where_its_state_is_the_programs() {
        if !testing::is_alone(a_thread_waits_where_its_state_is_the_programs) {
            return;
        }
        let thread = testing::thread();
        let mut context = testing::context();
        // A child of vfork has its parent's state.
        assert!(!waits(thread, &mut context));
        PROCESS.pid.store(sys::getpid(), Ordering::Relaxed);
        assert!(waits(thread, &mut context));
        thread.busy = 1;
        assert!(!waits(thread, &mut context));
        thread.busy = 0;
        thread.translation.own_call = Some(OwnCall { gregs: context.gregs, silent: 0, allocating: 0 });
        assert!(!waits(thread, &mut context));
        thread.translation.own_call = None;
        // In code of ours.
        PROCESS.text[1].store(u64::MAX, Ordering::Relaxed);
        assert!(!waits(thread, &mut context));
        PROCESS.text[1].store(0, Ordering::Relaxed);
        assert!(waits(thread, &mut context));
        // Nobody asks.
        park(thread, &mut context);
    }
}

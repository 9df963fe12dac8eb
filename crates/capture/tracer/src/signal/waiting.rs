//! Pending signals: deferred because they came when the program can't be told,
//! or held because the program blocks a signal that is never actually blocked.

use core::sync::atomic::Ordering;

use libc::SI_TKILL;
use tracee::frame::{SigInfo, UContext};
use tracee::sys;

use crate::memory::{program_memory, program_writes};
use crate::signal::mask::{self, FAULTS, OURS};
use crate::state::thread::TracedThread;
use crate::state::thread_signals::WaitingSignal;

/// rt_sigprocmask by the program: changes the mask that the return from our handler restores.
///
/// # Safety
/// `old` is where the program asks for the former mask.
pub(crate) unsafe fn sigprocmask(
    thread: &mut TracedThread,
    context: &mut UContext,
    how: i32,
    new: u64,
    old: u64,
    size: usize,
) -> isize {
    if size != size_of::<u64>() {
        return -(sys::EINVAL as isize);
    }
    let current = context.mask | thread.signals.virtual_mask;
    if new != 0 {
        let Some(set) = program_memory::value::<u64>(new) else { return -(sys::EFAULT as isize) };
        let mask = match how {
            libc::SIG_BLOCK => current | set,
            libc::SIG_UNBLOCK => current & !set,
            libc::SIG_SETMASK => set,
            _ => return -(sys::EINVAL as isize),
        };
        set_program_mask(thread, context, mask);
    }
    if old != 0 {
        // SAFETY: the caller's promise.
        if !unsafe { program_writes::set_value(old, &current) } {
            return -(sys::EFAULT as isize);
        }
    }
    0
}

/// What the program has inherited as blocked of what the tracer lives on is blocked for it alone from now on. Signals of it that
/// wait in the kernel come at once, and are kept.
pub(crate) fn take_over_mask(thread: &mut TracedThread) {
    let inherited = sys::set_mask(!FAULTS);
    thread.signals.virtual_mask = inherited & OURS;
    sys::set_mask(inherited & !OURS);
}

pub(crate) fn set_program_mask(thread: &mut TracedThread, context: &mut UContext, mask: u64) {
    let mask = mask & !(mask::bit(libc::SIGKILL) | mask::bit(libc::SIGSTOP));
    thread.signals.virtual_mask = mask & OURS;
    context.mask = mask & !OURS;
    put_off_kept(thread, mask);
}

/// A signal of ours came that the program blocks. The kernel does not know that: it waits here, as in the kernel once for the
/// thread and once for the process. Whether it does.
pub(crate) fn keep(thread: &mut TracedThread, signal: i32, info: &SigInfo) -> bool {
    let mask = thread.signals.wait_mask.unwrap_or(thread.signals.virtual_mask);
    if OURS & mask & mask::bit(signal) == 0 {
        return false;
    }
    hold(thread, signal, info);
    true
}

/// A fault that came while a handler of ours had it unblocked, and that the program blocks: in the kernel it would wait once for the thread
/// and once for the process, and sent again it would be for the thread.
pub(crate) fn hold(thread: &mut TracedThread, signal: i32, info: &SigInfo) {
    let is_for_thread = info.code == SI_TKILL;
    let is_same =
        |kept: &WaitingSignal| kept.signal == signal && (kept.info.code == SI_TKILL) == is_for_thread;
    if !thread.signals.kept.iter().flatten().any(is_same)
        && let Some(place) = thread.signals.kept.iter_mut().find(|place| place.is_none())
    {
        *place = Some(WaitingSignal { signal, info: *info });
    }
}

/// Those that this mask does not block come next.
pub(crate) fn put_off_kept(thread: &mut TracedThread, mask: u64) {
    while let Some(pending) = take_kept(thread, !mask) {
        put_off(thread, pending.signal, &pending.info);
    }
}

/// The signals of ours that wait because the program blocks them, as a mask.
pub(crate) fn kept(thread: &TracedThread) -> u64 {
    thread.signals.kept.iter().flatten().fold(0, |mask, kept| mask | mask::bit(kept.signal))
}

/// Signals that wait in the kernel, as the program blocks them, until a handler of ours needs them unblocked: then they come, and are
/// put off. As a mask.
pub(crate) fn put_off_blocked(thread: &TracedThread, mask: u64) -> u64 {
    thread.signals.pending.iter().flatten().fold(0, |set, pending| set | mask::bit(pending.signal)) & mask
}

/// Takes one of these: the lowest.
pub(crate) fn take_put_off(thread: &mut TracedThread, set: u64) -> Option<WaitingSignal> {
    let is_in = |place: &&mut Option<WaitingSignal>| {
        place.as_ref().is_some_and(|pending| set & mask::bit(pending.signal) != 0)
    };
    let places = thread.signals.pending.iter_mut().filter(is_in);
    let taken =
        places.min_by_key(|place| place.as_ref().map(|pending| pending.signal)).and_then(Option::take);
    // The first place says whether there are others.
    if let [first @ None, others @ ..] = &mut thread.signals.pending {
        *first = others.iter_mut().rev().find_map(Option::take);
    }
    taken
}

/// A signal that is ignored from now on waits no longer. Of faults the kernel does not know that they are ignored.
pub(crate) fn forget(thread: &mut TracedThread, signal: i32) {
    let set = mask::bit(signal);
    while take_kept(thread, set).or_else(|| take_put_off(thread, set)).is_some() {}
    let at_once = [0u64; 2];
    let args = [&raw const set as usize, 0, at_once.as_ptr() as usize, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads the set and the time.
    while FAULTS & set != 0 && unsafe { sys::syscall(libc::SYS_rt_sigtimedwait as usize, args) } > 0 {}
}

/// Forgets the signals of ours that wait, which are told to the kernel again; as a mask.
pub(crate) fn take_all_kept(thread: &mut TracedThread) -> u64 {
    let mask = kept(thread);
    while take_kept(thread, mask).is_some() {}
    mask
}

/// Takes one of these signals that wait: the lowest, those for the thread first.
pub(crate) fn take_kept(thread: &mut TracedThread, set: u64) -> Option<WaitingSignal> {
    let waiting = thread
        .signals
        .kept
        .iter_mut()
        .filter(|place| place.as_ref().is_some_and(|kept| set & mask::bit(kept.signal) != 0));
    let key = |place: &&mut Option<WaitingSignal>| {
        place.as_ref().map(|kept| (kept.info.code != SI_TKILL, kept.signal))
    };
    waiting.min_by_key(key).and_then(Option::take)
}

pub(crate) fn put_off(thread: &mut TracedThread, signal: i32, info: &SigInfo) {
    thread.signals.arrivals.fetch_add(1, Ordering::Relaxed);
    if let Some(place) = thread.signals.pending.iter_mut().find(|place| place.is_none()) {
        *place = Some(WaitingSignal { signal, info: *info });
    }
}

/// Sends signals that were put off while `busy` was set to this thread again: now they can be delivered.
pub(crate) fn send_pending_again(thread: &mut TracedThread) {
    for place in &mut thread.signals.pending {
        if let Some(pending) = place.take() {
            send_again(&pending);
        }
    }
}

pub(crate) fn send_again(pending: &WaitingSignal) {
    let (pid, tid) = (sys::getpid() as usize, sys::gettid() as usize);
    let args = [pid, tid, pending.signal as usize, &raw const pending.info as usize, 0, 0];
    // SAFETY: the kernel reads the structure.
    let sent = unsafe { sys::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
    if sys::failed(sent) {
        // The kernel refuses to forge some codes; the plain signal is still right.
        // SAFETY: no pointers.
        unsafe { sys::syscall(libc::SYS_tgkill as usize, [args[0], args[1], args[2], 0, 0, 0]) };
    }
}

/// A signal that came into a handler of ours before the thread has a state comes again when that handler returns: the interrupted
/// context blocks it until then.
pub(crate) fn come_again(signal: i32, info: &SigInfo, context: &mut UContext) {
    context.mask |= mask::bit(signal);
    // The handlers of faults do not block their own signal.
    sys::set_mask(!0);
    send_again(&WaitingSignal { signal, info: *info });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thread() -> &'static mut TracedThread {
        let thread = TracedThread::prepare().expect("memory");
        // SAFETY: made here, and entered by nobody.
        unsafe { &mut *thread }
    }

    fn info(signal: i32, is_for_thread: bool) -> SigInfo {
        SigInfo::fault(signal, if is_for_thread { SI_TKILL } else { 0 }, 0)
    }

    proptest! {
        /// Each blocked signal of ours waits once for the thread and once for its process; the lowest come first, and those
        /// for the thread before those for the process.
        #[test]
        fn kept_signals_come_in_the_kernels_order(
            blocked in 0u64..8,
            arrivals in prop::collection::vec((0usize..3, any::<bool>()), 0..20),
        ) {
            let ours = [libc::SIGTRAP, libc::SIGSEGV, libc::SIGSYS];
            let thread = thread();
            thread.signals.virtual_mask =
                (0..3).filter(|bit| blocked & 1 << bit != 0).fold(0, |mask, bit| mask | mask::bit(ours[bit]));
            let mut model: Vec<(bool, i32)> = Vec::new();
            for (which, is_for_thread) in arrivals {
                let signal = ours[which];
                let is_blocked = blocked & 1 << which != 0;
                prop_assert_eq!(keep(thread, signal, &info(signal, is_for_thread)), is_blocked);
                if is_blocked && !model.contains(&(!is_for_thread, signal)) {
                    model.push((!is_for_thread, signal));
                }
            }
            model.sort_unstable();
            prop_assert_eq!(kept(thread), model.iter().fold(0, |mask, kept| mask | mask::bit(kept.1)));
            let taken: Vec<_> = core::iter::from_fn(|| take_kept(thread, u64::MAX))
                .map(|kept| (kept.info.code != SI_TKILL, kept.signal))
                .collect();
            prop_assert_eq!(taken, model);
        }

        /// What the program sees of its mask is what it set; the kernel never blocks what the tracer lives on.
        #[test]
        fn masks_are_what_the_program_set(calls in prop::collection::vec((0i32..3, any::<u64>()), 1..20)) {
            let unblockable = mask::bit(libc::SIGKILL) | mask::bit(libc::SIGSTOP);
            let thread = thread();
            // SAFETY: a context is words, and zeros are a valid one.
            let mut context: UContext = unsafe { core::mem::zeroed() };
            let mut model = 0u64;
            for (how, set) in calls {
                let mut old = 0u64;
                let (new, place) = (&raw const set as u64, &raw mut old as u64);
                // SAFETY: two locals.
                let result = unsafe { sigprocmask(thread, &mut context, how, new, place, 8) };
                prop_assert_eq!((result, old), (0, model));
                model = match how {
                    libc::SIG_BLOCK => model | set,
                    libc::SIG_UNBLOCK => model & !set,
                    _ => set,
                } & !unblockable;
                prop_assert_eq!(context.mask & OURS, 0);
                prop_assert_eq!(context.mask | thread.signals.virtual_mask, model);
            }
        }
    }

    proptest! {
        /// Whatever is taken out of those that are put off, what is left is seen.
        #[test]
        fn what_is_put_off_is_seen_until_it_is_taken(
            came in prop::collection::vec(1i32..16, 0..12),
            sets in prop::collection::vec(0u64..1 << 16, 0..12),
        ) {
            let thread = thread();
            for signal in &came {
                put_off(thread, *signal, &info(*signal, true));
            }
            let mut model = came;
            for set in sets {
                let taken = take_put_off(thread, set).map(|pending| pending.signal);
                prop_assert_eq!(taken, model.iter().copied().filter(|signal| set & mask::bit(*signal) != 0).min());
                if let Some(index) = model.iter().position(|signal| Some(*signal) == taken) {
                    model.swap_remove(index);
                }
                prop_assert_eq!(thread.signals.are_pending(), !model.is_empty());
                let left = model.iter().fold(0, |mask, signal| mask | mask::bit(*signal));
                prop_assert_eq!(put_off_blocked(thread, !0), left);
            }
        }
    }

    #[test]
    fn a_signal_that_is_ignored_from_now_on_is_forgotten() {
        let thread = thread();
        thread.signals.virtual_mask = mask::bit(libc::SIGTRAP);
        for is_for_thread in [false, true] {
            assert!(keep(thread, libc::SIGTRAP, &info(libc::SIGTRAP, is_for_thread)));
            put_off(thread, libc::SIGFPE, &info(libc::SIGFPE, is_for_thread));
        }
        put_off(thread, libc::SIGILL, &info(libc::SIGILL, true));
        forget(thread, libc::SIGTRAP);
        forget(thread, libc::SIGFPE);
        assert_eq!((kept(thread), put_off_blocked(thread, !0)), (0, mask::bit(libc::SIGILL)));
    }

    #[test]
    fn a_signal_that_is_no_longer_blocked_is_put_off_to_the_next_delivery() {
        let thread = thread();
        thread.signals.virtual_mask = mask::bit(libc::SIGTRAP) | mask::bit(libc::SIGSEGV);
        assert!(keep(thread, libc::SIGTRAP, &info(libc::SIGTRAP, true)));
        assert!(keep(thread, libc::SIGSEGV, &info(libc::SIGSEGV, false)));
        put_off_kept(thread, mask::bit(libc::SIGSEGV));
        assert_eq!(kept(thread), mask::bit(libc::SIGSEGV));
        assert!(thread.signals.are_pending());
        assert_eq!(thread.signals.pending[0].map(|pending| pending.signal), Some(libc::SIGTRAP));
        // A call that waits with a mask of its own: that one counts.
        thread.signals.wait_mask = Some(0);
        assert!(!keep(thread, libc::SIGSEGV, &info(libc::SIGSEGV, true)));
    }
}

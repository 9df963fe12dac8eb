//! Ends an attachment: the process is left as it was, except for the library and the probes' thunks. These stay
//! mapped without write permission, because a signal handler may have interrupted a thunk and return there
//! later. Landing places, of which there are hundreds, are unmapped, unless the address of one is on some stack.

use super::{IDLE, STAGE, STATE, STOPPED, STOPPING, StoppedAt, children, stage};
use crate::{
    ProbeId, module,
    profile::{dump, masks, pass},
    provider::{entry::is_watch, pun},
    registry, thread, thread_end,
};
use patch::{maps, near, pages, trap};
use std::{sync::atomic::Ordering, time::Duration};

/// Whether the process that attached has gone, or asks for the end, here or in the process that this one was forked by.
pub(in crate::profile) fn is_over(controller: u32) -> bool {
    // SAFETY: signal 0 asks whether the process is there.
    let gone = unsafe { libc::kill(controller as i32, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    gone || is_asked()
}

fn is_asked() -> bool {
    STATE.load(Ordering::Acquire) == STOPPING || children::is_over()
}

/// Switches everything off and writes the profile, and has forked children do the same. Called by the epoch thread, which then ends.
pub(in crate::profile) fn switch_off() {
    // A controller that died took its directory along, maybe.
    let is_asked = is_asked();
    if is_asked {
        children::tell();
    }
    {
        let _pass = pass::hold();
        let all: Vec<ProbeId> =
            (0..registry::probe_count()).map(ProbeId).filter(|id| !is_watch(*id)).collect();
        // A probe that another thread is switching off just now is refused: again.
        for _ in 0..100 {
            let on: Vec<ProbeId> = all.iter().copied().filter(|id| registry::is_active(*id)).collect();
            if on.is_empty() {
                break;
            }
            module::with_loader_locked(|_| {
                module::refresh();
                registry::switch_all(&on, false);
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        all.iter().for_each(|id| registry::silence(*id));
    }
    let mut silent = 0;
    if is_asked {
        dump::write();
        silent = children::leave_or_wait();
    }
    STATE.store(STOPPED | silent << STAGE.trailing_ones(), Ordering::Release);
}

/// Puts back the return addresses that are still replaced, the unwinder, the SIGTRAP handler and the rights of code
/// pages. `threads` are all of them. `false`: some thread is in the middle of a hit; let them run and
/// ask again.
///
/// # Safety
/// All other threads must be stopped, and stay so during the call.
pub unsafe fn settle(threads: &[StoppedAt]) -> bool {
    if stage(STATE.load(Ordering::Acquire)) != STOPPED {
        return false;
    }
    if thread::any_in_handler() || threads.iter().any(|thread| is_inside(thread.program_counter)) {
        return false;
    }
    // SAFETY: the caller stopped all threads, and none is in a handler.
    unsafe { thread_end::restore_all() };
    for id in (0..registry::probe_count()).map(ProbeId).filter(|id| is_watch(*id)) {
        let _ = registry::switch(id, false);
    }
    let is_on = (0..registry::probe_count()).any(|id| registry::is_active(ProbeId(id)));
    if !is_on && !leads_to_landing(threads) {
        // SAFETY: no probe is on, no thread stands in a landing, and none returns to one.
        unsafe { pun::release() };
    }
    children::end();
    near::seal(true);
    masks::put_actions_back();
    trap::give_back();
    pages::seal(true);
    STATE.store(IDLE, Ordering::Release);
    true
}

/// Whether a signal's handler may return to a landing: whether its address lies on a stack that is in use.
fn leads_to_landing(threads: &[StoppedAt]) -> bool {
    let mut leads = false;
    maps::for_each(|mapping| {
        if !mapping.readable {
            return true;
        }
        let pointers = || threads.iter().map(|thread| thread.stack_pointer);
        let is_inside = |sp: &usize| (mapping.start..mapping.end).contains(sp);
        let used = pointers().filter(is_inside).map(|sp| sp..mapping.end);
        // A thread that is on another stack may come back to its own.
        let left = thread::owned()
            .filter(|state| !pointers().any(|sp| state.stack.contains(&sp)))
            .map(|state| state.stack.start.max(mapping.start)..state.stack.end.min(mapping.end));
        for range in used.chain(left).filter(|range| !range.is_empty()) {
            let first = range.start.next_multiple_of(size_of::<usize>());
            // SAFETY: aligned words of a mapping that is there; all threads are stopped.
            let words =
                (first..range.end).step_by(size_of::<usize>()).map(|at| unsafe { *(at as *const usize) });
            leads |= pun::is_any_landing(words);
        }
        !leads
    });
    leads
}

/// Whether `addr` belongs to this library, or to code that it made.
fn is_inside(addr: usize) -> bool {
    let own = module::place(patch::CodeAddr(settle as *const () as usize)).module;
    let at = module::place(patch::CodeAddr(addr)).module;
    at == own && own != u32::MAX || near::contains(addr) || pun::contains(addr)
}

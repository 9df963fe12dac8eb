//! What a hit does: the handlers of the profiler's probes.
//!
//! A handler writes only its own thread's memory and the function's sampling window. Calls that
//! it does not see, because the window is shut, are counted by the thunk ([`crate::trampoline`]).

use super::{calls, window};
use crate::{
    ProbeId, ProbeKind,
    registry::{self, Handler},
    return_path,
    shadow::Frame,
    thread::{self, ThreadState},
};
use patch::sys;

/// The handler of probes of this kind.
pub(super) fn of(kind: ProbeKind) -> Handler {
    match kind {
        ProbeKind::Entry => on_entry,
        ProbeKind::Exit => on_exit,
        ProbeKind::EntryWithReturn => on_entry_with_return,
        ProbeKind::Point => on_point,
    }
}

/// The thread's state. The call that gives it one was not counted by its thunk.
#[inline]
fn counting(function: u32) -> Option<&'static mut ThreadState> {
    if let Some(thread) = thread::existing() {
        return Some(thread);
    }
    let thread = thread::current()?;
    // SAFETY: this thread's own record.
    unsafe { (*thread.records.get(function)).uncounted += 1 };
    Some(thread)
}

#[inline]
fn enter(id: u32, slot: usize, return_slot: Option<*mut usize>, now_ticks: u64) {
    let Some((function, _)) = registry::function_of(id) else { return };
    let Some(thread) = counting(function) else { return };
    if !window::take(function) {
        return;
    }
    if !thread.stack.contains(&slot) {
        thread.shadow.foreign += 1;
        return;
    }
    if thread.shadow.has_landed(slot) {
        calls::end_dead(thread, slot, |_| false);
        thread.shadow.replace_again(return_path::address());
    }
    // SAFETY: at an entry site the slot holds the return address.
    let returns_to = return_slot.map_or(0, |at| unsafe { at.read() });
    let ours = return_path::address();
    // A fresh call overwrites the slot, so an earlier frame there is dead; after a tail call it still holds our address.
    // Functions inlined into each other share a place, but not a probe.
    calls::end_dead(
        thread,
        slot,
        |top| if return_slot.is_some() { returns_to != ours } else { top.probe == id },
    );
    // After a tail call the caller is the function on top, which jumped.
    let returns = (return_slot.is_some() && returns_to != ours).then_some(returns_to);
    let caller = calls::caller(thread, returns);
    let node = thread.paths.child(caller, function);
    let mut frame = Frame {
        slot,
        returns_to,
        function,
        node,
        probe: id,
        start_ticks: 0,
        start_probes: thread.probes_ticks(),
        start_calls: thread.counts.of(function),
        start_seen: thread.counts.seen().all(),
        child_ticks: 0,
    };
    frame.start_ticks = sys::ticks();
    // What this handler took until now was before the call.
    frame.start_probes += frame.start_ticks.saturating_sub(now_ticks);
    if thread.shadow.push(frame) {
        // SAFETY: this thread's own record.
        unsafe { (*thread.records.get(function)).open += 1 };
        if let Some(at) = return_slot {
            // SAFETY: the slot is the call's own, inside the thread's stack; the real address is on the shadow stack.
            unsafe { at.write(ours) };
        }
    }
}

/// Runs what a handler does, and notes what it took.
#[inline]
fn timed(handle: impl FnOnce(u64)) {
    let start_ticks = sys::ticks();
    handle(start_ticks);
    if let Some(thread) = thread::existing() {
        thread.note_handler(start_ticks);
    }
}

/// At an entry whose exits have probes of their own.
extern "C" fn on_entry(id: u32, frame: *mut usize) {
    timed(|now| enter(id, frame as usize, None, now));
}

/// At the first instruction of a function: the return address lies above the one of the site's call.
extern "C" fn on_entry_with_return(id: u32, frame: *mut usize) {
    let slot = frame.wrapping_add(1);
    timed(|now| enter(id, slot as usize, Some(slot), now));
}

/// At an exit.
extern "C" fn on_exit(id: u32, _frame: *mut usize) {
    timed(|now| leave(id, now));
}

#[inline]
fn leave(id: u32, now_ticks: u64) {
    let Some((function, _)) = registry::function_of(id) else { return };
    if let Some(thread) = thread::existing()
        && let Some(at) = thread.shadow.position_of_function(function)
    {
        calls::end_above(thread, at + 1, now_ticks);
        calls::end_top(thread, now_ticks);
    }
    if window::is_exhausted(function) {
        let _ = registry::switch(ProbeId(id), false);
    }
}

/// At a point: counted, not measured.
extern "C" fn on_point(id: u32, _frame: *mut usize) {
    let Some((function, _)) = registry::function_of(id) else { return };
    if counting(function).is_some() {
        window::take(function);
    }
}

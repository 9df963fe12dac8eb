//! How measured calls end: by their return, or because a hit shows that they are no longer in progress.

use super::strata::LONG_TICKS;
use crate::{callers, shadow::Frame, thread::ThreadState};
use patch::sys;

/// Ends the calls that cannot be under way any more when a probe is hit with its slot at `slot`: those below it, and
/// those at the same place that `same_is_dead` says so of. An exception, `longjmp` or the thread's end left them: they
/// are measured until now, when that is noticed.
#[inline]
pub(crate) fn end_dead(thread: &mut ThreadState, slot: usize, same_is_dead: impl Fn(&Frame) -> bool) {
    let mut depth = thread.shadow.depth();
    while let Some(top) = thread.shadow.nth(depth)
        && (top.slot < slot || top.slot == slot && same_is_dead(top))
    {
        depth -= 1;
    }
    if depth < thread.shadow.depth() {
        end_above(thread, depth, sys::ticks());
    }
}

/// Ends all calls but the outermost `depth`.
pub(crate) fn end_above(thread: &mut ThreadState, depth: usize, now_ticks: u64) {
    while thread.shadow.depth() > depth
        && let Some(frame) = thread.shadow.pop()
    {
        thread.shadow.unfinished += 1;
        finish(thread, &frame, now_ticks);
    }
}

/// Ends the innermost call, which returned at `now_ticks`.
#[inline]
pub(crate) fn end_top(thread: &mut ThreadState, now_ticks: u64) -> Option<Frame> {
    let frame = thread.shadow.pop()?;
    finish(thread, &frame, now_ticks);
    Some(frame)
}

/// The node of the caller of a call that returns to `returns_to`: the innermost measured call, or a function that was called
/// from there unmeasured.
#[inline]
pub(crate) fn caller(thread: &mut ThreadState, returns_to: Option<usize>) -> u32 {
    let (node, function) = thread.shadow.top().map_or((0, None), |frame| (frame.node, Some(frame.function)));
    match returns_to.and_then(callers::function_at) {
        Some(caller) if Some(caller) != function => thread.paths.child(node, caller),
        _ => node,
    }
}

/// Ends a call that has been taken off the shadow stack.
fn finish(thread: &mut ThreadState, frame: &Frame, now_ticks: u64) {
    let probes = thread.probes_ticks().saturating_sub(frame.start_probes);
    let ticks = now_ticks.saturating_sub(frame.start_ticks).saturating_sub(probes);
    let own = ticks.saturating_sub(frame.child_ticks);
    if let Some(parent) = thread.shadow.top() {
        parent.child_ticks += ticks;
    }
    let calls = thread.counts.of(frame.function).saturating_sub(frame.start_calls) + 1;
    let record = thread.records.get(frame.function);
    // SAFETY: this thread's own record.
    unsafe {
        (*record).sampled += 1;
        (*record).total_ticks += ticks;
        if ticks >= LONG_TICKS {
            (*record).long += 1;
            (*record).long_ticks += ticks;
        }
        (*record).self_ticks += own;
        (*record).max_ticks = (*record).max_ticks.max(ticks);
        (*record).open = (*record).open.saturating_sub(1);
        if (*record).open == 0 {
            (*record).clusters.add(calls, ticks);
            let seen = thread.counts.seen().all().saturating_sub(frame.start_seen);
            (*record).calls_inside += seen.saturating_sub(calls - 1);
        }
    }
    thread.records.count(record, ticks);
    thread.paths.add(frame.node, ticks, own);
    thread.timeline.add(frame.function, frame.start_ticks, ticks);
}

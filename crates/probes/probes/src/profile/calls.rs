//! How measured calls end: by their return, or because a hit shows that they are under way no more.

use crate::{shadow::Frame, thread::ThreadState};
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

/// Ends a measurement: the frame has been taken off the shadow stack.
pub(crate) fn finish(thread: &mut ThreadState, frame: &Frame, now_ticks: u64) {
    let ticks = now_ticks.saturating_sub(frame.start_ticks);
    let own = ticks.saturating_sub(frame.child_ticks);
    let recursive = thread.paths.is_recursive(frame.node);
    if let Some(parent) = thread.shadow.top() {
        parent.child_ticks += ticks;
    }
    let record = thread.records.get(frame.function);
    // SAFETY: this thread's own record.
    unsafe {
        (*record).sampled += 1;
        (*record).total_ticks += ticks;
        (*record).self_ticks += own;
        (*record).recursive_ticks += if recursive { ticks } else { 0 };
        (*record).square_ticks += ticks as f64 * ticks as f64;
        (*record).max_ticks = (*record).max_ticks.max(ticks);
    }
    thread.records.count(record, ticks);
    thread.paths.add(frame.node, ticks, own);
    thread.timeline.add(frame.function, frame.start_ticks, ticks);
}

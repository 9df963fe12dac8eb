//! What is kept of a function by each thread, and the handlers that write it.
//!
//! A handler writes only its own thread's memory and the function's sampling window. What it does not see, because the
//! window is shut, is counted by the thunk ([`crate::trampoline`]).

use crate::{
    ProbeId,
    profile::{histogram, window},
    registry,
    shadow::Frame,
    thread::{self, ThreadState},
    trampoline,
};
use patch::{arena, sys};

/// The counts of one function in one thread. Written by that thread only.
#[repr(C)]
pub struct Record {
    /// Entries that the thread's thunks could not count: those that gave it its state.
    pub uncounted: u64,
    /// Calls measured from entry to exit.
    pub sampled: u64,
    /// Ticks of those.
    pub total_ticks: u64,
    /// Ticks of those outside measured calls from them.
    pub self_ticks: u64,
    /// The longest.
    pub max_ticks: u64,
    /// Recursive calls of the measured ones: their time is in an outer call's total already.
    pub recursive_ticks: u64,
    /// Counts by bucket; null before the first.
    pub histogram: *mut u32,
    /// The sum of the squares of the measured calls' ticks.
    pub square_ticks: f64,
}

/// A thread's records, by function.
pub struct Records {
    base: *mut Record,
    /// Where the next histogram goes, and what is left there.
    room: usize,
    left_bytes: usize,
}

const HISTOGRAM_BYTES: usize = histogram::BUCKETS * 4;
const ROOM_BYTES: usize = 256 * HISTOGRAM_BYTES;

impl Records {
    pub(crate) fn new() -> Option<Self> {
        let base = arena::map_anonymous(registry::CAPACITY * size_of::<Record>())? as *mut Record;
        Some(Self { base, room: 0, left_bytes: 0 })
    }

    /// The record of a function.
    #[inline]
    #[must_use]
    pub fn get(&self, function: u32) -> *mut Record {
        // SAFETY: functions are numbered below the capacity, for which room was mapped.
        unsafe { self.base.add(function as usize) }
    }

    #[inline]
    fn count(&mut self, record: *mut Record, ticks: u64) {
        // SAFETY: this thread's own record; the histogram is null or has BUCKETS words.
        unsafe {
            if (*record).histogram.is_null() {
                (*record).histogram = self.new_histogram();
                if (*record).histogram.is_null() {
                    return;
                }
            }
            *(*record).histogram.add(histogram::bucket(ticks)) += 1;
        }
    }

    #[cold]
    fn new_histogram(&mut self) -> *mut u32 {
        if self.left_bytes < HISTOGRAM_BYTES {
            let Some(room) = arena::map_anonymous(ROOM_BYTES) else { return std::ptr::null_mut() };
            (self.room, self.left_bytes) = (room, ROOM_BYTES);
        }
        let at = self.room;
        self.room += HISTOGRAM_BYTES;
        self.left_bytes -= HISTOGRAM_BYTES;
        at as *mut u32
    }

    pub(crate) fn clear(&mut self) {
        for function in 0..registry::function_count() {
            let record = self.get(function);
            // SAFETY: called where no thread writes; the histogram is null or has BUCKETS words.
            unsafe {
                let histogram = (*record).histogram;
                if !histogram.is_null() {
                    std::ptr::write_bytes(histogram, 0, histogram::BUCKETS);
                }
                record.write(Record { histogram, ..std::mem::zeroed() });
            }
        }
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
fn enter(id: u32, slot: usize, return_slot: Option<*mut usize>) {
    let Some((function, _)) = registry::function_of(id) else { return };
    let Some(thread) = counting(function) else { return };
    if !window::take(function) {
        return;
    }
    if !(thread.stack.0..thread.stack.1).contains(&slot) {
        thread.shadow.foreign += 1;
        return;
    }
    if thread.shadow.has_landed(slot) {
        end_dead(thread, slot, |_| false);
        thread.shadow.replace_again();
    }
    // SAFETY: at an entry site the slot holds the return address.
    let returns_to = return_slot.map_or(0, |at| unsafe { at.read() });
    let ours = trampoline::return_here as *const () as usize;
    // A fresh call overwrites the slot, so an earlier frame there is dead; after a tail call it still holds our address.
    // Functions inlined into each other share a place, but not a probe.
    end_dead(thread, slot, |top| if return_slot.is_some() { returns_to != ours } else { top.probe == id });
    let parent = thread.shadow.top().map_or(0, |f| f.node);
    let node = thread.paths.child(parent, function);
    let mut frame = Frame { slot, returns_to, function, node, probe: id, start_ticks: 0, child_ticks: 0 };
    frame.start_ticks = sys::ticks();
    if thread.shadow.push(frame)
        && let Some(at) = return_slot
    {
        // SAFETY: as above; the real address is on the shadow stack.
        unsafe { at.write(ours) };
    }
}

/// At an entry whose exits have probes of their own.
pub(crate) extern "C" fn on_entry(id: u32, frame: *mut usize) {
    enter(id, frame as usize, None);
}

/// At the first instruction of a function: the return address lies above the one of the site's call.
pub(crate) extern "C" fn on_entry_with_return(id: u32, frame: *mut usize) {
    let slot = frame.wrapping_add(1);
    enter(id, slot as usize, Some(slot));
}

/// At an exit.
pub(crate) extern "C" fn on_exit(id: u32, _frame: *mut usize) {
    let now = sys::ticks();
    let Some((function, _)) = registry::function_of(id) else { return };
    if let Some(thread) = thread::existing()
        && let Some(at) = thread.shadow.position_of_function(function)
    {
        end_above(thread, at + 1, now);
        if let Some(frame) = thread.shadow.pop() {
            finish(thread, &frame, now);
        }
    }
    if window::is_exhausted(function) {
        let _ = registry::switch(ProbeId(id), false);
    }
}

/// At a point: counted, not measured.
pub(crate) extern "C" fn on_point(id: u32, _frame: *mut usize) {
    let Some((function, _)) = registry::function_of(id) else { return };
    if counting(function).is_some() {
        window::take(function);
    }
}

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

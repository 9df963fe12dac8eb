//! The slot of a translated thread: words shared by its code in the cache, the tracer's handlers and the recorder.
//!
//! Only the thread writes, from its own code or its handlers. The recorder reads `owner`, `buffer`, `position` and
//! `base`, even when the thread was killed at an arbitrary instruction. Everything before the position is filled.

use crate::layout::BUFFER_BYTES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The part of a translated thread that its recording code and the recorder share. The recording code reaches it through
/// the gs segment, by the offsets that this module names.
#[repr(C, align(512))]
#[derive(Debug)]
pub struct Live {
    /// Where the next byte goes: an address in the thread's process.
    position: AtomicU64,
    /// The address of the first byte of the present buffer.
    base: AtomicU64,
    /// The process's number plus one; zero: the slot is free. Taken by compare-and-swap.
    owner: AtomicU32,
    /// The present buffer's number in the pool, or all ones.
    buffer: AtomicU32,
    /// Instructions executed inside functions that are one event.
    quiet: AtomicU64,
    /// Where an indirect branch goes.
    target: AtomicU64,
    /// Registers of the program's that recording code needs just now.
    spills: [AtomicU64; 8],
    /// The routine through which the cache is left.
    gate: AtomicU64,
    /// The end of the stack that it uses.
    stack: AtomicU64,
    /// The program's stack pointer meanwhile.
    rsp: AtomicU64,
    /// Whether the thread is in it.
    in_gate: AtomicU64,
    /// The tracer's state of the thread, in its process.
    thread: AtomicU64,
    /// Where the session's order is, in its process; zero while it is the only thread.
    order: AtomicU64,
    /// Where the last header is: an address in the thread's process, below the position. No header is there while the thread has
    /// no buffer.
    last: AtomicU64,
}

/// Offset of the position: where the next byte goes.
pub const POSITION_AT: u32 = 0;
/// Offset of the number of instructions executed inside functions that are one event.
pub const QUIET_AT: u32 = 24;
/// Offset of the address that an indirect branch goes to.
pub const TARGET_AT: u32 = 32;
/// Offset of the first of the eight spills.
pub const SPILLS_AT: u32 = 40;
/// Offset of the address of the routine through which the cache is left.
pub const GATE_AT: u32 = 104;
/// Offset of the end of the stack that this routine uses.
pub const STACK_AT: u32 = 112;
/// Offset of the program's stack pointer while the thread is in this routine.
pub const RSP_AT: u32 = 120;
/// Offset of the word that says whether the thread is in this routine.
pub const IN_GATE_AT: u32 = 128;
/// Offset of the address of the tracer's state of the thread.
pub const THREAD_AT: u32 = 136;
/// Offset of the address of the word with the session's order; zero while the thread is alone.
pub const ORDER_AT: u32 = 144;
/// Offset of the address of the last header before the position.
pub const LAST_AT: u32 = 152;

#[cfg(not(loom))]
const _: () = {
    assert!(core::mem::offset_of!(Live, position) == POSITION_AT as usize);
    assert!(core::mem::offset_of!(Live, quiet) == QUIET_AT as usize);
    assert!(core::mem::offset_of!(Live, target) == TARGET_AT as usize);
    assert!(core::mem::offset_of!(Live, spills) == SPILLS_AT as usize);
    assert!(core::mem::offset_of!(Live, gate) == GATE_AT as usize);
    assert!(core::mem::offset_of!(Live, stack) == STACK_AT as usize);
    assert!(core::mem::offset_of!(Live, rsp) == RSP_AT as usize);
    assert!(core::mem::offset_of!(Live, in_gate) == IN_GATE_AT as usize);
    assert!(core::mem::offset_of!(Live, thread) == THREAD_AT as usize);
    assert!(core::mem::offset_of!(Live, order) == ORDER_AT as usize);
    assert!(core::mem::offset_of!(Live, last) == LAST_AT as usize);
    assert!(size_of::<Live>() == crate::layout::LIVE_BYTES);
};

impl Live {
    /// Takes a free slot for a process.
    pub(crate) fn take(&self, process: u32) -> bool {
        if self.owner.compare_exchange(0, process + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.buffer.store(u32::MAX, Ordering::Relaxed);
        self.position.store(0, Ordering::Relaxed);
        self.base.store(0, Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        self.in_gate.store(0, Ordering::Relaxed);
        self.order.store(0, Ordering::Relaxed);
        true
    }

    /// Sets the routine through which the cache is left, and the end of its stack.
    pub fn set_gate(&self, gate: u64, stack: u64) {
        self.gate.store(gate, Ordering::Relaxed);
        self.stack.store(stack, Ordering::Relaxed);
    }

    /// Sets the address of the tracer's state of the thread.
    pub fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The thread is no longer alone: what it writes of its locked instructions are orders of the session, from the word at that
    /// address.
    pub fn set_order(&self, word: u64) {
        self.order.store(word, Ordering::Relaxed);
    }

    /// Whether the process has had this one thread only.
    pub fn is_alone(&self) -> bool {
        self.order.load(Ordering::Relaxed) == 0
    }

    /// Whether the thread is in that routine.
    pub fn is_in_gate(&self) -> bool {
        self.in_gate.load(Ordering::Relaxed) != 0
    }

    /// It left that routine by another way.
    pub fn leave_gate(&self) {
        self.in_gate.store(0, Ordering::Relaxed);
    }

    /// Gives it back.
    pub fn release(&self) {
        self.owner.store(0, Ordering::Release);
    }

    /// The process that has it.
    pub fn owner(&self) -> Option<u32> {
        self.owner.load(Ordering::Acquire).checked_sub(1)
    }

    /// The buffer that it fills.
    pub fn buffer(&self) -> u32 {
        self.buffer.load(Ordering::Acquire)
    }

    /// Bytes filled of the present buffer.
    pub fn filled(&self) -> usize {
        let bytes = self.position.load(Ordering::Acquire).wrapping_sub(self.base.load(Ordering::Acquire));
        if bytes <= BUFFER_BYTES as u64 { bytes as usize & !7 } else { 0 }
    }

    /// Begins to fill a buffer (all ones: one that nobody reads) that is mapped at `base`.
    pub fn begin(&self, buffer: u32, base: u64) {
        self.buffer.store(u32::MAX, Ordering::Release);
        self.base.store(base, Ordering::Relaxed);
        self.last.store(base.wrapping_sub(8), Ordering::Relaxed);
        self.position.store(base, Ordering::Relaxed);
        self.buffer.store(buffer, Ordering::Release);
    }

    /// The first word of what it fills is a header.
    pub fn begin_entries(&self) {
        let base = self.base.load(Ordering::Relaxed);
        self.last.store(base, Ordering::Relaxed);
        self.set_position(base + 8);
    }

    /// Where the last header is.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// The last header is at that distance from the beginning of the buffer.
    pub(super) fn set_last(&self, at: usize) {
        self.last.store(self.base.load(Ordering::Relaxed) + at as u64, Ordering::Relaxed);
    }

    /// The distance of the last header from the beginning of the buffer.
    pub(super) fn last_at(&self) -> Option<usize> {
        self.last().checked_sub(self.base.load(Ordering::Relaxed)).map(|at| at as usize)
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Makes what is before that address visible.
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    /// Instructions executed inside functions that are one event, since the last call.
    pub fn take_quiet(&self) -> u64 {
        let count = self.quiet.load(Ordering::Relaxed);
        self.quiet.store(0, Ordering::Relaxed);
        count
    }

    /// Takes back instructions that were counted before they were executed.
    pub fn uncount_quiet(&self, count: u64) {
        let present = self.quiet.load(Ordering::Relaxed);
        self.quiet.store(present.wrapping_sub(count), Ordering::Relaxed);
    }

    /// Where an indirect branch wanted to go.
    pub fn target(&self) -> u64 {
        self.target.load(Ordering::Relaxed)
    }

    /// The register that is in that spill; zero where there is no such spill.
    pub fn spill(&self, index: usize) -> u64 {
        self.spills.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// What the spill holds from now on: for a child that goes on in its parent's place.
    pub fn set_spill(&self, index: usize, value: u64) {
        if let Some(word) = self.spills.get(index) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

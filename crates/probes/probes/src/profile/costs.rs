//! What the parts of a probe cost on this machine and in this process, in TSC ticks: measured when the governor starts.
//!
//! A thunk of our own, which no site leads to, is called in a loop: with its gate shut it counts, with its gate open it goes
//! through the trampoline to a handler that does nothing. The handlers of real probes time themselves
//! ([`crate::thread::ThreadState::handler_ticks`]); what a trap costs is found with one of our own, too.

use crate::{probe_table, thread_words, trampoline};
use patch::{CodeAddr, INT3, Site, arena, near, sys};
use std::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
};

/// Whether handlers time themselves: only for a governor. Written by it.
static ARE_TIMED: AtomicBool = AtomicBool::new(false);

/// Has handlers time themselves, or not.
pub(super) fn time_handlers(on: bool) {
    ARE_TIMED.store(on, Ordering::Relaxed);
}

/// Whether handlers time themselves.
#[inline]
pub(crate) fn are_timed() -> bool {
    ARE_TIMED.load(Ordering::Relaxed)
}

/// What there is to pay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbeCosts {
    /// A call that is counted.
    pub(super) counted_ticks: f64,
    /// The way to a handler and back.
    pub(super) trampoline_ticks: f64,
    /// A hit of a probe that is a trap, before it is counted.
    pub(super) trap_ticks: f64,
}

impl ProbeCosts {
    /// Where nothing can be measured: about what other machines had.
    pub(super) const ASSUMED: Self = Self { counted_ticks: 10.0, trampoline_ticks: 60.0, trap_ticks: 3000.0 };

    /// Measures, in some thousand calls. To be called by a muted thread.
    pub(super) fn measure() -> Self {
        let (counted, trampoline) =
            thunks().unwrap_or((Self::ASSUMED.counted_ticks, Self::ASSUMED.trampoline_ticks));
        let trap_ticks = trap().unwrap_or(Self::ASSUMED.trap_ticks);
        Self { counted_ticks: counted, trampoline_ticks: trampoline, trap_ticks }
    }
}

/// The ticks that a call of `code` takes, in the fastest of some batches: others were interrupted.
fn fastest(code: usize, calls: u32) -> f64 {
    const BATCHES: u32 = 16;
    let batch = || {
        let start = sys::ticks();
        for _ in 0..calls {
            // SAFETY: a thunk, or a trap and a return: both leave all registers and change the flags.
            unsafe { asm!("call {code}", code = in(reg) code) };
        }
        sys::ticks().wrapping_sub(start)
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or(0) as f64 / f64::from(calls)
}

/// The costs of counting, and of the way through the trampoline.
fn thunks() -> Option<(f64, f64)> {
    static GATE: AtomicI32 = AtomicI32::new(0);
    const CALLS: u32 = 500;
    // Never completed, so nobody else sees it. The last function's count is the first that would be used for a real one.
    let id = probe_table::reserve().ok()?;
    probe_table::set_reserved_gate(id, &GATE);
    let counts = arena::map_anonymous(probe_table::CAPACITY * size_of::<u64>())?;
    let near_us = CodeAddr(thunks as *const () as usize);
    let thunk = trampoline::make_thunk(near_us, id.0, Some(probe_table::CAPACITY as u32 - 1))?;
    // SAFETY: this thread's own words; its probes are muted again below.
    let before = unsafe { std::mem::replace(&mut (*thread_words::words()).counts, counts as *mut u64) };
    let guard = thread_words::set_guard(0);
    let counted = fastest(thunk.0, CALLS);
    GATE.store(1, Ordering::Relaxed);
    let open = fastest(thunk.0, CALLS);
    thread_words::set_guard(guard);
    // SAFETY: this thread's own word; the scratch array is only ours.
    unsafe {
        (*thread_words::words()).counts = before;
        let length = probe_table::CAPACITY * size_of::<u64>();
        sys::syscall(libc::SYS_munmap, [counts, length, 0, 0, 0, 0]);
    }
    Some((counted, (open - counted).max(0.0)))
}

/// The cost of a trap.
fn trap() -> Option<f64> {
    const RET: u8 = 0xc3;
    const CALLS: u32 = 20;
    let place = near::allocate_near(trap as *const () as usize, 16)?;
    // SAFETY: fresh executable memory of ours.
    unsafe {
        (place as *mut u8).write(INT3);
        ((place + 1) as *mut u8).write(RET);
    }
    let site = Site::open(CodeAddr(place), 1).ok()?;
    site.set_trap_target(Some(CodeAddr(place + 1)));
    Some(fastest(place, CALLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_costs_something_and_a_trap_most() {
        let costs = thread_words::muted(ProbeCosts::measure);
        assert!(costs.counted_ticks > 0.0 && costs.trampoline_ticks > 0.0, "{costs:?}");
        assert!(costs.trap_ticks > costs.counted_ticks, "{costs:?}");
        assert!(!thread_words::words().is_null());
    }
}

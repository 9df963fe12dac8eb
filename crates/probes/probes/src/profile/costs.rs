//! The costs of the parts of a probe on this machine, in TSC ticks: measured when
//! the first epoch thread starts. A forked child inherits its parent's measurements.
//!
//! A thunk of our own, to which no site leads, is called in a loop. With its gate shut it counts; with its gate open it goes through the
//! trampoline to a handler that does nothing. The handlers of real probes time themselves
//! ([`crate::thread::ThreadState::handler_ticks`]). The cost of a trap is measured with one of our own, too, unless traps are forbidden.

use crate::{
    probe_table,
    provider::entry,
    thread_counts::{CallsSeen, ThreadCounts},
    thread_words,
    trampoline::{self, DetourSwitch},
};
use patch::{CALL_REL32, CodeAddr, INT3, JMP_REL32, Site, near, sys};
use std::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What was measured, in whole ticks; what is assumed until then. Written by the epoch thread, and `IS_MEASURED` last.
static COUNTED: AtomicU64 = AtomicU64::new(KnownCosts::ASSUMED.counted_ticks);
static TRAMPOLINE: AtomicU64 = AtomicU64::new(KnownCosts::ASSUMED.trampoline_ticks);
static TRAP: AtomicU64 = AtomicU64::new(KnownCosts::ASSUMED.trap_ticks);
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

/// The costs as they are known now.
#[inline]
pub(crate) fn known() -> KnownCosts {
    KnownCosts {
        counted_ticks: COUNTED.load(Ordering::Relaxed),
        trampoline_ticks: TRAMPOLINE.load(Ordering::Relaxed),
        trap_ticks: TRAP.load(Ordering::Relaxed),
    }
}

/// What there is to pay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownCosts {
    /// A call that is counted.
    pub(super) counted_ticks: u64,
    /// The way to a handler and back.
    pub(crate) trampoline_ticks: u64,
    /// A hit of a probe that is a trap, before it is counted.
    pub(super) trap_ticks: u64,
}

impl KnownCosts {
    /// Where nothing can be measured: about what other machines had.
    const ASSUMED: Self = Self { counted_ticks: 10, trampoline_ticks: 60, trap_ticks: 3000 };

    /// What so many calls took of their thread to be counted.
    #[inline]
    pub(crate) fn of(self, calls: CallsSeen) -> u64 {
        calls.otherwise * self.counted_ticks + calls.by_trap * (self.counted_ticks + self.trap_ticks)
    }
}

/// Measures, in some thousand calls, unless this process or one that it was forked from did, and has everybody know. To be called by
/// a muted thread.
pub(super) fn measure() -> KnownCosts {
    if !IS_MEASURED.load(Ordering::Acquire) {
        if let Some((counted, trampoline)) = thunks() {
            COUNTED.store(counted.round() as u64, Ordering::Relaxed);
            TRAMPOLINE.store(trampoline.round() as u64, Ordering::Relaxed);
        }
        if let Some(ticks) = trap() {
            TRAP.store(ticks.round() as u64, Ordering::Relaxed);
        }
        IS_MEASURED.store(true, Ordering::Release);
    }
    known()
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

/// The costs of counting, and of the way through the trampoline. Of many functions that are called one after the other, because that
/// is what programs do: the jumps to one function that is called again and again cost a third.
fn thunks() -> Option<(f64, f64)> {
    const FUNCTIONS: usize = 256;
    const FUNCTION_BYTES: usize = 16;
    const BODY_BYTES: usize = 8;
    const RET: u8 = 0xc3;
    // Never completed, so nobody else sees it. The last function's count is the first that would be used for a real one.
    let id = probe_table::reserve().ok()?;
    let counts = ThreadCounts::new()?;
    let near_us = thunks as *const () as usize;
    let last = probe_table::CAPACITY as u32 - 1;
    let gate = probe_table::gate(last)?;
    let functions = near::allocate_near(near_us, FUNCTIONS * FUNCTION_BYTES)?;
    // Calls of all functions at `offset` in them, in an order that is none.
    let callers = |offset: usize| {
        let start = near::allocate_near(near_us, FUNCTIONS * 5 + 1)?;
        let mut code: Vec<u8> = Vec::new();
        for number in 0..FUNCTIONS {
            let function = functions + number * 101 % FUNCTIONS * FUNCTION_BYTES + offset;
            let from = CodeAddr(start + code.len());
            let displacement = patch::callpatch::displacement(from, CodeAddr(function)).ok()?;
            code.push(CALL_REL32);
            code.extend(displacement.to_le_bytes());
        }
        code.push(RET);
        // SAFETY: fresh executable memory of ours.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
        Some(start)
    };
    for number in 0..FUNCTIONS {
        // A jump to a detour, which counts and returns; and behind it the function as it were without a probe.
        let at = functions + number * FUNCTION_BYTES;
        let body = |_| Some(vec![RET]);
        let detour =
            trampoline::make_detour(CodeAddr(at), id.0, Some(last), DetourSwitch::AtSite, BODY_BYTES, body)?;
        let displacement = patch::callpatch::displacement(CodeAddr(at), detour).ok()?;
        // SAFETY: fresh executable memory of ours.
        unsafe {
            (at as *mut u8).write(JMP_REL32);
            ((at + 1) as *mut u32).write_unaligned(displacement);
            ((at + 5) as *mut u8).write(RET);
        }
    }
    let (probed, bare) = (callers(0)?, callers(5)?);
    // SAFETY: this thread's own words; its probes are muted again below.
    let before = unsafe { std::mem::replace(&mut (*thread_words::words()).counts, counts.first()) };
    let guard = thread_words::set_guard(0);
    let a_call = |code: usize| fastest(code, 4) / FUNCTIONS as f64;
    let (bare, counted) = (a_call(bare), a_call(probed));
    gate.store(1, Ordering::Relaxed);
    let open = a_call(probed);
    gate.store(0, Ordering::Relaxed);
    thread_words::set_guard(guard);
    // SAFETY: this thread's own word.
    unsafe { (*thread_words::words()).counts = before };
    counts.unmap();
    Some(((counted - bare).max(0.0), (open - counted).max(0.0)))
}

/// The cost of a trap.
fn trap() -> Option<f64> {
    if entry::are_traps_forbidden() {
        return None;
    }
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
        let costs = thread_words::muted(measure);
        assert!(costs.counted_ticks > 0 && costs.trampoline_ticks > 0, "{costs:?}");
        assert!(costs.trap_ticks > costs.counted_ticks, "{costs:?}");
        println!("{costs:?}");
        assert!(!thread_words::words().is_null());
    }
}

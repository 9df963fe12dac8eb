//! Sampling: each function has a window that is open for some calls; the calls outside it are counted but not measured.
//!
//! The window is the function's gate ([`crate::probe_table::gate`]): while it is shut, a thunk counts the call and continues.
//! The epoch thread opens it again. The time from one opening to the next is a stratum of [`super::strata`], in each thread.
//!
//! A window opens for the requested number of calls, and for more where calls are long. The additional
//! number is that of calls of just [`LONG_TICKS`] that would fit into the time of the calls that take that
//! long or longer. Longer calls are therefore all measured, and measuring takes a hundredth of a function's
//! time. Where all that is too much, fewer windows open, and for fewer calls ([`super::governor`]).
//!
//! Call counts are estimates only where the governor ([`super::governor`]) had to switch off a probe altogether.

use super::{
    governor, settings,
    strata::{Factors, LONG_TICKS, Measured, Scaled, Strata},
};
use crate::{
    registry,
    thread::{self, ThreadState},
};
use patch::{arena, sys};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// The most calls that it opens for beyond those that were asked for.
const MOST_SAMPLES: i32 = 1000;

/// What is known of the window of one function, beside its gate: that has the calls left; at most 0: shut.
struct Window {
    /// The next function in the list of shut windows, plus one.
    next: AtomicU32,
    /// How many calls it opens for next. Written by the epoch thread.
    opens_for: AtomicI32,
    /// Whether it was opened ever. Written by discovery.
    is_armed: AtomicBool,
}

static BASE: AtomicUsize = AtomicUsize::new(0);
/// Functions whose window shut and that nobody has opened since, plus one.
static SHUT: AtomicU32 = AtomicU32::new(0);

#[inline]
fn window(function: u32) -> Option<&'static Window> {
    let mut base = BASE.load(Ordering::Acquire);
    if base == 0 {
        base = first_use()?;
    }
    // SAFETY: room for CAPACITY windows is mapped for ever; zero is a valid value of each.
    Some(unsafe { &*(base as *const Window).add(function as usize) })
}

#[cold]
fn first_use() -> Option<usize> {
    let fresh = arena::map_anonymous(registry::CAPACITY * size_of::<Window>())?;
    Some(match BASE.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(winner) => winner,
    })
}

/// Opens the window of a function when its first probe is found; later probes of it change nothing.
pub fn arm_first(function: u32) {
    if window(function).is_some_and(|w| !w.is_armed.swap(true, Ordering::Relaxed)) {
        arm(function);
    }
}

/// Opens the window of a function.
pub fn arm(function: u32) {
    let (Some(window), Some(gate), Some(settings)) =
        (window(function), registry::gate(function), settings::current())
    else {
        return;
    };
    let asked = settings.sample.map_or(i32::MAX, |n| n as i32);
    gate.store(asked.max(window.opens_for.load(Ordering::Relaxed)), Ordering::Release);
}

/// Takes one call into the sample; `false`: the window is shut.
#[inline]
pub fn take(function: u32) -> bool {
    if settings::current().is_none_or(|s| s.sample.is_none()) {
        return true;
    }
    let Some(gate) = registry::gate(function) else { return true };
    if gate.load(Ordering::Relaxed) <= 0 {
        return false;
    }
    let left = gate.fetch_sub(1, Ordering::AcqRel);
    if left == 1
        && let Some(window) = window(function)
    {
        let mut first = SHUT.load(Ordering::Acquire);
        loop {
            window.next.store(first, Ordering::Relaxed);
            match SHUT.compare_exchange(first, function + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => first = other,
            }
        }
    }
    left >= 1
}

/// Whether the window of a function is shut.
#[must_use]
pub fn is_exhausted(function: u32) -> bool {
    registry::gate(function).is_some_and(|gate| gate.load(Ordering::Acquire) <= 0)
}

/// The functions whose windows shut since the last call.
pub fn take_shut() -> Vec<u32> {
    let mut next = SHUT.swap(0, Ordering::AcqRel);
    let mut functions = Vec::new();
    while let (Some(function), true) = (next.checked_sub(1), next != 0) {
        functions.push(function);
        next = window(function).map_or(0, |w| w.next.load(Ordering::Relaxed));
    }
    functions
}

/// What a thread counted and measured of a function.
#[must_use]
pub fn measured(state: &ThreadState, function: u32) -> Measured {
    let record = state.records.get(function);
    // SAFETY: records are mapped for ever; words may change while they are read, none is a reference.
    unsafe {
        Measured {
            calls: state.counts.of(function) + (&raw const (*record).uncounted).read_volatile(),
            sampled: (&raw const (*record).sampled).read_volatile(),
            total_ticks: (&raw const (*record).total_ticks).read_volatile(),
            long: (&raw const (*record).long).read_volatile(),
            long_ticks: (&raw const (*record).long_ticks).read_volatile(),
            clusters: (&raw const (*record).clusters).read_volatile(),
        }
    }
}

/// Ends the strata of functions; to be called by the epoch thread before it opens their windows again.
pub fn settle(functions: &[u32]) {
    let mut took = vec![0.0; functions.len()];
    // By function: those that have some are looked up for each path.
    let mut factors: Vec<Option<Factors>> = vec![None; registry::function_count() as usize];
    for state in thread::all() {
        let mut is_any = false;
        for (function, took) in functions.iter().zip(&mut took) {
            // SAFETY: the epoch thread alone writes it.
            let strata = unsafe { &mut *state.records.strata(*function) };
            let before = strata.long_ticks();
            let ended = strata.end(measured(state, *function));
            is_any |= ended.is_some();
            if let Some(factors) = factors.get_mut(*function as usize) {
                *factors = ended;
            }
            *took += strata.long_ticks() - before;
        }
        // Most of many threads wait.
        if is_any {
            state.paths.settle(|function| factors.get(function as usize).copied().flatten());
        }
    }
    let thrift = governor::thrift();
    for (function, took) in functions.iter().zip(took) {
        if let Some(window) = window(*function) {
            let more = ((took / LONG_TICKS as f64 / thrift) as i32).min(MOST_SAMPLES);
            window.opens_for.store(more, Ordering::Relaxed);
        }
    }
}

/// How the figures of a function's calls in a thread come from those that were measured. To be called where the epoch thread makes no
/// pass.
#[must_use]
pub fn ended_strata(state: &ThreadState, function: u32) -> (Strata, Factors) {
    // SAFETY: copied where nobody writes, says the caller.
    let mut strata = unsafe { *state.records.strata(function) };
    let factors = strata.end(measured(state, function)).unwrap_or(Factors::ONE);
    (strata, factors)
}

/// A function's times, scaled to all calls that were counted, and to `missed` that were not. To be called where the epoch thread
/// makes no pass.
#[must_use]
pub fn scaled(function: u32, missed: f64) -> Scaled {
    let now_ticks = sys::ticks();
    let (mut sum, mut calls, mut unknown) = (Scaled::default(), 0.0, missed);
    for state in thread::all() {
        let (strata, _) = ended_strata(state, function);
        let called = measured(state, function).calls as f64;
        match strata.scaled(called) {
            Some(scaled) => {
                sum.add(scaled.within(state.present_ticks(now_ticks) as f64));
                calls += called;
            }
            None => unknown += called,
        }
    }
    if unknown > 0.0 && calls > 0.0 {
        // As those of the other threads; how far they differ, nobody knows.
        let mut others = sum.times(unknown / calls);
        others.variance = others.variance.max(others.total_ticks * others.total_ticks);
        sum.add(others);
    }
    sum
}

/// Opens every window, for a profiler that starts again and for the child of a fork. Counts must have been cleared.
pub fn restart() {
    let _ = take_shut();
    for function in 0..registry::function_count() {
        if let Some(window) = window(function) {
            window.opens_for.store(0, Ordering::Relaxed);
            if window.is_armed.load(Ordering::Relaxed) {
                arm(function);
            }
        }
    }
}

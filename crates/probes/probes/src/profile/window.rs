//! Sampling: each function has a window that is open for N calls; the calls outside it are counted and not measured.
//!
//! The window is the gate of the function's probes ([`crate::registry::set_gate`]): while it is shut, a thunk counts and
//! goes on. The epoch thread opens it again. Between two openings lies a *stratum*: some calls, counted exactly, of
//! which the first few were measured. The time of a function is the sum over its strata of the calls times the mean of
//! those measured (stratified sampling), so that an epoch with many calls weighs more than one with few. Its variance
//! is the sum of calls^2 s^2 / n (1 - n / calls); the error is 1.96 standard deviations, which holds the truth in 95 of
//! 100 cases where calls are not too unlike.
//!
//! Only where the governor ([`super::governor`]) had to switch a probe off altogether are calls an estimate.

use super::settings;
use crate::{registry, thread};
use patch::arena;
use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering},
};

/// Standard deviations on either side of an estimate that hold the truth 95 times of 100.
pub const TWO_SIDED_95: f64 = 1.96;

/// The window of one function.
struct Window {
    /// Calls left; at most 0: shut.
    left: AtomicI32,
    /// The next function in the list of shut windows, plus one.
    next: AtomicU32,
    /// Whether it was opened ever. Written by discovery.
    is_armed: AtomicBool,
    /// Written by the epoch thread, and where no other thread is.
    strata: UnsafeCell<Strata>,
}

// SAFETY: `strata` says who writes it; readers hold the epoch thread's pass.
unsafe impl Sync for Window {}

/// What all threads together counted and measured of a function, since the start. Times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Calls, exactly, while the probe was on.
    pub calls: u64,
    /// Those that were measured.
    pub sampled: u64,
    /// Their time.
    pub total_ticks: u64,
    /// Their time outside measured callees.
    pub self_ticks: u64,
    /// The time of those that were inside others of the same function.
    pub recursive_ticks: u64,
    /// The sum of the squares of their times.
    pub square_ticks: f64,
    /// The longest.
    pub max_ticks: u64,
}

/// A function's figures, scaled from those that were measured to all. Times in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scaled {
    /// The time of all calls.
    pub total_ticks: f64,
    /// Outside measured callees.
    pub self_ticks: f64,
    /// Of calls inside others of the same function.
    pub recursive_ticks: f64,
    /// The variance of `total_ticks`.
    pub variance: f64,
}

/// The strata so far.
#[derive(Clone, Copy, Debug, Default)]
struct Strata {
    /// When the last one ended.
    until: Measured,
    /// Calls that no measured one stands for yet; below zero: measured ones began in an earlier stratum.
    unmeasured: f64,
    /// Calls that measured ones stand for.
    measured: f64,
    sum: Scaled,
}

impl Strata {
    /// Adds the stratum that ends with `now`.
    fn end(&mut self, now: Measured) {
        let calls = now.calls.saturating_sub(self.until.calls) as f64 + self.unmeasured;
        let count = now.sampled.saturating_sub(self.until.sampled) as f64;
        if count == 0.0 {
            (self.until.calls, self.unmeasured) = (now.calls, calls);
            return;
        }
        let ticks = |of: fn(&Measured) -> u64| of(&now).saturating_sub(of(&self.until)) as f64;
        let total = ticks(|m| m.total_ticks);
        // Calls that are still under way have been counted, and will be measured in a later stratum.
        let weight = calls.max(count);
        let factor = weight / count;
        let mean = total / count;
        let squares = (now.square_ticks - self.until.square_ticks).max(0.0);
        // Of a single one nothing is known of the spread: as if it were exponential.
        let spread = match count > 1.5 {
            true => ((squares - count * mean * mean) / (count - 1.0)).max(0.0),
            false => mean * mean,
        };
        self.sum.total_ticks += total * factor;
        self.sum.self_ticks += ticks(|m| m.self_ticks) * factor;
        self.sum.recursive_ticks += ticks(|m| m.recursive_ticks) * factor;
        self.sum.variance += weight * weight * spread / count * (1.0 - count / weight).max(0.0);
        self.measured += weight;
        self.unmeasured = calls - weight;
        self.until = now;
    }

    /// All calls: those that no measured one stands for are as the others, `calls` in all.
    fn scaled(&self, calls: f64) -> Scaled {
        if self.measured <= 0.0 {
            return Scaled::default();
        }
        let factor = calls / self.measured;
        Scaled {
            total_ticks: self.sum.total_ticks * factor,
            self_ticks: self.sum.self_ticks * factor,
            recursive_ticks: self.sum.recursive_ticks * factor,
            variance: self.sum.variance * factor * factor,
        }
    }
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

/// The gate of a function's probes: above zero while the window is open.
pub(super) fn gate(function: u32) -> Option<&'static AtomicI32> {
    window(function).map(|w| &w.left)
}

/// Opens the window of a function when its first probe is found; later probes of it change nothing.
pub fn arm_first(function: u32) {
    if window(function).is_some_and(|w| !w.is_armed.swap(true, Ordering::Relaxed)) {
        arm(function);
    }
}

/// Opens the window of a function.
pub fn arm(function: u32) {
    let (Some(window), Some(settings)) = (window(function), settings::current()) else { return };
    window.left.store(settings.sample.map_or(i32::MAX, |n| n as i32), Ordering::Release);
}

/// Takes one call into the sample; `false`: the window is shut.
#[inline]
pub fn take(function: u32) -> bool {
    if settings::current().is_none_or(|s| s.sample.is_none()) {
        return true;
    }
    let Some(window) = window(function) else { return true };
    let left = window.left.fetch_sub(1, Ordering::AcqRel);
    if left == 1 {
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
    window(function).is_some_and(|w| w.left.load(Ordering::Acquire) <= 0)
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

/// What all threads counted and measured of a function.
#[must_use]
pub fn measured(function: u32) -> Measured {
    let mut sum = Measured { calls: thread::counted(function), ..Measured::default() };
    for state in thread::all() {
        let record = state.records.get(function);
        // SAFETY: records are mapped for ever; words may change while they are read, none is a reference.
        unsafe {
            sum.calls += (&raw const (*record).uncounted).read_volatile();
            sum.sampled += (&raw const (*record).sampled).read_volatile();
            sum.total_ticks += (&raw const (*record).total_ticks).read_volatile();
            sum.self_ticks += (&raw const (*record).self_ticks).read_volatile();
            sum.recursive_ticks += (&raw const (*record).recursive_ticks).read_volatile();
            sum.square_ticks += (&raw const (*record).square_ticks).read_volatile();
            sum.max_ticks = sum.max_ticks.max((&raw const (*record).max_ticks).read_volatile());
        }
    }
    sum
}

/// Ends the stratum of a function; to be called by the epoch thread before it opens the window again.
pub fn settle(function: u32) {
    if let Some(window) = window(function) {
        // SAFETY: the epoch thread alone writes it.
        unsafe { (*window.strata.get()).end(measured(function)) };
    }
}

/// A function's times, scaled to `calls`, of which `measured` is known. To be called where the epoch thread makes no pass.
#[must_use]
pub fn scaled(function: u32, measured: Measured, calls: f64) -> Scaled {
    let Some(window) = window(function) else { return Scaled::default() };
    // SAFETY: copied where nobody writes, says the caller.
    let mut strata = unsafe { *window.strata.get() };
    strata.end(measured);
    strata.scaled(calls)
}

/// Forgets all strata and opens every window, for a profiler that starts again and for the child of a fork. Counts must
/// have been cleared.
pub fn restart() {
    let _ = take_shut();
    for function in 0..registry::function_count() {
        if let Some(window) = window(function) {
            // SAFETY: no epoch thread runs yet.
            unsafe { *window.strata.get() = Strata::default() };
            if window.is_armed.load(Ordering::Relaxed) {
                arm(function);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls so far, and the ticks of those measured so far, all alike within a stratum.
    fn add(now: &mut Measured, calls: u64, sampled: u64, ticks: u64) {
        now.calls += calls;
        now.sampled += sampled;
        now.total_ticks += sampled * ticks;
        now.self_ticks += sampled * ticks;
        now.square_ticks += (sampled * ticks * ticks) as f64;
    }

    fn check(steps: &[(u64, u64, u64)], total: f64) {
        let (mut strata, mut now) = (Strata::default(), Measured::default());
        for (calls, sampled, ticks) in steps {
            add(&mut now, *calls, *sampled, *ticks);
            strata.end(now);
        }
        let scaled = strata.scaled(now.calls as f64);
        assert!((scaled.total_ticks - total).abs() < 1e-6 * total.max(1.0), "{steps:?}: {scaled:?}");
        assert_eq!(scaled.self_ticks, scaled.total_ticks);
        assert_eq!(scaled.variance, 0.0, "{steps:?}: nothing varies");
    }

    #[test]
    fn each_stratum_weighs_as_many_calls_as_it_has() {
        check(&[], 0.0);
        // Rare and slow, then frequent and fast: not the mean of all samples times all calls.
        check(&[(10, 10, 1000), (1_000_000, 10, 5)], 10_000.0 + 5e6);
        // A long call is counted in one stratum and measured in a later one.
        check(&[(2, 0, 0), (0, 0, 0), (0, 2, 700)], 1400.0);
        // Some of a stratum measured only in the next one.
        check(&[(10, 8, 100), (10, 12, 100)], 2000.0);
        // Calls that are never measured are as the others.
        check(&[(10, 10, 50), (90, 0, 0)], 5000.0);
    }

    /// Draws that vary: the truth lies inside the error about 95 times of 100.
    #[test]
    fn the_error_holds_the_truth() {
        let mut random = 1u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1000 + (random >> 33) % 1000
        };
        let mut held = 0;
        for _ in 0..400 {
            let (mut strata, mut now, mut truth) = (Strata::default(), Measured::default(), 0u64);
            for _ in 0..30 {
                for call in 0..200 {
                    let ticks = draw();
                    truth += ticks;
                    add(&mut now, 1, u64::from(call < 10), ticks);
                }
                strata.end(now);
            }
            let scaled = strata.scaled(now.calls as f64);
            let error = TWO_SIDED_95 * scaled.variance.sqrt();
            held += u32::from((scaled.total_ticks - truth as f64).abs() <= error);
        }
        assert!((360..=398).contains(&held), "{held} of 400");
    }
}

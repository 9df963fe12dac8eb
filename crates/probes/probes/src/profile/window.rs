//! Sampling: each function has a window that is open for N calls, and the estimate of the calls while it was shut.
//!
//! The window opens when the epoch thread arms it and shuts with the Nth call, which switches the probe off. The rate
//! while open, (N - 1) calls in the time from opening to the Nth call, is an unbiased estimate for a call pattern
//! without memory; its variance is rate^2 / (N - 2). Switching a probe on takes a while until a thread sees it: the
//! shortest such time of the run is taken off.
//!
//! Real calls come in bursts, and the epoch thread tends to run when the program's threads don't. So the error is the
//! largest of that variance, the spread between windows (the estimate itself where there was only one), and what a
//! second estimate differs by: (N - 2) calls in the time from the first to the Nth, which is the same for calls without
//! memory and does not know of pauses before the first. A window that never shuts counts exactly.

use crate::{ProbeId, profile, registry};
use patch::{arena, sys};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The window of one function.
pub struct Window {
    /// Calls left; at most 0: shut.
    left: AtomicI32,
    /// The next function in the list of shut windows, plus one.
    next: AtomicU32,
    /// When it was opened; written by whoever opens it.
    opened_ticks: AtomicU64,
    /// When the first call came; written by it, 0 before.
    first_ticks: AtomicU64,
    /// When the last call was counted; written by the call that shut it, 0 while open.
    shut_ticks: AtomicU64,
    /// Calls that were counted exactly, in windows past. Written by the epoch thread.
    exact: AtomicU64,
    /// Calls estimated for the time between windows, and the variance of that, as bits of f64. Written by the epoch
    /// thread.
    estimated: AtomicU64,
    variance: AtomicU64,
    /// The second estimate. Written by the epoch thread.
    since_first: AtomicU64,
    /// How many windows were estimated, and the sum of the squares. Written by the epoch thread.
    windows: AtomicU64,
    squares: AtomicU64,
}

static BASE: AtomicUsize = AtomicUsize::new(0);
/// Functions whose window shut and that nobody has opened since, plus one.
static SHUT: AtomicU32 = AtomicU32::new(0);
/// The shortest time from opening a window to its first call: what switching on takes. Written by first calls.
static LAG_TICKS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The window of `function`.
#[inline]
pub(crate) fn window(function: u32) -> Option<&'static Window> {
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
    if window(function).is_some_and(|w| w.opened_ticks.load(Ordering::Relaxed) == 0) {
        arm(function);
    }
}

/// Opens the window of a function.
pub fn arm(function: u32) {
    let (Some(window), Some(settings)) = (window(function), profile::settings()) else { return };
    window.shut_ticks.store(0, Ordering::Relaxed);
    window.first_ticks.store(0, Ordering::Relaxed);
    window.opened_ticks.store(sys::ticks(), Ordering::Relaxed);
    window.left.store(settings.sample.map_or(i32::MAX, |n| n as i32), Ordering::Release);
}

/// Takes one call into the sample; `false`: the window is shut. The call that shuts it switches its probe off.
#[inline]
pub fn take(function: u32, id: ProbeId) -> bool {
    let Some(samples) = profile::settings().and_then(|s| s.sample) else { return true };
    let Some(window) = window(function) else { return true };
    let left = window.left.fetch_sub(1, Ordering::AcqRel);
    if left == samples as i32 {
        let now = sys::ticks();
        window.first_ticks.store(now.max(1), Ordering::Relaxed);
        let lag = now.saturating_sub(window.opened_ticks.load(Ordering::Relaxed));
        if lag < LAG_TICKS.load(Ordering::Relaxed) {
            LAG_TICKS.fetch_min(lag, Ordering::Relaxed);
        }
    }
    if left == 1 {
        window.shut_ticks.store(sys::ticks().max(1), Ordering::Release);
        let _ = registry::switch(id, false);
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

/// What a window counted, and what it says about the time that it was shut.
#[derive(Default)]
struct Count {
    exact: u64,
    estimated: f64,
    variance: f64,
    since_first: f64,
}

impl Window {
    /// The calls that happened since it was opened: exact while it is open.
    fn since_opened(&self, now_ticks: u64, samples: u32) -> Count {
        let shut = self.shut_ticks.load(Ordering::Acquire);
        let left = self.left.load(Ordering::Acquire);
        if shut == 0 || left > 0 {
            return Count {
                exact: u64::from(samples).saturating_sub(left.max(0) as u64),
                ..Count::default()
            };
        }
        let closed = now_ticks.saturating_sub(shut) as f64;
        let count = f64::from(samples);
        // A window of one call has no first one before its last: both estimates are the same.
        let first = self.first_ticks.load(Ordering::Relaxed);
        let between = if first == 0 || first >= shut { 0 } else { shut - first };
        let lag = LAG_TICKS.load(Ordering::Relaxed);
        let opened = self.opened_ticks.load(Ordering::Relaxed);
        let open = shut.saturating_sub(opened).saturating_sub(lag).max(between).max(1) as f64;
        let estimated = closed * (count - 1.0) / open;
        let since_first =
            if between == 0 { estimated } else { closed * (count - 2.0).max(0.0) / between as f64 };
        let variance = estimated * estimated / (count - 2.0).max(1.0);
        Count { exact: u64::from(samples), estimated, variance, since_first }
    }
}

fn add_f64(word: &AtomicU64, value: f64) {
    word.store((f64::from_bits(word.load(Ordering::Relaxed)) + value).to_bits(), Ordering::Relaxed);
}

/// Books what a shut window counted; to be called by the epoch thread before it arms it again.
pub fn settle(function: u32, now_ticks: u64) {
    let (Some(window), Some(samples)) = (window(function), profile::settings().and_then(|s| s.sample)) else {
        return;
    };
    let Count { exact, estimated, variance, since_first } = window.since_opened(now_ticks, samples);
    window.exact.fetch_add(exact, Ordering::Relaxed);
    add_f64(&window.estimated, estimated);
    add_f64(&window.variance, variance);
    add_f64(&window.since_first, since_first);
    if estimated > 0.0 {
        window.windows.fetch_add(1, Ordering::Relaxed);
        add_f64(&window.squares, estimated * estimated);
    }
}

/// The calls of a function so far, and the standard error of that number (0: exact), for a run with sampling.
#[must_use]
pub fn calls(function: u32, now_ticks: u64, samples: u32) -> (f64, f64) {
    let Some(window) = window(function) else { return (0.0, 0.0) };
    let Count { exact, estimated, variance, since_first } = window.since_opened(now_ticks, samples);
    let load = |word: &AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
    let count = window.windows.load(Ordering::Relaxed) as f64 + f64::from(u8::from(estimated > 0.0));
    let sum = load(&window.estimated) + estimated;
    let squares = load(&window.squares) + estimated * estimated;
    let spread = if count > 1.0 { count * (squares - sum * sum / count) / (count - 1.0) } else { squares };
    let pauses = (load(&window.since_first) + since_first - sum).abs();
    let error = (load(&window.variance) + variance).max(spread).max(0.0).sqrt().max(pauses);
    ((window.exact.load(Ordering::Relaxed) + exact) as f64 + sum, error)
}

/// Forgets all counts and opens every window; for a profiler that starts again.
pub fn restart() {
    let _ = take_shut();
    for function in 0..registry::function_count() {
        if let Some(window) = window(function) {
            window.left.store(1, Ordering::Relaxed);
        }
    }
    after_fork();
}

/// To be called in the child of a fork.
pub fn after_fork() {
    for function in 0..registry::function_count() {
        if let Some(window) = window(function) {
            window.exact.store(0, Ordering::Relaxed);
            window.estimated.store(0, Ordering::Relaxed);
            window.variance.store(0, Ordering::Relaxed);
            window.since_first.store(0, Ordering::Relaxed);
            window.windows.store(0, Ordering::Relaxed);
            window.squares.store(0, Ordering::Relaxed);
            if window.left.load(Ordering::Relaxed) > 0 {
                arm(function);
            }
        }
    }
}

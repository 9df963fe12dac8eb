//! The time that functions take outside their callees, where calls are sampled:
//! the time of all calls of a function, minus that of the calls that it makes.
//!
//! Both are estimates for all calls, measured or not, so the time of a callee that is not measured is not included
//! in its caller's own time. Each measured call knows its caller by its return address, so it is attributed to the
//! right one even if that was not measured itself. Recursive calls are on both sides, and cancel out.
//!
//! A call seems to take a little longer than it does: its probe takes time after the clock is read at the entry and before it
//! is read at the exit. In a program of very short functions that is most of what is measured, and a function that does little
//! but call them seems to take less than no time. This overhead is therefore estimated as the value that leaves the least time
//! below zero ([`unseen_ticks`]). The times of all functions never add up to more than the lifetimes of the threads.

use super::raw::{RawFunction, RawPath};

/// What may be wrong with the time of a call: what a probe costs differs from one to the next, with what is in the caches.
pub const CALL_ERROR_TICKS: f64 = 100.0;
/// The most that a probe is taken to cost unseen.
const MOST_UNSEEN_TICKS: u32 = 200;

/// What is known of a function's own time.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// Its calls' latencies, less those of its callees.
    ticks: f64,
    /// The variance of that.
    variance: f64,
    /// Its calls, its calls of others, and their latencies.
    calls: f64,
    callee_calls: f64,
    callee_ticks: f64,
}

impl Own {
    /// The own time, if each call took `unseen` ticks less than it seemed to.
    fn without(&self, unseen: f64) -> f64 {
        self.ticks - unseen * (self.calls - self.callee_calls)
    }
}

/// The ticks that each call seems to take too long: what leaves the least time below zero, but for what chance explains.
fn unseen_ticks(all: &[Own]) -> f64 {
    let below_zero = |unseen: u32| {
        let below = all
            .iter()
            .map(|own| (own.without(f64::from(unseen)) + own.variance.sqrt()).min(0.0))
            .sum::<f64>();
        (-below, unseen)
    };
    let least = (0..=MOST_UNSEEN_TICKS).map(below_zero).min_by(|a, b| a.0.total_cmp(&b.0));
    least.map_or(0.0, |(_, unseen)| f64::from(unseen))
}

/// What is known of the threads together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads {
    /// How long they were there, less what probes took.
    pub present_ticks: f64,
    /// How long they waited for a processor. A call that is measured shows it, and so does its caller; one that is not shows nothing, and what
    /// it waited is taken for its caller's own.
    pub waited_ticks: f64,
}

/// Fills in what functions and paths take outside callees. `latencies` are those of all calls of each path.
pub fn fill_in(functions: &mut [RawFunction], paths: &mut [RawPath], latencies: &[f64], threads: Threads) {
    // How far a function's latencies may be off, as a share of them; and how many calls of it a measured one stands for.
    let shares: Vec<f64> = functions.iter().map(|f| f.chance_error_ticks / f.total_ticks.max(1.0)).collect();
    let each: Vec<f64> = functions.iter().map(|f| f.calls / f.sampled.max(1) as f64).collect();
    let mut all: Vec<Own> = functions
        .iter()
        .zip(&shares)
        .map(|(f, share)| Own {
            ticks: f.latency_ticks,
            variance: (f.latency_ticks * share).powi(2),
            calls: f.calls,
            callee_calls: 0.0,
            callee_ticks: 0.0,
        })
        .collect();
    let mut own_of_paths = latencies.to_vec();
    for (path, latency) in paths.iter().zip(latencies) {
        let Some(parent) = path.parent else { continue };
        let callee = path.function as usize;
        let caller = &mut all[paths[parent as usize].function as usize];
        caller.ticks -= latency;
        caller.variance += (latency * shares[callee]).powi(2);
        caller.callee_ticks += latency;
        caller.callee_calls += path.calls as f64 * each[callee];
        own_of_paths[parent as usize] -= latency;
    }
    let unseen = unseen_ticks(&all);
    for (function, own) in functions.iter_mut().zip(&all) {
        function.total_ticks = (function.total_ticks - unseen * function.outermost_calls).max(0.0);
        function.latency_ticks = (function.latency_ticks - unseen * function.calls).max(0.0);
        function.self_ticks = own.without(unseen).clamp(0.0, function.total_ticks);
        let in_callees = (own.callee_ticks / threads.present_ticks.max(1.0)).min(1.0);
        function.self_chance_error_ticks = own.variance.sqrt();
        function.self_error_ticks = function.self_chance_error_ticks
            + CALL_ERROR_TICKS * (own.calls + own.callee_calls)
            + threads.waited_ticks * in_callees;
    }
    fit(functions, threads.present_ticks);
    // A function's own time lies in its paths as what they took outside their callees, as far as that is known for each.
    let mut sums = vec![0.0; functions.len()];
    let mut counts = vec![0.0; functions.len()];
    for (path, own) in paths.iter().zip(&mut own_of_paths) {
        *own = own.max(0.0);
        sums[path.function as usize] += *own;
        counts[path.function as usize] += 1.0;
    }
    for (path, own) in paths.iter_mut().zip(&own_of_paths) {
        let function = path.function as usize;
        let share = if sums[function] > 0.0 { own / sums[function] } else { 1.0 / counts[function] };
        path.self_ticks = functions[function].self_ticks * share;
    }
}

/// Takes from own times, each in proportion to how far it may be off, what they are together above `present_ticks`.
fn fit(functions: &mut [RawFunction], present_ticks: f64) {
    let above = functions.iter().map(|f| f.self_ticks).sum::<f64>() - present_ticks;
    let doubtful = |f: &RawFunction| f.self_ticks.min(f.self_error_ticks);
    let sum: f64 = functions.iter().map(doubtful).sum();
    if above > 0.0 && sum > 0.0 {
        let share = (above / sum).min(1.0);
        functions.iter_mut().for_each(|f| f.self_ticks -= doubtful(f) * share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(calls: f64, latency_ticks: f64, total_ticks: f64) -> RawFunction {
        let outermost_calls = calls;
        let sampled = calls as u64;
        RawFunction { calls, sampled, outermost_calls, latency_ticks, total_ticks, ..RawFunction::default() }
    }

    fn present(present_ticks: f64) -> Threads {
        Threads { present_ticks, waited_ticks: 0.0 }
    }

    fn path(parent: Option<u32>, function: u32, calls: u64) -> RawPath {
        RawPath { parent, function, calls, self_ticks: 0.0 }
    }

    #[test]
    fn what_callees_take_is_not_their_callers_own() {
        // a calls b, b calls c, and c is called by a, too. a's call of c was measured in a thread where a's own was not.
        let mut functions =
            [function(1.0, 1000.0, 1000.0), function(10.0, 600.0, 600.0), function(30.0, 300.0, 300.0)];
        let mut paths = [path(None, 0, 1), path(Some(0), 1, 10), path(Some(1), 2, 20), path(Some(0), 2, 10)];
        fill_in(&mut functions, &mut paths, &[1000.0, 600.0, 200.0, 100.0], present(1000.0));
        assert_eq!(functions.each_ref().map(|f| f.self_ticks), [300.0, 400.0, 300.0]);
        assert_eq!(paths.each_ref().map(|p| p.self_ticks), [300.0, 400.0, 200.0, 100.0]);
        assert_eq!(functions[0].self_error_ticks, CALL_ERROR_TICKS * 21.0);
    }

    #[test]
    fn recursive_calls_cancel_out() {
        // f calls itself, 3 deep, 10 ticks each: 30 + 20 + 10.
        let mut functions = [function(3.0, 60.0, 30.0)];
        let mut paths = [path(None, 0, 1), path(Some(0), 0, 1), path(Some(1), 0, 1)];
        fill_in(&mut functions, &mut paths, &[30.0, 20.0, 10.0], present(30.0));
        assert_eq!(functions[0].self_ticks, 30.0);
        assert_eq!(paths.each_ref().map(|p| p.self_ticks), [10.0; 3]);
    }

    #[test]
    fn no_time_is_below_zero() {
        let mut functions = [function(1.0, 90.0, 90.0), function(9.0, 100.0, 100.0)];
        let mut paths = [path(None, 0, 1), path(Some(0), 1, 9)];
        fill_in(&mut functions, &mut paths, &[90.0, 100.0], present(95.0));
        let own = functions.each_ref().map(|f| f.self_ticks);
        assert!(own.iter().all(|ticks| *ticks >= 0.0) && own.iter().sum::<f64>() <= 95.0, "{own:?}");
    }

    #[test]
    fn what_is_known_stays_as_it_is_where_times_must_fit() {
        let mut functions = [function(1.0, 50.0, 50.0), function(1.0, 60.0, 60.0), function(1.0, 30.0, 30.0)];
        for (function, error) in functions.iter_mut().zip([0.0, 20.0, 40.0]) {
            (function.self_ticks, function.self_error_ticks) = (function.total_ticks, error);
        }
        fit(&mut functions, 125.0);
        assert_eq!(functions.each_ref().map(|f| f.self_ticks), [50.0, 54.0, 21.0]);
    }

    /// A loop that calls two short functions a million times, of which each measured call seems to take 40 ticks too long.
    #[test]
    fn what_probes_take_unseen_is_found_as_what_makes_times_add_up() {
        let calls = 1_000_000;
        let mut functions =
            [function(1.0, 100e6, 100e6), function(1e6, 90e6, 90e6), function(1e6, 60e6, 60e6)];
        let mut paths = [path(None, 0, 1), path(Some(0), 1, calls), path(Some(0), 2, calls)];
        fill_in(&mut functions, &mut paths, &[100e6, 90e6, 60e6], present(100e6));
        let own = functions.each_ref().map(|f| (f.self_ticks / 1e6).round());
        // What the loop itself takes can't be told from what probes take: with 26 ticks no time is below zero.
        assert_eq!(own, [2.0, 64.0, 34.0]);
    }
}

//! Measures `T_max` on this machine (section 8.1, Figure 9), and reports when it cannot be trusted.
//!
//! For each wait, straddling sites with all four splits are patched with the paper's protocol, while executors with hot lines,
//! cold lines and page-crossing sites check what they execute. The shortest wait from which on nothing failed is a lower bound,
//! not a proof. The recommended wait is twice as long; where failures occur up to the end of the range, none is recommended.

use crate::{
    PatchError,
    barrier::{self, Separation},
    exercise::{self, Boundary, Case, Executor, Method},
};
use std::time::Duration;

/// One point of the figure.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The wait in TSC ticks.
    pub wait_ticks: u64,
    /// Bytes of the site before the boundary.
    pub split: usize,
    /// Whether the boundary is a page's.
    pub page: bool,
    /// What the executors did.
    pub executor: Executor,
    /// Patches made.
    pub toggles: u64,
    /// Executions that were half old, half new.
    pub torn: u64,
}

/// The figure and the conclusion.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// All points, by wait.
    pub points: Vec<Point>,
    /// Twice the longest wait that failed; `None` where even the longest wait tried failed: the wait is not safe here.
    pub advised_ticks: Option<u64>,
}

/// Tries the `waits`, `per_point` long each. The separation in use is restored afterwards; other patches of the process
/// must not run meanwhile, they would use the wait under test.
pub fn calibrate(waits: &[u64], per_point: Duration) -> Result<Calibration, PatchError> {
    let before = barrier::separation();
    let result = measure(waits, per_point);
    barrier::set_separation(before);
    let points = result?;
    let longest = waits.iter().copied().max().unwrap_or(0);
    let failing = points.iter().filter(|p| p.torn > 0).map(|p| p.wait_ticks).max();
    let advised_ticks = match failing {
        Some(ticks) if ticks >= longest => None,
        Some(ticks) => Some(2 * ticks.max(1000)),
        None => Some(2000),
    };
    Ok(Calibration { points, advised_ticks })
}

fn measure(waits: &[u64], per_point: Duration) -> Result<Vec<Point>, PatchError> {
    let mut points = Vec::new();
    // One processor is the patcher's: executors that share theirs are seldom in the middle of the instruction.
    let processors = std::thread::available_parallelism().map_or(2, |n| n.get());
    let executors = processors.saturating_sub(1).clamp(1, 6);
    for wait_ticks in waits {
        barrier::set_separation(Separation::Wait { ticks: *wait_ticks });
        for (page, executor) in [
            (false, Executor::Hot),
            (false, Executor::Cold),
            (true, Executor::Hot),
            (true, Executor::TlbThrashed),
        ] {
            for split in 1..=4 {
                let boundary = if page { Boundary::Page { split } } else { Boundary::Line { split } };
                let case = Case { boundary, executor, executors, patchers: 1, method: Method::Patch };
                let outcome = exercise::run(case, u64::MAX, per_point)?;
                points.push(Point {
                    wait_ticks: *wait_ticks,
                    split,
                    page,
                    executor,
                    toggles: outcome.toggles,
                    torn: outcome.torn,
                });
            }
        }
    }
    Ok(points)
}

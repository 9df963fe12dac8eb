//! The data that the probed process writes and the report reads: one JSON document per process.

use super::histogram::BucketCount;
use serde::{Deserialize, Serialize};

/// The version of the document.
pub const VERSION: u32 = 3;

/// A process's profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawProfile {
    /// [`VERSION`].
    pub version: u32,
    /// The program's file.
    pub program: String,
    /// Its process.
    pub pid: u32,
    /// TSC ticks a nanosecond.
    pub ticks_per_ns: f64,
    /// Samples of a function and epoch; null: every call.
    pub sample: Option<u32>,
    /// The epoch.
    pub epoch_ms: u64,
    /// How long was measured.
    pub elapsed_ns: u64,
    /// When it began, in TSC ticks.
    pub start_ticks: u64,
    /// What the probes took of all threads, in ticks.
    pub probes_ticks: u64,
    /// Windows opened again.
    pub rearmed: u64,
    /// The functions that were seen.
    pub functions: Vec<RawFunction>,
    /// The paths; parents come before their children.
    pub paths: Vec<RawPath>,
    /// The latest calls.
    pub events: Vec<RawEvent>,
    /// Functions that could not be probed.
    pub unprobed: Vec<RawUnprobed>,
    /// Probes in all.
    pub probes: u32,
    /// What is missing.
    pub gaps: RawGaps,
}

/// One function.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RawFunction {
    /// Its symbol.
    pub symbol: String,
    /// Its file.
    pub module: String,
    /// Its offset there.
    pub offset: u64,
    /// Who found it.
    pub provider: String,
    /// Calls: exact, unless the governor switched the function's probe off for a while.
    pub calls: f64,
    /// Half the width of the interval around `calls` that holds the truth 95 times of 100; 0: exact.
    pub calls_error: f64,
    /// Those that are not inside others of the function.
    pub outermost_calls: f64,
    /// Measured calls.
    pub sampled: u64,
    /// Ticks of all calls, of recursive ones once: with every call measured those, otherwise scaled from them.
    pub total_ticks: f64,
    /// Half the width of the interval around `total_ticks`, as for `calls_error`.
    pub total_error_ticks: f64,
    /// The part of that which is chance: that other calls were measured than could have been.
    pub chance_error_ticks: f64,
    /// The sum of all calls' latencies: of recursive ones again.
    pub latency_ticks: f64,
    /// Ticks of all calls outside callees.
    pub self_ticks: f64,
    /// Half the width of the interval around `self_ticks`, as for `calls_error`.
    pub self_error_ticks: f64,
    /// The part of that which is chance.
    pub self_chance_error_ticks: f64,
    /// The longest.
    pub max_ticks: u64,
    /// Buckets and counts, see `histogram`.
    pub histogram: Vec<BucketCount>,
}

/// One call path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawPath {
    /// The caller's index in `paths`; null: none was measured.
    pub parent: Option<u32>,
    /// Index in `functions`.
    pub function: u32,
    /// Measured calls.
    pub calls: u64,
    /// Ticks outside callees: of all calls, measured or not.
    pub self_ticks: f64,
}

/// One call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawEvent {
    /// The thread.
    pub tid: u32,
    /// Index in `functions`.
    pub function: u32,
    /// When it began, in ticks since the start.
    pub start_ticks: u64,
    /// How long it took.
    pub ticks: u64,
}

/// A function without a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawUnprobed {
    /// Its symbol.
    pub symbol: String,
    /// Its file.
    pub module: String,
    /// Why.
    pub reason: String,
}

/// What is missing from the profile, in calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RawGaps {
    /// Calls that ended without their exit being seen (exceptions, longjmp, threads that died): measured until then.
    pub unfinished: u64,
    /// Calls too deep for the shadow stack: counted, not measured.
    pub too_deep: u64,
    /// Calls on a foreign stack: counted, not measured.
    pub foreign_stack: u64,
    /// Calls whose path had no room.
    pub paths_joined: u64,
    /// Calls that the timeline has overwritten.
    pub events_overwritten: u64,
}

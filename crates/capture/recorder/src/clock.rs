//! The time of day, and processor time.

use std::time::{SystemTime, UNIX_EPOCH};

use proc_files::TaskStat;

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Processor time, in seconds.
pub(crate) struct CpuSeconds {
    /// Of this process.
    pub(crate) own: f64,
    /// Of its children that have ended.
    pub(crate) children: f64,
}

/// What the system says of this process.
pub(crate) fn cpu_seconds() -> CpuSeconds {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, the name in parentheses, may hold anything; the third follows it.
    let fields = text.rsplit(") ").next().unwrap_or_default();
    let ticks: Vec<f64> =
        fields.split(' ').skip(11).take(4).map(|field| field.parse().unwrap_or(0.0)).collect();
    let seconds = |range: std::ops::Range<usize>| {
        ticks.get(range).map_or(0.0, |ticks| ticks.iter().sum::<f64>())
            / rustix::param::clock_ticks_per_second() as f64
    };
    CpuSeconds { own: seconds(0..2), children: seconds(2..4) }
}

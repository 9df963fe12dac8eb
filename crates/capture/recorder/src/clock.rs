//! Wall-clock time and processor time.

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
    let stat = TaskStat::parse(&std::fs::read("/proc/self/stat").unwrap_or_default());
    let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    CpuSeconds {
        own: stat.map_or(0.0, |stat| seconds(stat.own_ticks)),
        children: stat.map_or(0.0, |stat| seconds(stat.children_ticks)),
    }
}

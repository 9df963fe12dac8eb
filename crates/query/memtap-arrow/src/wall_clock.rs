//! The time of day of accesses of any thread, about.

use std::collections::BTreeMap;

use analysis::ThreadClock;
use memref::ThreadId;
use trace_format::{Filter, Trace};

/// The clocks of all threads, each of which is made when it is first asked.
#[derive(Debug)]
pub(crate) struct WallClock {
    trace: Trace,
    threads: BTreeMap<ThreadId, ThreadClock>,
}

impl WallClock {
    pub(crate) fn of(trace: &Trace) -> Self {
        Self { trace: trace.clone(), threads: BTreeMap::new() }
    }

    /// Times of cycles of a thread, ns since the Unix epoch.
    pub(crate) fn extend(
        &mut self,
        thread: ThreadId,
        cycles: impl Iterator<Item = u64>,
        times: &mut Vec<Option<u64>>,
    ) {
        let trace = &self.trace;
        let make = || ThreadClock::of(&trace.shard(thread).access_frames(&Filter::default()));
        let clock = self.threads.entry(thread).or_insert_with(make);
        times.extend(cycles.map(|cycle| clock.at(cycle)));
    }
}

//! The time of day of accesses, about: a trace has it for frames, and not for what is in them.
//!
//! A frame's header says when its first entry came and when it was stored. Between these two the clock is taken to go with the
//! cycles. The time of an access is therefore always one at which its frame was being filled, and it never goes back in a thread
//! unless the machine's clock did.

use std::collections::BTreeMap;

use memref::ThreadId;
use trace_format::{AccessFrame, Filter, Interval, Trace};

/// A frame in cycles and in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameTime {
    cycles: Interval,
    wall_ns: Interval,
}

impl FrameTime {
    fn at(&self, cycle: u64) -> u64 {
        let into = cycle.clamp(self.cycles.min, self.cycles.max) - self.cycles.min;
        let (cycles, time) = (self.cycles.max - self.cycles.min, self.wall_ns.max - self.wall_ns.min);
        let cycles = cycles.max(1);
        let part = match into.checked_mul(time) {
            Some(product) => product / cycles,
            // Of a very long frame. No more than the whole, since it is a part of it.
            None => (u128::from(into) * u128::from(time) / u128::from(cycles)) as u64,
        };
        self.wall_ns.min + part
    }
}

/// The times of a thread's frames.
#[derive(Debug)]
struct ThreadClock {
    frames: Vec<FrameTime>,
}

impl ThreadClock {
    fn of(frames: &[AccessFrame]) -> Self {
        let bounds = frames.iter().map(|frame| (frame.bounds.cycles, frame.bounds.wall_ns));
        Self::of_bounds(bounds.filter(|(cycles, wall_ns)| !cycles.is_none() && !wall_ns.is_none()))
    }

    fn of_bounds(bounds: impl Iterator<Item = (Interval, Interval)>) -> Self {
        let mut frames: Vec<FrameTime> = Vec::new();
        for (cycles, wall_ns) in bounds {
            // All of a frame came before the first of the next one, however late it was stored.
            if let Some(before) = frames.last_mut() {
                before.wall_ns.max = before.wall_ns.max.min(wall_ns.min).max(before.wall_ns.min);
            }
            frames.push(FrameTime { cycles, wall_ns });
        }
        Self { frames }
    }

    fn at(&self, cycle: u64) -> Option<u64> {
        let place = self.frames.partition_point(|frame| frame.cycles.max < cycle);
        let frame = self.frames.get(place).or(self.frames.last())?;
        Some(frame.at(cycle))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(min: u64, max: u64) -> Interval {
        Interval { min, max }
    }

    #[test]
    fn time_goes_with_the_cycles_of_a_frame() {
        let bounds = [
            // Stored only after the next one had begun.
            (interval(0, 100), interval(1_000, 3_000)),
            (interval(101, 101), interval(2_000, 2_500)),
            (interval(200, 300), interval(9_000, 9_100)),
        ];
        let clock = ThreadClock::of_bounds(bounds.into_iter());
        let check = |cycle, expect| assert_eq!(clock.at(cycle), Some(expect), "{cycle}");
        check(0, 1_000);
        check(50, 1_500);
        check(100, 2_000);
        check(101, 2_000);
        check(150, 9_000);
        check(250, 9_050);
        check(300, 9_100);
        check(u64::MAX, 9_100);
        let long = ThreadClock::of_bounds([(interval(0, 1 << 62), interval(0, 1 << 62))].into_iter());
        assert_eq!(long.at(1 << 60), Some(1 << 60));
        assert_eq!(ThreadClock::of_bounds([].into_iter()).at(5), None);
    }
}

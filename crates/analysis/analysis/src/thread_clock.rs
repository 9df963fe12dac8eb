//! The time of day of a thread's events, about: a trace has it for frames, and not for what is in them.
//!
//! A frame's header says when its first entry came and when it was stored. Between these two the clock is taken to go with the
//! cycles. The time of an access is therefore one at which its frame was being filled, and it never goes back in a thread: where
//! the machine's clock did, it stands still.

use std::ops::Range;

use memref::ThreadId;
use trace_format::{Filter, Interval, Trace};

/// A frame in cycles and in time, ns since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTime {
    /// Of its first and its last access.
    pub cycles: Interval,
    /// When these were made.
    pub wall_ns: Interval,
}

impl FrameTime {
    /// The time of a cycle; of one outside of it that of the nearest.
    #[inline]
    pub fn at(&self, cycle: u64) -> u64 {
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

    /// The first of its cycles that is not before a time, which is not after its end.
    fn first_cycle(&self, time: u64) -> u64 {
        let (mut low, mut high) = (self.cycles.min, self.cycles.max);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle) < time { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The times of a thread's frames of accesses, none of which goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadClock {
    frames: Vec<FrameTime>,
}

impl ThreadClock {
    /// That of a thread. Reads headers of frames alone.
    pub fn of(trace: &Trace, thread: ThreadId) -> Self {
        let frames = trace.shard(thread).access_frames(&Filter::default());
        let bounds = frames.iter().map(|frame| (frame.bounds.cycles, frame.bounds.wall_ns));
        Self::of_bounds(bounds.filter(|(cycles, wall_ns)| !cycles.is_none() && !wall_ns.is_none()))
    }

    fn of_bounds(bounds: impl Iterator<Item = (Interval, Interval)>) -> Self {
        let mut frames: Vec<FrameTime> = Vec::new();
        for (cycles, mut wall_ns) in bounds {
            if let Some(FrameTime { wall_ns: before, .. }) = frames.last_mut() {
                wall_ns.min = wall_ns.min.max(before.min);
                wall_ns.max = wall_ns.max.max(wall_ns.min);
                // All of a frame came before the first of the next one, however late it was stored.
                before.max = before.max.min(wall_ns.min);
            }
            frames.push(FrameTime { cycles, wall_ns });
        }
        Self { frames }
    }

    /// That of frames, in order, none of which begins before the one before it ended.
    pub fn of_frames(frames: Vec<FrameTime>) -> Self {
        Self { frames }
    }

    /// The frames, in order.
    pub fn frames(&self) -> &[FrameTime] {
        &self.frames
    }

    /// The time of a cycle; between frames it is that of the next one, after the last its end. `None` where no frame has a time.
    pub fn at(&self, cycle: u64) -> Option<u64> {
        self.frame(cycle).map(|frame| frame.at(cycle))
    }

    /// The frame that tells the time of a cycle.
    pub fn frame(&self, cycle: u64) -> Option<&FrameTime> {
        let place = self.frames.partition_point(|frame| frame.cycles.max < cycle);
        self.frames.get(place).or(self.frames.last())
    }

    /// Gives the times of cycles that mostly come in order.
    pub fn cursor(&self) -> ClockCursor<'_> {
        ClockCursor { frames: &self.frames, place: 0 }
    }

    /// The cycles whose times are in a range.
    pub fn cycles(&self, times: &Range<u64>) -> Range<u64> {
        let start = self.first_cycle(times.start);
        start..self.first_cycle(times.end).max(start)
    }

    /// The first cycle that is not before a time; the greatest number where all are.
    fn first_cycle(&self, time: u64) -> u64 {
        // The only cycle of a frame has the time of its beginning.
        let place = self.frames.partition_point(|frame| frame.at(frame.cycles.max) < time);
        let Some(frame) = self.frames.get(place) else { return u64::MAX };
        if time > frame.wall_ns.min {
            return frame.first_cycle(time);
        }
        match place.checked_sub(1).and_then(|before| self.frames.get(before)) {
            Some(before) => before.cycles.max.saturating_add(1),
            None => 0,
        }
    }
}

/// The times of a thread's cycles, for those who ask for many: the next one is mostly of the same frame.
#[derive(Clone, Debug)]
pub struct ClockCursor<'a> {
    frames: &'a [FrameTime],
    /// Of the last cycle's frame.
    place: usize,
}

impl ClockCursor<'_> {
    /// As [`ThreadClock::at`].
    #[inline]
    pub fn at(&mut self, cycle: u64) -> Option<u64> {
        let is_before = |place: usize| self.frames.get(place).is_none_or(|frame| frame.cycles.max < cycle);
        if is_before(self.place) || !self.place.checked_sub(1).is_none_or(is_before) {
            self.place = self.frames.partition_point(|frame| frame.cycles.max < cycle);
        }
        let frame = self.frames.get(self.place).or(self.frames.last())?;
        Some(frame.at(cycle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(frames: &[[u64; 4]]) -> ThreadClock {
        let interval = |min, max| Interval { min, max };
        let bounds = frames.iter().map(|&[from, to, begin, end]| (interval(from, to), interval(begin, end)));
        ThreadClock::of_bounds(bounds)
    }

    fn check(clock: &ThreadClock, times: &[(u64, u64)]) {
        let mut cursor = clock.cursor();
        for &(cycle, expect) in times {
            assert_eq!((clock.at(cycle), cursor.at(cycle)), (Some(expect), Some(expect)), "{cycle}");
        }
    }

    #[test]
    fn time_goes_with_the_cycles_of_a_frame() {
        // The first was stored only after the next one had begun.
        let some = clock(&[[0, 100, 1_000, 3_000], [101, 101, 2_000, 2_500], [200, 300, 9_000, 9_100]]);
        check(&some, &[(0, 1_000), (50, 1_500), (100, 2_000), (101, 2_000), (150, 9_000), (250, 9_050)]);
        check(&some, &[(300, 9_100), (u64::MAX, 9_100)]);
        check(&clock(&[[0, 1 << 62, 0, 1 << 62]]), &[(1 << 60, 1 << 60)]);
        assert_eq!((clock(&[]).at(5), clock(&[]).cursor().at(5)), (None, None));
    }

    #[test]
    fn times_do_not_go_back_where_the_clock_did() {
        let back = clock(&[[0, 9, 1_000, 1_100], [10, 19, 500, 600], [20, 29, 700, 1_300]]);
        check(&back, &[(0, 1_000), (9, 1_000), (15, 1_000), (20, 1_000), (29, 1_300)]);
    }

    #[test]
    fn the_cycles_of_a_range_of_times_are_those_whose_times_are_in_it() {
        let clocks = [
            clock(&[[5, 100, 1_000, 1_040], [101, 101, 1_040, 1_050], [110, 120, 1_060, 1_090]]),
            clock(&[[0, 9, 1_000, 1_100], [10, 19, 1_100, 1_100], [20, 29, 1_100, 1_130]]),
            // Neighbours may have a cycle in common.
            clock(&[
                [0, 10, 1_000, 1_020],
                [10, 10, 1_020, 1_030],
                [10, 20, 1_030, 1_050],
                [20, 90, 1_050, 1_100],
            ]),
        ];
        for clock in &clocks {
            for start in 990..1_140 {
                for end in [start, start + 1, start + 7, 1_200] {
                    let cycles = clock.cycles(&(start..end));
                    let mut cursor = clock.cursor();
                    for cycle in (0..130).chain([5, 90, 10, 11]) {
                        let time = clock.at(cycle).unwrap();
                        assert_eq!(cursor.at(cycle), Some(time));
                        assert_eq!(
                            cycles.contains(&cycle),
                            (start..end).contains(&time),
                            "{cycle} {start} {end}"
                        );
                    }
                }
            }
        }
    }
}

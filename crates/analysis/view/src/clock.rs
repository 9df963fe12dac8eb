//! The axis of time: cycles, in which each thread has a clock of its own; or the time of day, which is one clock for all threads.
//!
//! A trace has times for frames, and not for what is in them: from when on the first access of a frame could have been made, and when
//! the frame was stored. Between these the clock is taken to go evenly with the cycles. Traces whose frames begin when the
//! recorder saw them have no such clock: a thread that slept would seem not to have.
//!
//! Where there are several threads, what each frame makes of the times of calls that allocate or synchronise need not agree with the
//! order that they drew: a frame may have been stored long after its thread had ended. Their times are therefore the nearest ones, by
//! the sum of squares, that never go back in that order, where what a short frame tells weighs more (isotonic regression; Barlow et
//! al., Statistical Inference under Order Restrictions, 1972, section 1.2), and other accesses are between them.

use std::collections::BTreeMap;
use std::ops::Range;

use analysis::{ClockCursor, FrameTime, ThreadClock};
use memref::{Event, Order, ThreadId};
use trace_format::{Batch, Filter, Interval, KindSet, Trace};

use crate::frames::MapFrame;
use crate::map::TraceMap;
use crate::part::{MapPart, TimeAxis};

/// Frames of a thread whose times the page has.
const MOST_FRAMES: usize = 200;

/// Calls whose times are made to agree with their order, of all threads together: of more, some of each thread.
const MOST_CALLS: usize = 1 << 20;

/// A cycle, and when it was.
pub(crate) type CycleTime = [u64; 2];

/// The time of day of all threads, in ns since the first access of the trace.
#[derive(Debug)]
pub(crate) struct SharedClock {
    first: u64,
    threads: BTreeMap<ThreadId, ThreadClock>,
}

impl SharedClock {
    /// That of a trace; `None` where it does not tell.
    pub(crate) fn of(trace: &Trace) -> Result<Option<Self>, trace_format::Error> {
        if !trace.frames_begin_with_accesses() {
            return Ok(None);
        }
        let threads = trace.threads().iter().map(|record| record.thread);
        let mut threads: BTreeMap<_, _> =
            threads.map(|thread| (thread, ThreadClock::of(trace, thread))).collect();
        if threads.len() > 1 {
            order(trace, &mut threads)?;
        }
        Ok(first_of(&threads).map(|first| Self { first, threads }))
    }

    /// When a cycle of a thread was: that of the nearest access of which something is known.
    pub(crate) fn at(&self, thread: ThreadId, cycle: u64) -> u64 {
        let known = self.threads.get(&thread).and_then(|clock| clock.at(cycle));
        known.map_or(0, |time| time.saturating_sub(self.first))
    }

    /// From the first to the last access of some frames.
    pub(crate) fn span<'a>(&self, frames: impl Iterator<Item = &'a MapFrame>) -> Range<u64> {
        let (mut first, mut end) = (u64::MAX, 0);
        for frame in frames {
            first = first.min(self.at(frame.thread, frame.cycles.start));
            end = end.max(self.at(frame.thread, frame.cycles.end - 1) + 1);
        }
        first.min(end)..end
    }

    /// The cycles of a thread that were in a time.
    fn cycles(&self, thread: ThreadId, times: &Range<u64>) -> Range<u64> {
        match self.threads.get(&thread).filter(|clock| !clock.frames().is_empty()) {
            Some(clock) => {
                clock.cycles(&(times.start.saturating_add(self.first)..times.end.saturating_add(self.first)))
            }
            // All of it is at the beginning.
            None if times.contains(&0) => 0..u64::MAX,
            None => 0..0,
        }
    }

    /// Cycles of a thread with their times: the ends of some of its frames, the first and the last among them.
    pub(crate) fn points(&self, thread: ThreadId) -> Option<Vec<CycleTime>> {
        let frames = self.threads.get(&thread)?.frames();
        let point = |cycle, time: u64| [cycle, time.saturating_sub(self.first)];
        let ends = |frame: &FrameTime| {
            [point(frame.cycles.min, frame.wall_ns.min), point(frame.cycles.max, frame.wall_ns.max)]
        };
        Some(some_of(frames, MOST_FRAMES).flat_map(ends).collect())
    }
}

/// When the first thread began.
fn first_of(threads: &BTreeMap<ThreadId, ThreadClock>) -> Option<u64> {
    threads.values().filter_map(|clock| clock.frames().first()).map(|frame| frame.wall_ns.min).min()
}

/// A call that drew an order of the session, and when it was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OrderedCall {
    order: Order,
    thread: ThreadId,
    cycle: u64,
    time: f64,
    /// How much is known of it: the inverse of a variance.
    weight: f64,
}

/// Makes the times of calls never go back in the order that they drew.
fn order(trace: &Trace, threads: &mut BTreeMap<ThreadId, ThreadClock>) -> Result<(), trace_format::Error> {
    let first = first_of(threads).unwrap_or(0);
    let mut calls = Vec::new();
    for (&thread, clock) in &*threads {
        let known = calls_of(trace, thread, MOST_CALLS / threads.len())?;
        let timed = |(order, cycle): (Order, u64)| {
            // Small enough for all of its digits.
            let frame = clock.frame(cycle)?;
            let time = frame.at(cycle).saturating_sub(first) as f64;
            // It is somewhere in that frame.
            let length = (frame.wall_ns.max - frame.wall_ns.min).max(1) as f64;
            Some(OrderedCall { order, thread, cycle, time, weight: length.powi(-2) })
        };
        calls.extend(known.into_iter().filter_map(timed));
    }
    calls.sort_unstable_by_key(|call| (call.order, call.thread, call.cycle));
    never_back(&mut calls);
    let mut known: BTreeMap<ThreadId, Vec<CycleTime>> = BTreeMap::new();
    for call in calls {
        known.entry(call.thread).or_default().push([call.cycle, first + call.time as u64]);
    }
    for (thread, points) in known {
        if let Some(clock) = threads.get_mut(&thread) {
            *clock = through(clock.frames(), &points);
        }
    }
    Ok(())
}

/// Orders and cycles of a thread's calls: all of them, or of many every so manyth, and the last one.
fn calls_of(trace: &Trace, thread: ThreadId, most: usize) -> Result<Vec<(Order, u64)>, trace_format::Error> {
    let kinds = KindSet(KindSet::ALLOCATIONS.0 | KindSet::SYNCS.0);
    let mut cursor = trace.shard(thread).events(&Filter { kinds, ..Filter::default() });
    let (mut kept, mut last) = (Vec::new(), None);
    let (mut step, mut number) = (1, 0_usize);
    while let Some(batch) = cursor.next_batch()? {
        let call = match batch {
            Batch::Event(Event::Allocation(event)) => (event.order, event.cycle),
            Batch::Event(Event::Sync(event)) => (event.order, event.cycle),
            _ => continue,
        };
        last = Some(call);
        if number % step == 0 {
            if kept.len() >= most.max(2) {
                let mut place = 0;
                kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                step *= 2;
            }
            if number % step == 0 {
                kept.push(call);
            }
        }
        number += 1;
    }
    kept.extend(last.filter(|last| kept.last() != Some(last)));
    Ok(kept)
}

/// Replaces times by the nearest ones that never go back: neighbours that do are one block, which has their mean by weight.
fn never_back(calls: &mut [OrderedCall]) {
    /// Calls with one time.
    struct Block {
        calls: usize,
        weight: f64,
        mean: f64,
    }
    let mut blocks: Vec<Block> = Vec::new();
    for call in &*calls {
        let mut block = Block { calls: 1, weight: call.weight, mean: call.time };
        while let Some(before) = blocks.pop_if(|before| before.mean > block.mean) {
            let weight = before.weight + block.weight;
            let mean = before.mean + (block.mean - before.mean) * (block.weight / weight);
            block = Block { calls: before.calls + block.calls, weight, mean };
        }
        blocks.push(block);
    }
    let mut rest = calls.iter_mut();
    for block in blocks {
        let time = block.mean;
        rest.by_ref().take(block.calls).for_each(|call| call.time = time);
    }
}

/// A clock that goes through some points, both of whose numbers never go back, and is near the frames in between.
fn through(frames: &[FrameTime], points: &[CycleTime]) -> ThreadClock {
    let ends = frames
        .iter()
        .flat_map(|FrameTime { cycles, wall_ns }| [[cycles.min, wall_ns.min], [cycles.max, wall_ns.max]]);
    let mut all: Vec<CycleTime> = Vec::new();
    let mut points = points.iter().copied().peekable();
    for [cycle, time] in ends {
        while let Some(point) = points.next_if(|[known, _]| *known <= cycle) {
            all.push(point);
        }
        // Not before the last point, nor after the next one.
        let earliest = all.last().map_or(0, |[_, time]| *time);
        let latest = points.peek().map_or(u64::MAX, |[_, time]| *time);
        all.push([cycle, time.min(latest).max(earliest)]);
    }
    all.extend(points);
    let between = |pair: &[CycleTime]| {
        let [[from, begin], [to, end]] = [pair[0], pair[1]];
        FrameTime { cycles: Interval { min: from, max: to }, wall_ns: Interval { min: begin, max: end } }
    };
    ThreadClock::of_frames(all.windows(2).map(between).collect())
}

/// At most so many and one more, the first and the last among them.
fn some_of<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let last = all.len().saturating_sub(1);
    let step = all.len().div_ceil(most.max(1)).max(1);
    all.iter()
        .enumerate()
        .filter(move |(number, _)| number % step == 0 || *number == last)
        .map(|(_, one)| one)
}

/// Where cycles of a thread are on an axis.
pub(crate) struct Moments<'a> {
    axis: TimeAxis,
    clock: Option<(u64, ClockCursor<'a>)>,
}

impl Moments<'_> {
    /// As [`TraceMap::when`].
    #[inline]
    pub(crate) fn when(&mut self, cycle: u64) -> u64 {
        match (self.axis, &mut self.clock) {
            (TimeAxis::Cycles, _) => cycle,
            (TimeAxis::Time, Some((first, clock))) => {
                clock.at(cycle).map_or(0, |time| time.saturating_sub(*first))
            }
            (TimeAxis::Time, None) => 0,
        }
    }
}

impl TraceMap {
    /// Where a cycle of a thread is on an axis.
    pub(crate) fn when(&self, axis: TimeAxis, thread: ThreadId, cycle: u64) -> u64 {
        match (axis, &self.clock) {
            (TimeAxis::Time, Some(clock)) => clock.at(thread, cycle),
            _ => cycle,
        }
    }

    /// Where cycles of a thread are on an axis, for many of them.
    pub(crate) fn moments(&self, axis: TimeAxis, thread: ThreadId) -> Moments<'_> {
        let clock = self.clock.as_ref().filter(|_| axis == TimeAxis::Time);
        Moments {
            clock: clock.and_then(|clock| Some((clock.first, clock.threads.get(&thread)?.cursor()))),
            axis,
        }
    }

    /// The stretch of an axis that some cycles of a thread have.
    pub(crate) fn stretch(&self, axis: TimeAxis, thread: ThreadId, cycles: &Range<u64>) -> Range<u64> {
        match (axis, &self.clock) {
            (TimeAxis::Time, Some(clock)) => {
                let start = clock.at(thread, cycles.start);
                start..clock.at(thread, cycles.end.saturating_sub(1)).max(start).saturating_add(1)
            }
            _ => cycles.clone(),
        }
    }

    /// The cycles of a thread that are in a part.
    pub(crate) fn cycles_of(&self, part: &MapPart, thread: ThreadId) -> Range<u64> {
        match (part.axis, &self.clock) {
            (TimeAxis::Time, Some(clock)) => clock.cycles(thread, &part.span),
            _ => part.span.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn frame(cycles: [u64; 2], wall_ns: [u64; 2]) -> FrameTime {
        let interval = |[min, max]: [u64; 2]| Interval { min, max };
        FrameTime { cycles: interval(cycles), wall_ns: interval(wall_ns) }
    }

    #[test]
    fn times_that_go_back_become_their_mean() {
        let check = |times: &[(f64, f64)], expect: &[f64]| {
            let call = |(number, &(time, weight)): (usize, &(f64, f64))| OrderedCall {
                order: number as Order,
                thread: ThreadId(0),
                cycle: 0,
                time,
                weight,
            };
            let mut calls: Vec<OrderedCall> = times.iter().enumerate().map(call).collect();
            never_back(&mut calls);
            let found: Vec<f64> = calls.iter().map(|call| call.time).collect();
            assert_eq!(found, expect);
        };
        check(&[], &[]);
        check(&[(1.0, 1.0), (2.0, 1.0), (2.0, 1.0), (3.0, 1.0)], &[1.0, 2.0, 2.0, 3.0]);
        check(&[(1.0, 1.0), (9.0, 1.0), (3.0, 1.0), (12.0, 1.0)], &[1.0, 6.0, 6.0, 12.0]);
        check(&[(9.0, 1.0), (6.0, 1.0), (3.0, 1.0)], &[6.0, 6.0, 6.0]);
        // What more is known of stays nearer to where it was.
        check(&[(1.0, 1.0), (9.0, 1.0), (3.0, 3.0), (4.0, 1.0)], &[1.0, 4.4, 4.4, 4.4]);
    }

    proptest! {
        /// Nothing goes back, and what did not is as it was.
        #[test]
        fn a_clock_through_points_never_goes_back(
            frames in vec((1..50_u64, 0..90_u64, 0..90_u64), 1..5),
            points in vec((0..40_u64, 0..90_u64), 0..8),
        ) {
            let (mut cycle, mut time) = (0, 0);
            let mut next = |cycles: u64, times: u64| {
                cycle += cycles;
                time += times;
                [cycle, time]
            };
            let points: Vec<CycleTime> = points.into_iter().map(|(cycles, times)| next(cycles, times)).collect();
            let (mut cycle, mut begin) = (0, 0);
            let frames: Vec<FrameTime> = frames
                .into_iter()
                .map(|(cycles, wait, long)| {
                    let one = frame([cycle, cycle + cycles], [begin + wait, begin + wait + long]);
                    (cycle, begin) = (cycle + cycles + 1, begin + wait + long);
                    one
                })
                .collect();
            let clock = through(&frames, &points);
            let times: Vec<u64> = (0..600).map(|cycle| clock.at(cycle).unwrap()).collect();
            prop_assert!(times.is_sorted(), "{:?}", times);
            if points.is_empty() {
                let as_it_was = ThreadClock::of_frames(frames);
                for cycle in 0..600 {
                    prop_assert!(clock.at(cycle) <= as_it_was.at(cycle));
                }
            }
            for [cycle, time] in &points {
                let cycles: Vec<u64> = points.iter().filter(|point| point[0] == *cycle).map(|point| point[1]).collect();
                let at = clock.at(*cycle).unwrap();
                prop_assert!(at <= *cycles.last().unwrap() && (cycles.len() > 1 || at == *time), "{} {}", cycle, time);
            }
        }
    }

    #[test]
    fn of_many_some_are_taken() {
        let check = |count: usize, most, expect: &[usize]| {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!(some_of(&all, most).copied().collect::<Vec<_>>(), expect, "{count} {most}");
        };
        check(0, 5, &[]);
        check(1, 5, &[0]);
        check(5, 5, &[0, 1, 2, 3, 4]);
        check(10, 3, &[0, 4, 8, 9]);
    }
}

//! About when cycles of a thread were, for the axis of the map. A trace has times for frames, and not for what is in them: from
//! when on the first access of a frame could have been made, and when the frame was stored. Between these, and between frames,
//! the page takes the clock to go evenly with the cycles.
//!
//! Traces whose frames begin when the recorder saw them have no times here: a thread that slept would seem not to have.

use std::collections::BTreeMap;

use memref::ThreadId;
use trace_format::{Filter, Interval, Trace};

/// Frames of a thread whose times the page has.
const MOST_FRAMES: usize = 200;

/// A cycle, and when it was.
pub(crate) type CycleTime = [u64; 2];

/// Cycles of each thread with their times, ns since the first one of all. Nothing where the trace does not tell.
pub(crate) fn times_of(
    trace: &Trace,
    threads: impl Iterator<Item = ThreadId>,
) -> BTreeMap<ThreadId, Vec<CycleTime>> {
    if !trace.frames_begin_with_accesses() {
        return BTreeMap::new();
    }
    let of_thread = |thread| {
        let frames = trace.shard(thread).access_frames(&Filter::default());
        let bounds = frames.iter().map(|frame| (frame.bounds.cycles, frame.bounds.wall_ns));
        points(bounds.filter(|(cycles, wall_ns)| !cycles.is_none() && !wall_ns.is_none()), MOST_FRAMES)
    };
    let mut times: BTreeMap<ThreadId, Vec<CycleTime>> =
        threads.map(|thread| (thread, of_thread(thread))).collect();
    let first = times.values().flatten().map(|[_, time]| *time).min().unwrap_or(0);
    times.values_mut().flatten().for_each(|[_, time]| *time -= first);
    times
}

/// The ends of at most so many frames and one more, the first and the last among them. Neither cycles nor times go back.
fn points(bounds: impl Iterator<Item = (Interval, Interval)>, most: usize) -> Vec<CycleTime> {
    let mut frames: Vec<(Interval, Interval)> = Vec::new();
    for (cycles, mut wall_ns) in bounds {
        if let Some((_, before)) = frames.last_mut() {
            wall_ns.min = wall_ns.min.max(before.min);
            wall_ns.max = wall_ns.max.max(wall_ns.min);
            // All of a frame came before the first of the next one, however late it was stored.
            before.max = before.max.min(wall_ns.min);
        }
        frames.push((cycles, wall_ns));
    }
    let last = frames.len().saturating_sub(1);
    let step = frames.len().div_ceil(most.max(1)).max(1);
    let kept = frames.iter().enumerate().filter(|(number, _)| number % step == 0 || *number == last);
    kept.flat_map(|(_, (cycles, wall_ns))| [[cycles.min, wall_ns.min], [cycles.max, wall_ns.max]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frames: &[[u64; 4]], most: usize, expect: &[CycleTime]) {
        let interval = |min, max| Interval { min, max };
        let bounds = frames.iter().map(|&[from, to, begin, end]| (interval(from, to), interval(begin, end)));
        assert_eq!(points(bounds, most), expect, "{frames:?}");
    }

    #[test]
    fn points_are_ends_of_frames() {
        check(&[], 5, &[]);
        check(&[[0, 100, 1_000, 3_000]], 5, &[[0, 1_000], [100, 3_000]]);
        let ten: Vec<[u64; 4]> = (0..10).map(|n| [10 * n, 10 * n + 9, n, n + 1]).collect();
        let few = [[0, 0], [9, 1], [40, 4], [49, 5], [80, 8], [89, 9], [90, 9], [99, 10]];
        check(&ten, 3, &few);
    }

    #[test]
    fn a_frame_that_was_stored_late_ends_before_the_next_one() {
        let frames = [[0, 100, 1_000, 3_000], [101, 101, 2_000, 2_500]];
        check(&frames, 5, &[[0, 1_000], [100, 2_000], [101, 2_000], [101, 2_500]]);
    }

    #[test]
    fn times_do_not_go_back_where_the_clock_did() {
        let frames = [[0, 9, 1_000, 1_100], [10, 19, 500, 600], [20, 29, 700, 1_300]];
        check(&frames, 5, &[[0, 1_000], [9, 1_000], [10, 1_000], [19, 1_000], [20, 1_000], [29, 1_300]]);
    }
}

//! Which frames a scan of accesses reads, and how it is divided into parts that can be read in parallel.

use analysis::ThreadPart;
use trace_format::Trace;

use crate::Scan;

/// A part of a scan. Parts are read on their own, in any order, by any thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPart {
    /// Which accesses; of other tables nothing.
    pub(crate) threads: Vec<ThreadPart>,
}

impl ScanPart {
    /// These accesses of these threads.
    pub fn of(threads: Vec<ThreadPart>) -> Self {
        Self { threads }
    }

    /// Which accesses of which threads; none of other tables, which are not cut.
    pub fn threads(&self) -> &[ThreadPart] {
        &self.threads
    }

    /// All of a table that is not cut.
    pub(crate) fn whole() -> Self {
        Self { threads: Vec::new() }
    }
}

/// What a scan of accesses will read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramePlan {
    /// Frames of accesses in the trace.
    pub frames: u64,
    /// Those of them that are decoded.
    pub frames_read: u64,
    /// Accesses in all of them, as their headers say.
    pub accesses: u64,
    /// Accesses in those that are decoded.
    pub accesses_read: u64,
}

impl std::ops::AddAssign for FramePlan {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.frames_read += other.frames_read;
        self.accesses += other.accesses;
        self.accesses_read += other.accesses_read;
    }
}

impl FramePlan {
    /// Frames that are skipped by their headers and by the page index.
    pub fn frames_skipped(&self) -> u64 {
        self.frames - self.frames_read
    }

    pub(crate) fn of(trace: &Trace, scan: &Scan) -> Self {
        let mut plan = Self::default();
        for record in trace.threads() {
            for frame in trace.shard(record.thread).access_frames(&scan.filter) {
                let accesses = frame.accesses.end - frame.accesses.start;
                plan.frames += 1;
                plan.accesses += accesses;
                if frame.is_read && scan.has_thread(record.thread) {
                    plan.frames_read += 1;
                    plan.accesses_read += accesses;
                }
            }
        }
        plan
    }
}

/// Cuts the frames that are read into at most `most` parts of about as many accesses.
pub(crate) fn cut(trace: &Trace, scan: &Scan, most: usize) -> Vec<ScanPart> {
    let total = FramePlan::of(trace, scan).accesses_read;
    let share = total.div_ceil(most.max(1) as u64).max(1);
    let mut parts = Vec::new();
    let mut part: Vec<ThreadPart> = Vec::new();
    let mut filled = 0;
    for record in trace.threads().iter().filter(|record| scan.has_thread(record.thread)) {
        let mut run: Option<ThreadPart> = None;
        for frame in trace.shard(record.thread).access_frames(&scan.filter) {
            if !frame.is_read {
                continue;
            }
            if filled >= share {
                part.extend(run.take());
                parts.push(ScanPart { threads: std::mem::take(&mut part) });
                filled = 0;
            }
            filled += frame.accesses.end - frame.accesses.start;
            let started = run.get_or_insert_with(|| ThreadPart {
                thread: record.thread,
                accesses: frame.accesses.clone(),
            });
            started.accesses.end = frame.accesses.end;
        }
        part.extend(run);
    }
    if !part.is_empty() || parts.is_empty() {
        parts.push(ScanPart { threads: part });
    }
    parts
}

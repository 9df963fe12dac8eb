//! What is missing from a trace, by thread and cycle. The map hatches
//! it, since an empty place there does not mean that nothing happened.

use std::ops::Range;

use analysis::Session;
use memref::{Event, GapReason, ProcessId, ThreadId};
use serde_json::{Value, json};
use trace_format::{Batch, Filter, KindSet};

use crate::frames::MapFrame;

/// Stretches that are told one by one at most; what follows is told as one.
const MOST: usize = 2_000;

/// Events of a thread that are known to be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingStretch {
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
    pub(crate) cycles: Range<u64>,
    pub(crate) count: u64,
    pub(crate) why: &'static str,
}

impl MissingStretch {
    pub(crate) fn json(&self) -> Value {
        json!({
            "process": self.process.0,
            "thread": self.thread.0,
            "from": self.cycles.start,
            "to": self.cycles.end,
            "count": self.count,
            "why": self.why,
        })
    }
}

/// All of a trace, as far as is known without reading its accesses.
pub(crate) fn missing(
    session: &Session,
    frames: &[MapFrame],
) -> Result<Vec<MissingStretch>, trace_format::Error> {
    let mut all = of_frames(frames);
    for record in session.trace().threads() {
        let filter = Filter { kinds: KindSet::GAPS, ..Filter::default() };
        let mut cursor = session.trace().shard(record.thread).events(&filter);
        while let Some(batch) = cursor.next_batch()? {
            if let Batch::Event(Event::Gap(gap)) = batch
                && gap.reason != GapReason::DamagedFrame
            {
                all.push(MissingStretch {
                    process: record.process,
                    thread: record.thread,
                    cycles: gap.cycle..gap.cycle.saturating_add(1),
                    count: gap.count,
                    why: gap.reason.name(),
                });
            }
        }
    }
    all.sort_by_key(|stretch| (stretch.thread, stretch.cycles.start));
    while all.len() > MOST {
        let last = all.remove(all.len() - 1);
        let before = &mut all[MOST - 1];
        before.cycles.end = before.cycles.end.max(last.cycles.end);
        before.count = before.count.saturating_add(last.count);
    }
    Ok(all)
}

/// Frames that can't be read, and those that are not there.
fn of_frames(frames: &[MapFrame]) -> Vec<MissingStretch> {
    let mut all = Vec::new();
    let mut before: Option<&MapFrame> = None;
    for frame in frames {
        let last = before.filter(|last| last.thread == frame.thread);
        let next_entry = last.map_or(0, |last| last.entries.end);
        let stretch = |cycles: Range<u64>, count, why| MissingStretch {
            process: frame.process,
            thread: frame.thread,
            cycles,
            count,
            why,
        };
        if frame.entries.start > next_entry {
            let from = last.map_or(0, |last| last.cycles.end).min(frame.cycles.start);
            let cycles = from..frame.cycles.start.max(from + 1);
            all.push(stretch(cycles, frame.entries.start - next_entry, "missing frame"));
        }
        if frame.unreadable {
            let count = frame.entries.end - frame.entries.start;
            all.push(stretch(frame.cycles.clone(), count, GapReason::DamagedFrame.name()));
        }
        before = Some(frame);
    }
    all
}

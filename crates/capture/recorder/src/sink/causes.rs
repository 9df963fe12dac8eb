//! Why events are missing, in words. The first event of each cause is written at once, because
//! the recorder may die at any time; the number of further ones is written at the end.

use std::collections::BTreeMap;

use memref::{GapReason, ProcessId, VirtAddr};
use trace_format::{COUNTER_GAP_CAUSE, CounterRecord, Error, TraceWriter};

use crate::GapCause;

/// A process's thread ended without its last buffer.
pub(super) const LOST_BUFFER: &str = "a thread ended before its last buffer was complete";
/// What a buffer held can't be what was written into it.
pub(super) const OVERWRITTEN: &str = "a buffer that the program wrote into, or that was never completed";

/// Causes that are told apart; programs that do strange things in ever new ways have no more.
const MAX_CAUSES: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CauseKey {
    reason: GapReason,
    cause: String,
}

#[derive(Clone, Copy, Debug)]
struct CauseCount {
    process: ProcessId,
    count: u64,
    /// Of them in the trace.
    written: u64,
}

/// The causes of a recording's missing events.
#[derive(Debug, Default)]
pub(super) struct GapCauses(BTreeMap<CauseKey, CauseCount>);

impl GapCauses {
    /// Events are missing for a reason, and a cause; an empty one is not known.
    pub(super) fn add(
        &mut self,
        trace: &mut TraceWriter,
        process: ProcessId,
        (reason, cause): (GapReason, &str),
        count: u64,
    ) -> Result<(), Error> {
        if cause.is_empty() {
            return Ok(());
        }
        let key = CauseKey { reason, cause: cause.to_owned() };
        if let Some(known) = self.0.get_mut(&key) {
            known.count += count;
            return Ok(());
        }
        if self.0.len() < MAX_CAUSES {
            write(trace, process, &key, count)?;
            self.0.insert(key, CauseCount { process, count, written: count });
        }
        Ok(())
    }

    /// Writes what came later.
    pub(super) fn finish(&mut self, trace: &mut TraceWriter) -> Result<(), Error> {
        for (key, known) in &mut self.0 {
            let rest = known.count - known.written;
            if rest > 0 {
                write(trace, known.process, key, rest)?;
                known.written = known.count;
            }
        }
        Ok(())
    }

    pub(super) fn list(&self) -> Vec<GapCause> {
        let cause = |(key, known): (&CauseKey, &CauseCount)| GapCause {
            reason: key.reason,
            cause: key.cause.clone(),
            count: known.count,
        };
        self.0.iter().map(cause).collect()
    }
}

fn write(trace: &mut TraceWriter, process: ProcessId, key: &CauseKey, count: u64) -> Result<(), Error> {
    trace.add_counter(&CounterRecord {
        process,
        thread: None,
        ip: VirtAddr(0),
        code: COUNTER_GAP_CAUSE,
        count,
        name: format!("{}: {}", key.reason.name(), key.cause),
    })
}

//! The values that the accesses of a replay read or wrote, if they were
//! recorded (`record --data`). The replay itself delivers accesses only.

use memref::{Access, ThreadId};
use rustc_hash::FxHashMap;
use trace_format::{DataAccess, DataCursor, Filter, Trace};

use crate::Error;

/// Goes through the values of all threads beside a replay of all accesses.
#[derive(Debug)]
pub(super) struct AccessValues {
    trace: Trace,
    threads: FxHashMap<ThreadId, ThreadValues>,
}

#[derive(Debug)]
struct ThreadValues {
    cursor: DataCursor,
    block: Vec<DataAccess>,
    passed: usize,
}

impl AccessValues {
    /// Nothing where the trace has no values.
    pub(super) fn of(trace: &Trace) -> Option<Self> {
        trace.has_data().then(|| Self { trace: trace.clone(), threads: FxHashMap::default() })
    }

    /// Gives the bytes of the thread's next accesses, each in its turn; nothing where they were not recorded. False where these are not
    /// its next ones, and from then on.
    pub(super) fn next(
        &mut self,
        thread: ThreadId,
        accesses: &[Access],
        mut each: impl FnMut(&Access, Option<&[u8]>),
    ) -> Result<bool, Error> {
        let trace = &self.trace;
        let values = self.threads.entry(thread).or_insert_with(|| ThreadValues {
            cursor: trace.shard(thread).data_accesses(&Filter::default()),
            block: Vec::new(),
            passed: 0,
        });
        for access in accesses {
            if values.passed == values.block.len() {
                values.block.clear();
                values.passed = 0;
                let Some(block) = values.cursor.next_block()? else { return Ok(false) };
                values.block.extend_from_slice(block);
            }
            let Some(entry) = values.block.get(values.passed).filter(|entry| entry.access == *access) else {
                return Ok(false);
            };
            values.passed += 1;
            match entry.value_bytes {
                0 => each(access, None),
                bytes @ 1..=8 => each(access, Some(&entry.value.to_le_bytes()[..bytes.into()])),
                _ => {
                    let bytes = values.cursor.bytes(entry)?;
                    each(access, bytes.as_deref());
                }
            }
        }
        Ok(true)
    }
}

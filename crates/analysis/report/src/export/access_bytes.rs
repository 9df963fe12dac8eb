//! The bytes that accesses loaded and stored, in step with the events.

use std::collections::{HashMap, VecDeque};

use analysis::Session;
use memref::ThreadId;
use trace_format::{DataAccess, DataCursor, Filter, KindSet};

use crate::Error;

/// The bytes of each thread's accesses. Empty for a trace without data.
#[derive(Debug, Default)]
pub struct AccessBytes {
    threads: HashMap<ThreadId, ThreadBytes>,
}

#[derive(Debug)]
struct ThreadBytes {
    cursor: DataCursor,
    waiting: VecDeque<DataAccess>,
}

impl AccessBytes {
    /// Those of the accesses that match.
    pub(super) fn of(session: &Session, filter: &Filter) -> Self {
        let mut bytes = Self::default();
        if session.trace().has_data() {
            // As the replay reads the same accesses.
            let filter = Filter { kinds: KindSet(filter.kinds.0 & KindSet::ACCESSES.0), ..filter.clone() };
            for record in session.trace().threads() {
                let cursor = session.trace().shard(record.thread).data_accesses(&filter);
                bytes.threads.insert(record.thread, ThreadBytes { cursor, waiting: VecDeque::new() });
            }
        }
        bytes
    }

    /// The bytes of the thread's next access, lowest address first; `None` where they were not recorded. To be called once
    /// for each access.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn next(&mut self, thread: ThreadId) -> Result<Option<Vec<u8>>, Error> {
        let Some(ThreadBytes { cursor, waiting }) = self.threads.get_mut(&thread) else { return Ok(None) };
        if waiting.is_empty()
            && let Some(block) = cursor.next_block()?
        {
            waiting.extend(block);
        }
        let Some(entry) = waiting.pop_front() else { return Ok(None) };
        Ok(cursor.bytes(&entry)?)
    }
}

//! Buffers of translated threads that also record the bytes of accesses: one access at a time, with what it read or wrote.

use blocks::MAX_VALUES;
use buffers::flow::{Entries, Entry, EntryHeader};
use buffers::{Record, Records};
use memref::Access;
use trace_format::Error;

use super::thread::{LastBlock, TracedThread};
use super::{Sink, WAITING_ACCESSES};
use crate::sink::session_blocks::ExecutableBlocks;

/// Accesses that wait to be written, and where their bytes end among those of all.
#[derive(Debug, Default)]
struct Waiting {
    accesses: Vec<(Access, u32)>,
    bytes: Vec<u8>,
}

impl Waiting {
    fn push(&mut self, access: Access, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.accesses.push((access, self.bytes.len() as u32));
    }

    fn pop(&mut self) {
        self.accesses.pop();
        self.bytes.truncate(self.accesses.last().map_or(0, |last| last.1 as usize));
    }
}

impl Sink<'_> {
    /// As `flow_accesses`, with the bytes of accesses.
    pub(super) fn flow_data(
        &mut self,
        thread: &mut TracedThread,
        entries: &mut Entries<'_>,
        known: &ExecutableBlocks,
    ) -> Result<(), Error> {
        let mut waiting = Waiting::default();
        let mut words = [0u64; MAX_VALUES];
        while let Some(entry) = entries.next_entry() {
            match entry {
                Entry::Instructions(count) => {
                    thread.cycle += count;
                    if count > 0 {
                        thread.last = None;
                    }
                }
                Entry::Block(EntryHeader { id, after }) => {
                    let Some(block) = known.get(id) else {
                        entries.end_here();
                        break;
                    };
                    let Some(payload) = entries.values(block.values()) else { break };
                    thread.enter(known, id)?;
                    for (word, bytes) in words.iter_mut().zip(payload) {
                        *word = u64::from_le_bytes(*bytes);
                    }
                    if waiting.accesses.len() >= WAITING_ACCESSES {
                        self.push_data(thread, &mut waiting)?;
                    }
                    let orders = block.orders(payload);
                    if let Some([before, _]) = orders {
                        self.push_data(thread, &mut waiting)?;
                        thread.mark(thread.cycle, before)?;
                    }
                    let (first, from) = (waiting.accesses.len(), thread.cycle);
                    block.expand_data(from, &words, thread.base, |access, bytes| waiting.push(access, bytes));
                    thread.last = Some(LastBlock { first, from, instructions: block.instructions() });
                    let left = from + u64::from(block.instructions());
                    thread.cycle = left + after;
                    if let Some([_, last]) = orders {
                        self.push_data(thread, &mut waiting)?;
                        thread.mark(left, last)?;
                    }
                }
                Entry::Cut(executed, _) => {
                    let Some((first, end)) = thread.cut(executed) else { continue };
                    while waiting.accesses.len() > first
                        && waiting.accesses.last().is_some_and(|(access, _)| access.cycle >= end)
                    {
                        waiting.pop();
                    }
                }
                Entry::Record(payload) => {
                    for record in Records::new(payload).map_while(Result::ok) {
                        match (&record, record.access(thread.cycle)) {
                            (Record::Data { bytes, .. }, Some(access)) => waiting.push(access, bytes),
                            (_, Some(access)) => waiting.push(access, &[]),
                            (Record::ThreadBase { addr }, _) => thread.base = addr.0,
                            _ => {
                                self.push_data(thread, &mut waiting)?;
                                let cycle = thread.cycle;
                                self.record(thread, &record)?;
                                // Here a cycle is an instruction, not an event.
                                thread.cycle = cycle;
                            }
                        }
                    }
                    thread.last = None;
                }
            }
        }
        self.push_data(thread, &mut waiting)
    }

    fn push_data(&mut self, thread: &mut TracedThread, waiting: &mut Waiting) -> Result<(), Error> {
        let mut start = 0;
        let mut accesses: Vec<(Access, std::ops::Range<usize>)> = waiting
            .accesses
            .drain(..)
            .map(|(access, end)| (access, std::mem::replace(&mut start, end as usize)..end as usize))
            .collect();
        if let Some(stretch) = &mut thread.stretch {
            stretch.record(accesses.iter().map(|(access, range)| (*access, &waiting.bytes[range.clone()])));
        }
        self.wanted.retain(thread.process, &mut accesses, |(access, _)| access);
        self.totals.accesses += accesses.len() as u64;
        for (access, bytes) in accesses {
            thread.shard.push_with_bytes(&access, &waiting.bytes[bytes])?;
        }
        waiting.bytes.clear();
        thread.last = None;
        Ok(())
    }
}

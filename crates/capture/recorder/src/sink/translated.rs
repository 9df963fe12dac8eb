//! Buffers of translated threads: which blocks were executed, and with which values. Executions go into the thread's frame in one
//! pass over the buffer. They are expanded to accesses here only if the blocks themselves are not kept, or one was left halfway.

use blocks::{MAX_VALUES, SharedBlock};
use buffers::flow::{Entries, Entry, EntryHeader};
use buffers::{Record, Records};
use memref::{Access, GapReason, VirtAddr};
use trace_format::{BlockWriter, Error};

use super::causes::OVERWRITTEN;
use super::thread::{LastBlock, TracedThread};
use super::{Sink, WAITING_ACCESSES};
use crate::sink::session_blocks::ExecutableBlocks;

impl Sink<'_> {
    /// A buffer of a translated thread.
    pub(super) fn flow(&mut self, thread: &mut TracedThread, words: &[[u8; 8]]) -> Result<(), Error> {
        let known = self.blocks.of(thread.process);
        let mut entries = Entries::new(words);
        let mut result = if self.data {
            self.flow_data(thread, &mut entries, &known)
        } else {
            self.flow_accesses(thread, &mut entries, &known)
        };
        if result.is_ok() && entries.are_broken() {
            // What came after the entries that were found can't be.
            result = self.gap(thread, GapReason::Killed, 1, (VirtAddr(0), OVERWRITTEN));
        }
        result
    }

    fn flow_accesses(
        &mut self,
        thread: &mut TracedThread,
        entries: &mut Entries<'_>,
        known: &ExecutableBlocks,
    ) -> Result<(), Error> {
        let mut accesses = std::mem::take(&mut self.accesses);
        let result = self
            .entries_of(thread, entries, known, &mut accesses)
            // What a cut could take back does not reach over a buffer's end.
            .and_then(|()| self.push(thread, &mut accesses));
        accesses.clear();
        self.accesses = accesses;
        result
    }

    /// The entries of a buffer. `accesses` are those that wait to be pushed.
    fn entries_of(
        &mut self,
        thread: &mut TracedThread,
        entries: &mut Entries<'_>,
        known: &ExecutableBlocks,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        // What a block does not set is of another one: it does not look at that.
        let mut values = [0u64; MAX_VALUES];
        let shard = thread.shard.clone();
        // Holds the shard's lock: not while anything else is pushed.
        let mut writer = None;
        let by_blocks = self.wanted.are_all() && shard.blocks()?.is_some();
        while let Some(entry) = entries.next_entry() {
            match entry {
                Entry::Block(EntryHeader { id, after }) => {
                    let Some(block) = known.get(id) else {
                        entries.end_here();
                        break;
                    };
                    let Some(words) = entries.values(block.values()) else { break };
                    thread.enter(known, id)?;
                    let orders = block.orders(words);
                    if let Some([before, _]) = orders {
                        writer = None;
                        self.push(thread, accesses)?;
                        thread.mark(thread.cycle, before)?;
                    }
                    let left = thread.cycle + u64::from(block.instructions());
                    if by_blocks && thread.stretch.is_none() && !entries.is_cut() {
                        if writer.is_none() {
                            self.push(thread, accesses)?;
                            writer = shard.blocks()?;
                        }
                        if let Some(open) = &mut writer {
                            self.totals.accesses += push(open, thread, id, block, words)?;
                            thread.last = None;
                        }
                    } else {
                        writer = None;
                        if accesses.len() >= WAITING_ACCESSES {
                            self.push(thread, accesses)?;
                        }
                        expand(thread, block, words, &mut values, accesses);
                    }
                    thread.cycle = left + after;
                    if let Some([_, last]) = orders {
                        writer = None;
                        self.push(thread, accesses)?;
                        thread.mark(left, last)?;
                    }
                }
                Entry::Instructions(count) => {
                    thread.cycle += count;
                    if count > 0 {
                        thread.last = None;
                    }
                }
                Entry::Cut(executed, all) => {
                    if let Some((first, end)) = thread.cut(executed) {
                        while !all
                            && accesses.len() > first
                            && accesses.last().is_some_and(|access| access.cycle >= end)
                        {
                            accesses.pop();
                        }
                    }
                }
                Entry::Record(payload) => {
                    writer = None;
                    self.embedded(thread, payload, accesses)?;
                }
            }
        }
        Ok(())
    }

    /// Records among the blocks, up to the first one that is broken.
    fn embedded(
        &mut self,
        thread: &mut TracedThread,
        payload: &[u8],
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        thread.last = None;
        for record in Records::new(payload).map_while(Result::ok) {
            if let Some(access) = record.access(thread.cycle) {
                accesses.push(access);
                continue;
            }
            if let Record::ThreadBase { addr } = record {
                thread.base = addr.0;
                continue;
            }
            self.push(thread, accesses)?;
            let cycle = thread.cycle;
            self.record(thread, &record)?;
            // Here a cycle is an instruction, not an event.
            thread.cycle = cycle;
        }
        Ok(())
    }

    /// Hands accesses that wait to the shard, as far as they are wanted.
    fn push(&mut self, thread: &mut TracedThread, accesses: &mut Vec<Access>) -> Result<(), Error> {
        if let Some(stretch) = &mut thread.stretch {
            stretch.record(accesses.iter().map(|access| (*access, &[][..])));
        }
        self.wanted.retain(thread.process, accesses, |access| access);
        if !accesses.is_empty() {
            self.totals.accesses += accesses.len() as u64;
            thread.shard.push_accesses(accesses)?;
            accesses.clear();
        }
        thread.last = None;
        Ok(())
    }
}

/// Keeps an execution of a block as it is. How many accesses it made.
#[inline]
fn push(
    writer: &mut BlockWriter<'_>,
    thread: &TracedThread,
    id: u32,
    block: &SharedBlock,
    words: &[[u8; 8]],
) -> Result<u64, Error> {
    writer.push(id, block, thread.cycle, words, thread.base)
}

/// The accesses of one execution of a block.
#[inline]
fn expand(
    thread: &mut TracedThread,
    block: &SharedBlock,
    words: &[[u8; 8]],
    values: &mut [u64; MAX_VALUES],
    accesses: &mut Vec<Access>,
) {
    for (value, word) in values.iter_mut().zip(words) {
        *value = u64::from_le_bytes(*word);
    }
    let (first, from) = (accesses.len(), thread.cycle);
    block.expand(from, values, thread.base, accesses);
    thread.last = Some(LastBlock { first, from, instructions: block.instructions() });
}

//! Buffers of translated threads: which blocks were executed, and with what values. Accesses follow from that, unless the
//! blocks themselves are kept.

use blocks::{MAX_VALUES, SharedBlock};
use buffers::flow::{Entry, EntryPlace, entry};
use buffers::{Record, Records};
use memref::{Access, GapReason, VirtAddr};
use trace_format::{BlockWriter, Error};

use super::causes::OVERWRITTEN;
use super::thread::{LastBlock, TracedThread};
use super::{Sink, WAITING_ACCESSES};
use crate::read_buffer::ReadBuffer;
use crate::session_blocks::ExecutableBlocks;

impl Sink<'_> {
    /// A buffer of a translated thread.
    pub(super) fn flow(&mut self, thread: &mut TracedThread, mut buffer: ReadBuffer) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let known = blocks.of(thread.process);
        let are_runs = thread.flow.is_none() && !self.data && self.wanted.are_all();
        let result = match thread.shard.blocks().map(|writer| writer.is_some()) {
            Ok(true) if are_runs => self.flow_runs(thread, buffer, &known),
            Ok(_) => self.flow_entries(thread, &mut buffer, &known),
            Err(error) => Err(error),
        };
        drop(known);
        self.blocks = blocks;
        result
    }

    /// As [`Self::flow_runs`], where something must be done for each execution.
    fn flow_entries(
        &mut self,
        thread: &mut TracedThread,
        buffer: &mut ReadBuffer,
        known: &ExecutableBlocks<'_>,
    ) -> Result<(), Error> {
        let Some((words, places)) = buffer.parts() else { return Ok(()) };
        if !places.find(words, |id| known.values(id)) {
            // What comes before the entries that were found can't be.
            self.gap(thread, GapReason::Killed, 1, (VirtAddr(0), OVERWRITTEN))?;
        }
        if self.data {
            return self.flow_data(thread, words, known, places);
        }
        let mut accesses = std::mem::take(&mut self.accesses);
        let result = self
            .flow_accesses(thread, words, known, places.iter(), &mut accesses)
            // What a cut could take back does not reach over a buffer's end.
            .and_then(|()| self.push(thread, &mut accesses));
        accesses.clear();
        self.accesses = accesses;
        result
    }

    /// Some of the entries of a buffer. `accesses` are those that wait to be pushed.
    pub(super) fn flow_accesses(
        &mut self,
        thread: &mut TracedThread,
        buffer: &[[u8; 8]],
        known: &ExecutableBlocks<'_>,
        places: impl Iterator<Item = EntryPlace>,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        // What a block does not set is of another one: it does not look at that.
        let mut values = [0u64; MAX_VALUES];
        let shard = thread.shard.clone();
        // Holds the shard's lock: not while anything else is pushed.
        let mut writer = None;
        let by_blocks = self.wanted.are_all() && shard.blocks()?.is_some();
        for place in places {
            match entry(buffer, place) {
                Some(Entry::Block(id, words, after)) => {
                    let Some(block) = known.get(id) else { continue };
                    thread.enter(known, id)?;
                    // Before anything else is looked at: this is what nearly all entries are.
                    if let Some(open) = &mut writer
                        && !place.is_cut
                        && block.has_no_orders()
                    {
                        self.totals.accesses += push(open, thread, id, block, words)?;
                        thread.cycle += u64::from(block.instructions()) + after;
                        continue;
                    }
                    let orders = block.orders(words);
                    if let Some([before, _]) = orders {
                        writer = None;
                        self.push(thread, accesses)?;
                        thread.mark(thread.cycle, before)?;
                    }
                    let left = thread.cycle + u64::from(block.instructions());
                    if by_blocks && thread.stretch.is_none() && !place.is_cut {
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
                Some(Entry::Instructions(count)) => {
                    thread.cycle += count;
                    if count > 0 {
                        thread.last = None;
                    }
                }
                Some(Entry::Cut(executed, all)) => {
                    if let Some((first, end)) = thread.cut(executed) {
                        while !all
                            && accesses.len() > first
                            && accesses.last().is_some_and(|access| access.cycle >= end)
                        {
                            accesses.pop();
                        }
                    }
                }
                Some(Entry::Record(payload)) => {
                    writer = None;
                    self.embedded(thread, payload, accesses)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Records among the blocks, up to the first one that is broken.
    pub(super) fn embedded(
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
    pub(super) fn push(
        &mut self,
        thread: &mut TracedThread,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
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

//! Buffers of translated threads: which blocks were executed, and with what values. Accesses follow from that, unless the
//! blocks themselves are kept.

use blocks::{BasicBlock, MAX_VALUES};
use buffers::flow::{Entry, entry, find_entries, is_cut_or_empty};
use buffers::{Record, Records};
use memref::{Access, GapReason, VirtAddr};
use trace_format::Error;

use super::thread::{LastBlock, TracedThread};
use super::{EntryBytes, Sink, WAITING_ACCESSES};
use crate::session_blocks::SessionBlocks;

impl Sink<'_> {
    /// A buffer of a translated thread.
    pub(super) fn flow(&mut self, thread: &mut TracedThread, bytes: &[u8]) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let result = if self.data {
            self.flow_data(thread, bytes, &blocks)
        } else {
            let mut places = std::mem::take(&mut self.places);
            let mut accesses = std::mem::take(&mut self.accesses);
            let result = self.flow_with(thread, bytes, &blocks, &mut places, &mut accesses);
            accesses.clear();
            (self.places, self.accesses) = (places, accesses);
            result
        };
        self.blocks = blocks;
        result
    }

    /// The entries of a buffer, the first one last. `places` and `accesses` are empty room.
    fn flow_with(
        &mut self,
        thread: &mut TracedThread,
        bytes: &[u8],
        blocks: &SessionBlocks,
        places: &mut Vec<EntryBytes>,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        let known = blocks.of(thread.process);
        places.clear();
        let mut note = |start, end| places.push(EntryBytes { start: start as u32, end: end as u32 });
        if !find_entries(bytes, |id| known.values(id), &mut note) {
            // What comes before it can't be found.
            self.gap(thread, GapReason::Killed, 1, VirtAddr(0))?;
        }
        // What a block does not set is of another one: it does not look at that.
        let mut values = [0u64; MAX_VALUES];
        let shard = thread.shard.clone();
        // Holds the shard's lock: not while anything else is pushed.
        let mut writer = None;
        let by_blocks = self.wanted.are_all() && shard.blocks()?.is_some();
        for (place, &EntryBytes { start, end }) in places.iter().enumerate().rev() {
            match entry(bytes, start as usize, end as usize) {
                Some(Entry::Instructions(count)) => {
                    thread.cycle += count;
                    if count > 0 {
                        thread.last = None;
                    }
                }
                Some(Entry::Block(id, words, after)) => {
                    let Some(block) = known.get(id) else { continue };
                    thread.enter(&known, id)?;
                    let orders = block.orders(words.as_chunks().0);
                    if let Some([before, _]) = orders {
                        writer = None;
                        self.push(thread, accesses)?;
                        thread.mark(thread.cycle, before)?;
                    }
                    let left = thread.cycle + u64::from(block.instructions());
                    if by_blocks && thread.stretch.is_none() && !is_cut(bytes, &places[..place]) {
                        if !accesses.is_empty() {
                            writer = None;
                            self.push(thread, accesses)?;
                        }
                        if writer.is_none() {
                            writer = shard.blocks()?;
                        }
                        if let Some(open) = &mut writer {
                            let words = words.as_chunks().0;
                            let count = open.push(id, block, thread.cycle, words, thread.base)?;
                            self.totals.accesses += count;
                            thread.last = None;
                            thread.cycle = left + after;
                            if let Some([_, last]) = orders {
                                writer = None;
                                thread.mark(left, last)?;
                            }
                            continue;
                        }
                    }
                    writer = None;
                    if accesses.len() >= WAITING_ACCESSES {
                        self.push(thread, accesses)?;
                    }
                    expand(thread, block, words, &mut values, accesses);
                    thread.cycle = left + after;
                    if let Some([_, last]) = orders {
                        self.push(thread, accesses)?;
                        thread.mark(left, last)?;
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
        drop(writer);
        // What a cut could take back does not reach over a buffer's end.
        thread.last = None;
        self.push(thread, accesses)
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

/// The accesses of one execution of a block.
#[inline]
fn expand(
    thread: &mut TracedThread,
    block: &BasicBlock,
    words: &[u8],
    values: &mut [u64; MAX_VALUES],
    accesses: &mut Vec<Access>,
) {
    for (value, word) in values.iter_mut().zip(words.as_chunks().0) {
        *value = u64::from_le_bytes(*word);
    }
    let (first, from) = (accesses.len(), thread.cycle);
    block.expand(from, values, thread.base, accesses);
    thread.last = Some(LastBlock { first, from, instructions: block.instructions() });
}

/// Whether only a part of the block before these entries (the last one first) was executed.
#[inline]
fn is_cut(bytes: &[u8], later: &[EntryBytes]) -> bool {
    for place in later.iter().rev() {
        let (is_cut, is_empty) = is_cut_or_empty(bytes, place.end as usize);
        if !is_empty {
            return is_cut;
        }
    }
    false
}

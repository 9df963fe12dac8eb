//! Buffers of translated threads: which blocks were executed, and with what values. Executions go into the thread's frame in one pass
//! over the buffer; they are expanded to accesses here only where the blocks themselves are not kept, or one was left halfway.

use blocks::{MAX_VALUES, SharedBlock};
use buffers::flow::{Entries, Entry, EntryHeader};
use buffers::{Record, Records};
use memref::{Access, GapReason, VirtAddr};
use trace_format::{BlockWriter, Error};

use super::causes::OVERWRITTEN;
use super::thread::{LastBlock, TracedThread};
use super::{Sink, WAITING_ACCESSES};
use crate::session_blocks::ExecutableBlocks;

impl Sink<'_> {
    /// A buffer of a translated thread.
    pub(super) fn flow(&mut self, thread: &mut TracedThread, words: &[[u8; 8]]) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let known = blocks.of(thread.process);
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
        drop(known);
        self.blocks = blocks;
        result
    }

    fn flow_accesses(
        &mut self,
        thread: &mut TracedThread,
        entries: &mut Entries<'_>,
        known: &ExecutableBlocks<'_>,
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
        known: &ExecutableBlocks<'_>,
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
                    let mut words = None;
                    // Before anything else is looked at: this is what nearly all entries are.
                    if let Some(open) = &mut writer
                        && thread.flow.is_none()
                        && let Some(block) = BlockWriter::expect(open, id, thread.base)
                    {
                        let Some(own) = entries.values(block.values()) else { break };
                        if !entries.is_cut() {
                            open.push_expected(block, thread.cycle, own);
                            self.totals.accesses += u64::from(block.accesses());
                            thread.cycle += u64::from(block.instructions()) + after;
                            continue;
                        }
                        words = Some(own);
                    }
                    let Some(block) = known.get(id) else {
                        entries.end_here();
                        break;
                    };
                    let Some(words) = words.or_else(|| entries.values(block.values())) else { break };
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

#[cfg(test)]
mod tests {
    use blocks::{BlockAccess, Extent, MAX_DEFINITION_BYTES, RecordedValues, encode_definition};
    use buffers::flow::{CUT, EMBED, FIRST_BLOCK, ID_BITS, PAD};
    use buffers::{Content, RecordRoom, encode};
    use memref::{AccessKind, Event, GapReason, ThreadId};
    use trace_format::{Batch, CreateOptions, Encoders, Filter, Trace, TraceWriter};

    use super::*;
    use crate::sink::Contents;

    const LOAD: u32 = FIRST_BLOCK;
    const LOCKED: u32 = FIRST_BLOCK + 1;
    const FILL: u32 = FIRST_BLOCK + 2;

    fn define(sink: &mut Sink<'_>) {
        let load = BlockAccess { base: 0, size: 8, instruction: 1, offset: 3, ..BlockAccess::NONE };
        let modify = BlockAccess { base: 0, size: 8, kind: AccessKind::Modify, ..BlockAccess::NONE };
        let repeated = Some(blocks::Repeated { count_after: 2, place_after: 3 });
        let fill = BlockAccess {
            base: 0,
            index: 1,
            size: 1,
            kind: AccessKind::Store,
            repeated,
            ..BlockAccess::NONE
        };
        let defined = [
            (LOAD, 2, RecordedValues::plain(1), load),
            (LOCKED, 1, RecordedValues { count: 3, ordered: true }, modify),
            (FILL, 1, RecordedValues::plain(4), fill),
        ];
        let (mut bytes, mut room) = (Vec::new(), [0; MAX_DEFINITION_BYTES]);
        for (id, instructions, values, access) in defined {
            let extent = Extent::of(VirtAddr(u64::from(id) * 64), instructions);
            let len = encode_definition(id, extent, values, &[access], &mut room);
            bytes.extend_from_slice(&room[..len]);
        }
        sink.blocks.add(0, 0, &bytes, sink.list.as_mut()).unwrap();
    }

    fn embed(words: &mut Vec<u64>, record: &Record<'_>) {
        let mut room = RecordRoom::new();
        let (record, _) = encode(record, &mut room).as_chunks();
        words.push(EMBED | (record.len() as u64) << ID_BITS);
        words.extend(record.iter().map(|word| u64::from_le_bytes(*word)));
        words.push(PAD);
    }

    /// A buffer with all that may stand between executions: 21 accesses.
    fn buffer(order: u64) -> Vec<u64> {
        let load = |addr| [u64::from(LOAD) | 1 << ID_BITS, addr];
        let mut words = vec![5 << ID_BITS];
        words.extend(load(0x5000));
        words.extend(load(0x5008));
        embed(&mut words, &Record::Counter { ip: VirtAddr(7), count: 1, name: b"slow" });
        words.extend(load(0x5010));
        words.extend([u64::from(LOCKED) | 2 << ID_BITS, 0x6000, order, order + 3]);
        words.extend(load(0x5018));
        embed(
            &mut words,
            &Record::Gap { reason: GapReason::LostControl, count: 2, addr: VirtAddr(9), name: b"x" },
        );
        // Its access was not made, and one after it was.
        words.extend([u64::from(LOAD), 0x9990, CUT, 1]);
        words.extend([u64::from(LOAD), 0x5020, PAD, CUT, 2 | buffers::flow::CUT_ALL]);
        words.extend(load(0x5028));
        embed(&mut words, &Record::ThreadBase { addr: VirtAddr(0x100) });
        words.extend(load(0x5030));
        let (ip, addr) = (VirtAddr(3), VirtAddr(0x7000));
        embed(&mut words, &Record::Access { ip, addr, kind: AccessKind::Store, size: 4 });
        words.extend(load(0x5038));
        words.extend([u64::from(LOCKED), 0x6008, 0, 0]);
        words.extend([u64::from(FILL), 0x8000, 10, 0, 0x800a, PAD]);
        words
    }

    /// What is read of a thread that handed over three buffers, the last two in the wrong order.
    fn events(contents: Contents) -> (u64, Vec<Event<String>>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.memtap");
        let options = CreateOptions { encoder: Some(Encoders::BLOCKS), ..CreateOptions::default() };
        let trace = TraceWriter::create(&path, options).unwrap();
        let mut sink = Sink::new(trace.clone(), contents, None);
        sink.add_process(0, std::process::id(), None, 0).unwrap();
        define(&mut sink);
        for sequence in [0, 2, 1] {
            let words = buffer(1 + 10 * u64::from(sequence));
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            sink.take(0, 0, 1, sequence, Content::Flow, &bytes).unwrap();
        }
        sink.settle(0).unwrap();
        sink.finish().unwrap();
        let accesses = sink.totals().accesses;
        drop(sink);
        trace.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        assert!(trace.check().unwrap().is_sound());
        let shard = trace.shard(ThreadId(0));
        let mut cursor = shard.events(&Filter::default());
        let mut all = Vec::new();
        while let Some(batch) = cursor.next_batch().unwrap() {
            match batch {
                Batch::Accesses(some) => all.extend(some.iter().map(|&access| Event::Access(access))),
                Batch::Event(event) => all.push(event),
            }
        }
        (accesses, all)
    }

    #[test]
    fn executions_that_are_expected_are_those_that_each_look_at_a_block_finds() {
        let (accesses, expected) = events(Contents { regions: u32::MAX, data: false, flow: false });
        // Where control flow is kept, each entry is looked at by itself.
        let (_, by_entries) = events(Contents { regions: u32::MAX, data: false, flow: true });
        assert_eq!(expected, by_entries);
        let read = expected.iter().filter(|event| matches!(event, Event::Access(_))).count();
        assert_eq!((read as u64, accesses), (3 * 21, 3 * 21));
        let locked = |event: &&Event<String>| matches!(event, Event::Access(access) if access.kind == AccessKind::Modify);
        assert_eq!(expected.iter().filter(locked).count(), 3 * 2);
        let orders = expected.iter().filter(|event| matches!(event, Event::Order(_))).count();
        assert_eq!(orders, 3 * 2);
        let loads: Vec<u64> = expected
            .iter()
            .filter_map(|event| match event {
                Event::Access(access) if access.kind == AccessKind::Load => Some(access.addr.0),
                _ => None,
            })
            .collect();
        let once = [0x5000, 0x5008, 0x5010, 0x5018, 0x5020, 0x5028, 0x5030, 0x5038];
        assert_eq!(loads, once.repeat(3));
    }
}

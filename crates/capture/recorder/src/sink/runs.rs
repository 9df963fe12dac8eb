//! Buffers of translated threads in one look: what must be known at once, and runs of executions that are coded later.
//!
//! The thread that reads finds the entries of a buffer, which it does from the end, and sums up meanwhile how many instructions and
//! accesses they stand for. What lies between two records that must be seen at once - one that changes where thread-local variables
//! are, an access by itself, a block that was left halfway - is a *run*: it goes to the thread's frame as it is, a piece of a buffer,
//! and whoever stores the frame codes it (`trace_format::ExecutionRun`). Other records, an allocation or an order say, are given
//! their place in their own streams; a run goes on over them. So the reading thread does little more than to copy buffers, each
//! thread's order is that of its frames, and frames are coded by as many workers as there are.
//!
//! Memory is bounded: frames that wait for the workers are two a worker, some seven megabytes each, and where [`MAX_IN_USE`] buffers
//! are held, 80 MB, as when many threads fill their frames, the reading thread codes what waits in frames that still grow.

use std::sync::Arc;

use buffers::flow::{Entry, EntryPlaces, entry};
use buffers::{Record, Records};
use memref::{Access, GapReason, VirtAddr};
use trace_format::{Error, ExecutionRun, MAX_RUN_ACCESSES, RunCoder, RunOutline, ShardWriter};

use super::Sink;
use super::causes::OVERWRITTEN;
use super::parts::{BufferPart, PartKind, find_parts};
use super::thread::TracedThread;
use crate::block_table::BlockTable;
use crate::read_buffer::{MAX_IN_USE, ReadBuffer};
use crate::session_blocks::ExecutableBlocks;

/// So many buffers more than were held after the reading thread coded what waits, and it does so again.
const RELIEVE_EVERY: usize = 64;

/// A run of executions that lies in a buffer.
#[derive(Debug)]
struct BufferedRun {
    buffer: Arc<ReadBuffer>,
    tables: Arc<[Arc<BlockTable>]>,
    first: u16,
    end: u16,
    cycle: u64,
}

impl ExecutionRun for BufferedRun {
    fn code(&self, coder: &mut RunCoder<'_>) {
        let Some(places) = self.buffer.places() else { return };
        let words = self.buffer.words();
        let mut cycle = self.cycle;
        for place in places.range(self.first, self.end) {
            match entry(words, place) {
                Some(Entry::Block(id, values, after)) => {
                    let find = || self.tables.iter().find_map(|table| table.get(id));
                    let instructions = coder.push(id, cycle, values, find);
                    cycle += u64::from(instructions) + after;
                }
                Some(Entry::Instructions(count)) => cycle += count,
                // Seen by the thread that reads.
                _ => {}
            }
        }
    }

    fn memory(&self) -> usize {
        // Of the buffer that several may share: a header, two or three values, and its place are an entry.
        (usize::from(self.end - self.first) * 32).min(self.buffer.bytes().len())
    }
}

/// The run that grows while a buffer is looked through.
#[derive(Clone, Copy)]
struct OpenRun {
    first: u16,
    outline: RunOutline,
}

/// A buffer whose parts were found.
struct PartedBuffer {
    buffer: Arc<ReadBuffer>,
    tables: Arc<[Arc<BlockTable>]>,
    open: Option<OpenRun>,
}

impl PartedBuffer {
    /// Ends the run that grows before that entry.
    fn close(&mut self, shard: &ShardWriter, end: u16) -> Result<(), Error> {
        let Some(OpenRun { first, outline }) = self.open.take() else { return Ok(()) };
        let (buffer, tables) = (self.buffer.clone(), self.tables.clone());
        let run = BufferedRun { buffer, tables, first, end, cycle: outline.first_cycle };
        shard.blocks()?.map_or(Ok(()), |mut writer| writer.push_run(Box::new(run), &outline))
    }
}

impl Sink<'_> {
    /// A buffer of a translated thread whose executions are coded later.
    pub(super) fn flow_runs(
        &mut self,
        thread: &mut TracedThread,
        mut buffer: ReadBuffer,
        known: &ExecutableBlocks<'_>,
    ) -> Result<(), Error> {
        let mut parts = std::mem::take(&mut self.parts);
        let mut accesses = std::mem::take(&mut self.accesses);
        let whole = buffer.parts().is_none_or(|(words, places)| find_parts(words, places, known, &mut parts));
        let mut parted = PartedBuffer { buffer: Arc::new(buffer), tables: known.tables(), open: None };
        // What comes before the entries that were found can't be.
        let lost =
            if whole { Ok(()) } else { self.gap(thread, GapReason::Killed, 1, (VirtAddr(0), OVERWRITTEN)) };
        let result = lost.and_then(|()| {
            for part in parts.iter().rev() {
                self.part(thread, known, part, &mut parted, &mut accesses)?;
            }
            parted.close(&thread.shard, EntryPlaces::END)?;
            // What a cut could take back does not reach over a buffer's end.
            thread.last = None;
            self.push(thread, &mut accesses)
        });
        accesses.clear();
        (self.parts, self.accesses) = (parts, accesses);
        result
    }

    fn part(
        &mut self,
        thread: &mut TracedThread,
        known: &ExecutableBlocks<'_>,
        part: &BufferPart,
        parted: &mut PartedBuffer,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        let buffer = parted.buffer.clone();
        let (words, Some(places)) = (buffer.words(), buffer.places()) else { return Ok(()) };
        if thread.stretch.is_some() {
            // What is compared with stepping is compared access by access.
            parted.close(&thread.shard, part.first)?;
            return self.flow_accesses(thread, words, known, places.range(part.first, part.end), accesses);
        }
        match part.kind {
            PartKind::Run => self.run(thread, part, parted, accesses),
            PartKind::Ordered => {
                let Some(place) = places.range(part.first, part.end).next() else { return Ok(()) };
                let Some(Entry::Block(id, values, after)) = entry(words, place) else { return Ok(()) };
                let orders = known.get(id).and_then(|block| block.orders(values));
                self.push(thread, accesses)?;
                if let Some([before, _]) = orders {
                    thread.mark(thread.cycle, before)?;
                }
                self.run(thread, part, parted, accesses)?;
                orders.map_or(Ok(()), |[_, last]| thread.mark(thread.cycle - after, last))
            }
            PartKind::Other => {
                let place = places.range(part.first, part.end).next();
                if let Some(Entry::Record(payload)) = place.and_then(|place| entry(words, place))
                    && !ends_run(payload, thread.cycle)
                {
                    return self.embedded(thread, payload, accesses);
                }
                parted.close(&thread.shard, part.first)?;
                self.flow_accesses(thread, words, known, places.range(part.first, part.end), accesses)
            }
        }
    }

    /// Executions that are coded later.
    fn run(
        &mut self,
        thread: &mut TracedThread,
        part: &BufferPart,
        parted: &mut PartedBuffer,
        accesses: &mut Vec<Access>,
    ) -> Result<(), Error> {
        if let Some(open) = &parted.open
            && open.outline.accesses + part.accesses > MAX_RUN_ACCESSES
        {
            parted.close(&thread.shard, part.first)?;
        }
        if part.accesses > 0 {
            if parted.open.is_none() {
                self.push(thread, accesses)?;
            }
            let outline = RunOutline { first_cycle: thread.cycle, base: thread.base, accesses: 0 };
            let open = parted.open.get_or_insert(OpenRun { first: part.first, outline });
            open.outline.accesses += part.accesses;
            self.totals.accesses += part.accesses;
        }
        thread.cycle += part.cycles;
        thread.last = None;
        Ok(())
    }

    /// Has what waits in frames coded where too many buffers are held for it.
    pub(super) fn relieve(&mut self) {
        let in_use = self.stock.in_use();
        if in_use < self.relieve_at {
            return;
        }
        for thread in self.threads.values_mut() {
            thread.shard.code_waiting();
        }
        self.relieve_at = MAX_IN_USE.max(self.stock.in_use() + RELIEVE_EVERY);
    }
}

/// Whether executions before these records and after them are not one run.
fn ends_run(payload: &[u8], cycle: u64) -> bool {
    Records::new(payload).map_while(Result::ok).any(|record| {
        matches!(record, Record::ThreadBase { .. } | Record::StepBegin { .. })
            || record.access(cycle).is_some()
    })
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
        let (slots, _) = encode(record, &mut room).as_chunks();
        words.extend(slots.iter().map(|word| u64::from_le_bytes(*word)));
        words.extend([EMBED | (slots.len() as u64) << ID_BITS, PAD]);
    }

    /// A buffer with all that ends a run and all that does not: 21 accesses.
    fn buffer(order: u64) -> Vec<u64> {
        let load = |addr| [addr, u64::from(LOAD) | 1 << ID_BITS];
        let mut words = vec![5 << ID_BITS];
        words.extend(load(0x5000));
        words.extend(load(0x5008));
        embed(&mut words, &Record::Counter { ip: VirtAddr(7), count: 1, name: b"slow" });
        words.extend(load(0x5010));
        words.extend([0x6000, order, order + 3, u64::from(LOCKED) | 2 << ID_BITS]);
        words.extend(load(0x5018));
        embed(
            &mut words,
            &Record::Gap { reason: GapReason::LostControl, count: 2, addr: VirtAddr(9), name: b"x" },
        );
        // Its access was not made, and one after it was.
        words.extend([0x9990, u64::from(LOAD), 1, CUT]);
        words.extend([0x5020, u64::from(LOAD), PAD, 2 | buffers::flow::CUT_ALL, CUT]);
        words.extend(load(0x5028));
        embed(&mut words, &Record::ThreadBase { addr: VirtAddr(0x100) });
        words.extend(load(0x5030));
        let (ip, addr) = (VirtAddr(3), VirtAddr(0x7000));
        embed(&mut words, &Record::Access { ip, addr, kind: AccessKind::Store, size: 4 });
        words.extend(load(0x5038));
        words.extend([0x6008, 0, 0, u64::from(LOCKED)]);
        words.extend([0x8000, 10, 0, 0x800a, u64::from(FILL), PAD]);
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
            let read = sink.stock.read(|into| {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                into[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            });
            sink.take(0, 0, 1, sequence, Content::Flow, read).unwrap();
            sink.relieve_at = 0;
            sink.relieve();
            assert_eq!(sink.stock.in_use(), usize::from(sequence == 2), "only what came early is kept");
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
    fn runs_are_the_executions_that_each_look_at_an_entry_finds() {
        let (accesses, by_runs) = events(Contents { regions: u32::MAX, data: false, flow: false });
        // Where control flow is kept, each entry is looked at by itself.
        let (_, by_entries) = events(Contents { regions: u32::MAX, data: false, flow: true });
        assert_eq!(by_runs, by_entries);
        let read = by_runs.iter().filter(|event| matches!(event, Event::Access(_))).count();
        assert_eq!((read as u64, accesses), (3 * 21, 3 * 21));
        let locked = |event: &&Event<String>| matches!(event, Event::Access(access) if access.kind == AccessKind::Modify);
        assert_eq!(by_runs.iter().filter(locked).count(), 3 * 2);
        let orders = by_runs.iter().filter(|event| matches!(event, Event::Order(_))).count();
        assert_eq!(orders, 3 * 2);
        let loads: Vec<u64> = by_runs
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

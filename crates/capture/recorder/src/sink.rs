//! What becomes of records: each traced thread's buffers, in their order, go into its shard of the trace.

mod stepped;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::{Blocks, Known};
use super::flow::{BlockList, ThreadFlow};
use super::listener::{Heard, Hit, Listener};
use super::regions::Wanted;
use blocks::MAX_VALUES;
use buffers::flow::{Entry, entry, find_entries, is_cut_or_empty};
use buffers::{BUFFER_BYTES, Buffer, BufferState, Content, Pool, Record, Records};
use memref::{
    Access, Allocation, BlockOp, Event, Gap, GapReason, Marker, Order, OrderMark, ProcessId, RegionChange,
    RegionEvent, Sync, ThreadId, VirtAddr,
};
use stepped::Stretch;
pub use stepped::Verified;
use trace_format::{
    COUNTER_SLOW_PATH, COUNTER_UNTRACED_PROGRAM, COUNTER_WORK, CounterRecord, Error, ModuleRecord,
    ProcessRecord, ShardWriter, ThreadRecord, TraceWriter,
};

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Accesses that are gathered before they go to the shard.
const WAITING_ACCESSES: usize = 16_384;
/// The number of the process that was started first.
const FIRST_PROCESS: u32 = 0;

/// What has been recorded so far, for the progress line and the closing words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Single accesses.
    pub accesses: u64,
    /// Accesses whose instruction took the slow path.
    pub slow: u64,
    /// Events that are known to be missing.
    pub gaps: u64,
}

/// One traced thread.
struct Thread {
    process: u32,
    id: ThreadId,
    shard: ShardWriter,
    /// Events so far: the cycle of the next one.
    cycle: u64,
    order: u64,
    /// The buffer that comes next.
    sequence: u32,
    /// Buffers that came before their turn: kernel-side races between submission and our look.
    early: BTreeMap<u32, (Content, Vec<u8>)>,
    /// Where its thread-local variables are, as far as its translated code told.
    base: u64,
    /// Bytes that were read of the buffer that it fills.
    read: usize,
    /// Its number in the pool.
    number: u32,
    /// The last block that it executed: how many accesses it made, where they begin in what waits to be written, and
    /// the block.
    last: Option<Executed>,
    /// What is stepped just now.
    stretch: Option<Stretch>,
    /// Which blocks it enters, where that is kept.
    flow: Option<ThreadFlow>,
}

impl Thread {
    /// Only so many instructions of the last block were executed: where its accesses begin among those that wait, and the cycle at
    /// which it was left.
    fn cut(&mut self, executed: u64) -> Option<(usize, u64)> {
        let last = self.last.take()?;
        let executed = executed.min(last.instructions.into());
        self.cycle -= u64::from(last.instructions) - executed;
        Some((last.first, last.from + executed))
    }

    /// It enters that block of its process.
    #[inline]
    fn enter(&mut self, known: &Known<'_>, id: u32) -> Result<(), Error> {
        match &mut self.flow {
            Some(flow) => known.listed(id).map_or(Ok(()), |block| flow.enter(self.cycle, block)),
            None => Ok(()),
        }
    }

    /// What comes from that cycle on came behind that order.
    fn mark(&mut self, cycle: u64, order: Order) -> Result<(), Error> {
        if order <= self.order {
            return Ok(());
        }
        self.order = order;
        self.shard.push(&Event::Order(OrderMark { cycle, order }))
    }
}

/// A traced process of the session.
struct Process {
    id: ProcessId,
    record: ProcessRecord,
    /// Its command line, as far as it was told.
    arguments: Vec<u8>,
    status: Option<i32>,
}

/// What is kept of translated programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Accesses to these kinds of regions: bit n is `RegionKind` n.
    pub(crate) regions: u32,
    /// The bytes of each access.
    pub(crate) data: bool,
    /// Which blocks are entered.
    pub(crate) flow: bool,
}

/// All threads of the session.
pub(crate) struct Sink<'a> {
    trace: TraceWriter,
    processes: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    slow: HashMap<(u32, u64), (u64, String)>,
    totals: Totals,
    bytes: Box<[u8; BUFFER_BYTES]>,
    blocks: Blocks,
    /// All blocks, where control flow is kept.
    list: Option<BlockList>,
    wanted: Wanted,
    /// Whether accesses come with their bytes.
    data: bool,
    /// What was compared with stepping.
    verified: Verified,
    /// Executed by threads that have ended.
    instructions: u64,
    /// Room for the entries of one buffer, and for the accesses that follow from them.
    places: Vec<(u32, u32)>,
    accesses: Vec<Access>,
    /// Told of regions, allocations and hits as they come; allocations and hits are not kept then.
    listener: Option<&'a mut dyn Listener>,
}

/// The last block that a thread executed.
#[derive(Clone, Copy)]
struct Executed {
    /// Its first access among those that wait to be written.
    first: usize,
    from: u64,
    instructions: u16,
}

impl<'a> Sink<'a> {
    /// Records go to that trace.
    pub(crate) fn new(
        trace: TraceWriter,
        Kept { regions, data, flow }: Kept,
        listener: Option<&'a mut dyn Listener>,
    ) -> Self {
        Self {
            list: flow.then(|| BlockList::new(&trace)),
            trace,
            processes: HashMap::new(),
            threads: HashMap::new(),
            slow: HashMap::new(),
            totals: Totals::default(),
            bytes: Box::new([0; BUFFER_BYTES]),
            blocks: Blocks::default(),
            wanted: Wanted::new(regions),
            data,
            verified: Verified { with_bytes: data.then_some(0), ..Verified::default() },
            instructions: 0,
            places: Vec::new(),
            accesses: Vec::new(),
            listener,
        }
    }

    /// All buffers were looked at. Whether the listener wants another look.
    pub(crate) fn looked(&mut self, pool: &Pool) -> anyhow::Result<bool> {
        self.listener.as_mut().map_or(Ok(false), |listener| listener.looked(pool))
    }

    fn hear(&mut self, process: u32, order: u64, heard: Heard) {
        if let Some(listener) = &mut self.listener {
            listener.hear(process, order, heard);
        }
    }

    /// For a listener: reads what threads wrote into buffers that they still fill. Whether there was anything.
    pub(crate) fn read_filling(&mut self, pool: &Pool) -> Result<bool, Error> {
        let mut some = false;
        if self.listener.is_none() {
            return Ok(some);
        }
        for buffer in pool.buffers() {
            let header = buffer.header();
            // What is filled is written last: behind it the rest of the header is this owner's.
            let filled = header.filled();
            let (process, number) = (header.process(), header.thread());
            if filled == 0 || header.state() != BufferState::Owned || header.content() != Content::Records {
                continue;
            }
            let Some(owner) = self.processes.get(&process).map(|process| process.id) else { continue };
            self.enter(process, owner, number, header.tid())?;
            let Some(mut thread) = self.threads.remove(&number) else { continue };
            let mut result = Ok(());
            if header.sequence() == thread.sequence && filled > thread.read {
                let mut bytes = std::mem::replace(&mut self.bytes, Box::new([0; BUFFER_BYTES]));
                let filled = buffer.read_first(filled, &mut bytes);
                let from = std::mem::replace(&mut thread.read, filled);
                result = self.records(&mut thread, bytes.get(from..filled).unwrap_or(&[]));
                self.bytes = bytes;
                some = true;
            }
            self.threads.insert(number, thread);
            result?;
        }
        Ok(some)
    }

    /// What was recorded.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// A process appeared. Its number in the pool is given by whoever appeared first, so parents come before children.
    pub(crate) fn add_process(
        &mut self,
        number: u32,
        pid: u32,
        parent: Option<u32>,
        start_ns: u64,
    ) -> Result<(), Error> {
        let parent_number = parent;
        let parent = parent.and_then(|parent| self.processes.get(&parent)).map(|parent| parent.id);
        let mut record = ProcessRecord { pid, parent, start_ns, ..Default::default() };
        record.exe = std::fs::read_link(format!("/proc/{pid}/exe"))
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        let id = self.trace.add_process(&record)?;
        record.process = id;
        self.wanted.add_process(number, parent_number);
        if let Some(parent) = parent_number {
            self.blocks.add_process(number, parent);
        }
        self.processes.insert(number, Process { id, record, arguments: Vec::new(), status: None });
        if let Some(listener) = &mut self.listener {
            listener.process(number, pid, parent_number);
        }
        Ok(())
    }

    /// What was compared with stepping.
    pub(crate) fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Whether that process was added.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.processes.contains_key(&number)
    }

    /// A process has no more to say.
    pub(crate) fn end_process(&mut self, number: u32) -> Result<(), Error> {
        self.blocks.end(number);
        let Some(process) = self.processes.get(&number) else { return Ok(()) };
        self.trace.end_process(process.id, now_ns(), process.status)
    }

    /// All processes that there are were added: forgets what only those that have ended could execute.
    pub(crate) fn forget_ended(&mut self) {
        self.blocks.forget_ended();
    }

    /// Reads a buffer that was handed over, or that a dead process left.
    pub(crate) fn read(&mut self, buffer: Buffer) -> Result<(), Error> {
        let header = buffer.header();
        self.read_filled(buffer, header.filled())
    }

    /// As [`Sink::read`], where the buffer itself does not say how far it was filled.
    pub(crate) fn read_filled(&mut self, buffer: Buffer, filled: usize) -> Result<(), Error> {
        let header = buffer.header();
        let (process, number, tid, sequence) =
            (header.process(), header.thread(), header.tid(), header.sequence());
        let content = header.content();
        let mut bytes = std::mem::replace(&mut self.bytes, Box::new([0; BUFFER_BYTES]));
        let filled = buffer.read_first(filled, &mut bytes);
        let result = match content {
            Content::Definitions => self.blocks.add(process, sequence, &bytes[..filled], self.list.as_mut()),
            _ => self.take(process, number, tid, sequence, content, &bytes[..filled]),
        };
        self.bytes = bytes;
        result
    }

    /// Reads what processes defined since the last look, in buffers that they still fill.
    pub(crate) fn read_definitions(&mut self, pool: &Pool) -> Result<(), Error> {
        for buffer in pool.buffers() {
            let header = buffer.header();
            if header.content() == Content::Definitions && header.state() != BufferState::Free {
                let filled = buffer.read(&mut self.bytes);
                let (process, sequence) = (header.process(), header.sequence());
                self.blocks.add(process, sequence, &self.bytes[..filled], self.list.as_mut())?;
            }
        }
        Ok(())
    }

    /// Enters the threads that have a buffer and are not known yet, the first-born first: threads are numbered in the order
    /// in which they appeared, whichever fills its buffer first.
    pub(crate) fn announce(&mut self, pool: &Pool, threads: u32) -> Result<(), Error> {
        if threads as usize <= self.threads.len() {
            return Ok(());
        }
        let mut new: Vec<(u32, u32, u32)> = pool
            .buffers()
            .filter(|buffer| {
                buffer.header().state() != BufferState::Free
                    && buffer.header().content() != Content::Definitions
            })
            .map(|buffer| (buffer.header().thread(), buffer.header().process(), buffer.header().tid()))
            .filter(|(number, _, _)| !self.threads.contains_key(number))
            .collect();
        new.sort_unstable();
        for (number, process, tid) in new {
            if let Some(owner) = self.processes.get(&process).map(|process| process.id) {
                self.enter(process, owner, number, tid)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, process: u32, owner: ProcessId, number: u32, tid: u32) -> Result<(), Error> {
        if self.threads.contains_key(&number) {
            return Ok(());
        }
        let record = ThreadRecord { process: owner, tid, start_ns: now_ns(), ..Default::default() };
        let id = self.trace.add_thread(&record)?;
        let shard = self.trace.shard(id)?;
        let thread = Thread {
            process,
            id,
            shard,
            cycle: 0,
            order: 0,
            sequence: 0,
            early: BTreeMap::new(),
            base: 0,
            read: 0,
            number,
            last: None,
            stretch: None,
            flow: self.list.as_ref().map(|list| list.thread(owner, id)),
        };
        self.threads.insert(number, thread);
        Ok(())
    }

    fn take(
        &mut self,
        process: u32,
        number: u32,
        tid: u32,
        sequence: u32,
        content: Content,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let Some(owner) = self.processes.get(&process).map(|process| process.id) else { return Ok(()) };
        self.enter(process, owner, number, tid)?;
        let Some(mut thread) = self.threads.remove(&number) else { return Ok(()) };
        let mut result = Ok(());
        if sequence != thread.sequence {
            thread.early.insert(sequence, (content, bytes.to_vec()));
        } else {
            let read = std::mem::take(&mut thread.read).min(bytes.len());
            result = self.entries(&mut thread, content, bytes.get(read..).unwrap_or(&[]));
            thread.sequence = thread.sequence.wrapping_add(1);
            while let Some((content, next)) = thread.early.remove(&thread.sequence) {
                result = result.and_then(|()| self.entries(&mut thread, content, &next));
                thread.sequence = thread.sequence.wrapping_add(1);
            }
        }
        self.threads.insert(number, thread);
        result
    }

    fn entries(&mut self, thread: &mut Thread, content: Content, bytes: &[u8]) -> Result<(), Error> {
        if content == Content::Flow { self.flow(thread, bytes) } else { self.records(thread, bytes) }
    }

    /// A buffer of a translated thread.
    fn flow(&mut self, thread: &mut Thread, bytes: &[u8]) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let result = self.flow_with(thread, bytes, &blocks);
        self.blocks = blocks;
        result
    }

    fn flow_with(&mut self, thread: &mut Thread, bytes: &[u8], blocks: &Blocks) -> Result<(), Error> {
        if self.data {
            return self.flow_data(thread, bytes, blocks);
        }
        let known = blocks.of(thread.process);
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        let whole =
            find_entries(bytes, |id| known.values(id), |start, end| places.push((start as u32, end as u32)));
        if !whole {
            // What is in front of it can't be found.
            self.gap(thread, GapReason::Killed, 1, VirtAddr(0))?;
        }
        let mut accesses = std::mem::take(&mut self.accesses);
        let mut values = [0u64; MAX_VALUES];
        let shard = thread.shard.clone();
        // Holds the shard's lock: not while anything else is pushed.
        let mut writer = None;
        let by_blocks = self.wanted.are_all() && shard.blocks()?.is_some();
        for (place, &(start, end)) in places.iter().enumerate().rev() {
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
                        self.push(thread, &mut accesses)?;
                        thread.mark(thread.cycle, before)?;
                    }
                    let behind = thread.cycle + u64::from(block.instructions());
                    if by_blocks && thread.stretch.is_none() && !is_cut(bytes, &places[..place]) {
                        if !accesses.is_empty() {
                            writer = None;
                            self.push(thread, &mut accesses)?;
                        }
                        if writer.is_none() {
                            writer = shard.blocks()?;
                        }
                        if let Some(open) = &mut writer {
                            let words = words.as_chunks().0;
                            let count = open.push(id, block, thread.cycle, words, thread.base)?;
                            self.totals.accesses += count;
                            thread.last = None;
                            thread.cycle = behind + after;
                            if let Some([_, last]) = orders {
                                writer = None;
                                thread.mark(behind, last)?;
                            }
                            continue;
                        }
                    }
                    writer = None;
                    for (value, word) in values.iter_mut().zip(words.as_chunks().0) {
                        *value = u64::from_le_bytes(*word);
                    }
                    if accesses.len() >= WAITING_ACCESSES {
                        self.push(thread, &mut accesses)?;
                    }
                    let first = accesses.len();
                    let from = thread.cycle;
                    block.expand(from, &values, thread.base, &mut accesses);
                    thread.last = Some(Executed { first, from, instructions: block.instructions() });
                    thread.cycle = behind + after;
                    if let Some([_, last]) = orders {
                        self.push(thread, &mut accesses)?;
                        thread.mark(behind, last)?;
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
                    thread.last = None;
                    writer = None;
                    for record in Records::new(payload) {
                        let Ok(record) = record else { break };
                        if let Some(access) = record.access(thread.cycle) {
                            accesses.push(access);
                            continue;
                        }
                        if let Record::ThreadBase { addr } = record {
                            thread.base = addr.0;
                            continue;
                        }
                        self.push(thread, &mut accesses)?;
                        let cycle = thread.cycle;
                        self.record(thread, &record)?;
                        // Here a cycle is an instruction, not an event.
                        thread.cycle = cycle;
                    }
                }
                None => {}
            }
        }
        drop(writer);
        // What a cut could take back does not reach over a buffer's end.
        thread.last = None;
        self.push(thread, &mut accesses)?;
        self.accesses = accesses;
        self.places = places;
        Ok(())
    }

    fn push(&mut self, thread: &mut Thread, accesses: &mut Vec<Access>) -> Result<(), Error> {
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

    fn records(&mut self, thread: &mut Thread, bytes: &[u8]) -> Result<(), Error> {
        let mut accesses = Vec::with_capacity(bytes.len() / 16);
        for record in Records::new(bytes) {
            if let Ok(record) = &record
                && let Some(access) = record.access(thread.cycle)
            {
                accesses.push(access);
                thread.cycle += 1;
                continue;
            }
            if !accesses.is_empty() {
                self.totals.accesses += accesses.len() as u64;
                thread.shard.push_accesses(&accesses)?;
                accesses.clear();
            }
            match record {
                Ok(record) => self.record(thread, &record)?,
                // A program that writes into our buffers destroys what it has recorded, not us.
                Err(_) => self.gap(thread, GapReason::Killed, 1, VirtAddr(0))?,
            }
        }
        if !accesses.is_empty() {
            self.totals.accesses += accesses.len() as u64;
            thread.shard.push_accesses(&accesses)?;
        }
        Ok(())
    }

    fn gap(
        &mut self,
        thread: &mut Thread,
        reason: GapReason,
        count: u64,
        addr: VirtAddr,
    ) -> Result<(), Error> {
        self.totals.gaps += count;
        let process = self.processes.get(&thread.process).map_or(ProcessId(0), |process| process.id);
        let gap = Gap { process, thread: thread.id, cycle: thread.cycle, count, reason, addr };
        thread.cycle += 1;
        thread.shard.push(&Event::Gap(gap))
    }

    fn record(&mut self, thread: &mut Thread, record: &Record<'_>) -> Result<(), Error> {
        let cycle = thread.cycle;
        let process = self.processes.get(&thread.process).map_or(ProcessId(0), |process| process.id);
        let event = match *record {
            Record::Access { .. } | Record::Data { .. } => return Ok(()),
            Record::Order { order } => {
                thread.order = order;
                return thread.shard.push(&Event::Order(OrderMark { cycle, order }));
            }
            Record::Block { ip, kind, function, dst, src, len } => {
                Event::Block(BlockOp { cycle, order: thread.order, ip, kind, function, dst, src, len })
            }
            Record::Allocation { order, ip, kind, function, addr, len, old_addr, old_len } => {
                thread.order = thread.order.max(order);
                let event = Allocation { cycle, order, ip, kind, function, addr, len, old_addr, old_len };
                if self.listener.is_some() {
                    thread.cycle += 1;
                    self.hear(thread.process, order, Heard::Allocation(event));
                    return Ok(());
                }
                Event::Allocation(event)
            }
            Record::Hit { order, ip, kind, addr, len: _, watch, stops, old, new, stack } => {
                let words = stack.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
                let stack = words.map(VirtAddr).collect();
                let hit = Hit { thread: thread.number, cycle, ip, kind, addr, watch, stops, old, new, stack };
                thread.cycle += 1;
                self.hear(thread.process, order, Heard::Hit(hit));
                return Ok(());
            }
            Record::Sync { order, ip, kind, function, object, value } => {
                thread.order = thread.order.max(order);
                Event::Sync(Sync { cycle, order, ip, kind, function, object, value })
            }
            Record::Marker { order, ip, kind, name } => {
                let name = String::from_utf8_lossy(name);
                thread.cycle += 1;
                return thread.shard.push(&Event::Marker(Marker { cycle, order, ip, kind, name: &*name }));
            }
            Record::Gap { reason, count, addr, name } => {
                if reason == GapReason::UntracedProgram {
                    self.trace.add_counter(&CounterRecord {
                        process,
                        thread: Some(thread.id),
                        ip: addr,
                        code: COUNTER_UNTRACED_PROGRAM,
                        count: 1,
                        name: String::from_utf8_lossy(name).into_owned(),
                    })?;
                }
                return self.gap(thread, reason, count.max(1), addr);
            }
            Record::Region { order, change, kind, rights, traced, start, len, file_offset, name } => {
                self.wanted.change(thread.process, change, kind, start.0, len);
                let name = String::from_utf8_lossy(name).into_owned();
                // A translating tracer sees them all. Who listens wants to know what it sees, and keeps no accesses.
                let traced = traced && (self.listener.is_some() || self.wanted.has(kind));
                let event = RegionEvent {
                    order,
                    process,
                    change,
                    kind,
                    rights,
                    traced,
                    start,
                    len,
                    file_offset,
                    name,
                };
                self.trace.add_region(&event)?;
                if change == RegionChange::Map
                    && file_offset == 0
                    && event.name.starts_with('/')
                    && let Some(build_id) = build_id(&event.name)
                {
                    let path = event.name.clone();
                    self.trace.add_module(&ModuleRecord {
                        process,
                        order,
                        base: start,
                        len,
                        path,
                        build_id,
                    })?;
                }
                if self.listener.is_some() {
                    self.hear(thread.process, order, Heard::Region(event));
                }
                return Ok(());
            }
            Record::Counter { ip, count, name } if ip == VirtAddr(0) => {
                return self.trace.add_counter(&CounterRecord {
                    process,
                    thread: None,
                    ip,
                    code: COUNTER_WORK,
                    count,
                    name: String::from_utf8_lossy(name).into_owned(),
                });
            }
            Record::Counter { ip, count, name } => {
                self.totals.slow += count;
                let entry = self.slow.entry((thread.process, ip.0)).or_default();
                entry.0 += count;
                if entry.1.is_empty() {
                    entry.1 = String::from_utf8_lossy(name).into_owned();
                }
                return Ok(());
            }
            Record::Program { name } => {
                self.hear(thread.process, thread.order, Heard::Begins);
                if let Some(process) = self.processes.get_mut(&thread.process) {
                    process.record.exe = String::from_utf8_lossy(name).into_owned();
                    self.trace.update_process(&process.record)?;
                }
                return Ok(());
            }
            Record::Arguments { addr, name } => {
                let Some(process) = self.processes.get_mut(&thread.process) else { return Ok(()) };
                process.arguments.extend_from_slice(name);
                process.record.args = arguments(&process.arguments);
                self.trace.update_process(&process.record)?;
                if thread.process == FIRST_PROCESS {
                    let end = addr.0.saturating_add(name.len() as u64);
                    let start = end.saturating_sub(process.arguments.len() as u64);
                    self.trace.set_property("argv", &format!("{start:#x} {end:#x}"))?;
                }
                return Ok(());
            }
            Record::ThreadBase { .. } => return Ok(()),
            Record::Executed { ip, len } => {
                let (Some(list), Some(flow)) = (&mut self.list, &mut thread.flow) else { return Ok(()) };
                let block = list.instruction(thread.process, ip, len)?;
                return flow.enter(thread.cycle, block);
            }
            Record::StepBegin { first } => {
                thread.stretch = Some(Stretch::new(cycle));
                self.verified.windows += u64::from(first);
                return Ok(());
            }
            Record::Expected { ip, addr, kind, size, executed, bytes } => {
                if let Some(stretch) = &mut thread.stretch {
                    stretch.expect(Access { cycle: executed, ip, addr, size: size.into(), kind }, bytes);
                }
                return Ok(());
            }
            Record::StepEnd { executed } => {
                if let (Some(stretch), Some(executed)) = (thread.stretch.take(), executed) {
                    stretch.compare(cycle, executed, &mut self.verified);
                }
                return Ok(());
            }
            Record::ThreadEnd => return self.trace.end_thread(thread.id, now_ns()),
            Record::ProcessEnd { status } => {
                if let Some(process) = self.processes.get_mut(&thread.process) {
                    process.status = status.map(i32::from);
                }
                return Ok(());
            }
        };
        thread.cycle += 1;
        thread.shard.push(&event)
    }

    /// All buffers of a process are in: what came before its turn has lost its predecessor.
    pub(crate) fn settle(&mut self, process: u32) -> Result<(), Error> {
        let numbers: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.process == process)
            .map(|(&number, _)| number)
            .collect();
        for number in numbers {
            let Some(mut thread) = self.threads.remove(&number) else { continue };
            for (_, (content, bytes)) in std::mem::take(&mut thread.early) {
                self.gap(&mut thread, GapReason::Killed, 1, VirtAddr(0))?;
                self.entries(&mut thread, content, &bytes)?;
            }
            thread.shard.end()?;
            thread.flow.as_mut().map_or(Ok(()), ThreadFlow::flush)?;
            self.instructions += thread.cycle;
        }
        Ok(())
    }

    /// Notes that threads or processes found no room in the pool.
    pub(crate) fn refused(&mut self, count: u32) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let Some(&number) = self.threads.keys().next() else { return Ok(()) };
        let Some(mut thread) = self.threads.remove(&number) else { return Ok(()) };
        let result = self.gap(&mut thread, GapReason::TooManyThreads, count.into(), VirtAddr(0));
        self.threads.insert(number, thread);
        result
    }

    /// Writes what is buffered, so that a killed recorder loses little.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.flush_flow()?;
        self.trace.flush()
    }

    fn flush_flow(&mut self) -> Result<(), Error> {
        let mut threads = self.threads.values_mut().filter_map(|thread| thread.flow.as_mut());
        self.list.as_mut().map_or(Ok(()), BlockList::flush)?;
        threads.try_for_each(ThreadFlow::flush)
    }

    /// Instructions executed by all threads, where the tracer counts them.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions + self.threads.values().map(|thread| thread.cycle).sum::<u64>()
    }

    /// The last counts.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.flush_flow()?;
        for (&(process, ip), (count, name)) in &self.slow {
            let Some(process) = self.processes.get(&process) else { continue };
            self.trace.add_counter(&CounterRecord {
                process: process.id,
                thread: None,
                ip: VirtAddr(ip),
                code: COUNTER_SLOW_PATH,
                count: *count,
                name: name.clone(),
            })?;
        }
        Ok(())
    }
}

/// Whether only a part of the block in front of these entries (the last one first) was executed.
#[inline]
fn is_cut(bytes: &[u8], behind: &[(u32, u32)]) -> bool {
    for &(_, end) in behind.iter().rev() {
        let (is_cut, is_empty) = is_cut_or_empty(bytes, end as usize);
        if !is_empty {
            return is_cut;
        }
    }
    false
}

/// A command line, as a shell would take it, of arguments with a zero behind each.
fn arguments(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| quote(&String::from_utf8_lossy(word)))
        .collect();
    words.join(" ")
}

/// A word in quotes where a shell would otherwise split or change it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A module's build id in hexadecimal, empty where it has none; `None` where the file is no module.
fn build_id(path: &str) -> Option<String> {
    use object::Object;
    // Programs map devices, whose bytes have no end, and files of any size: only what of a module is needed is read.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let bytes = object::ReadCache::new(std::fs::File::open(path).ok()?);
    let file = object::File::parse(&bytes).ok()?;
    let id = file.build_id().ok().flatten().unwrap_or_default();
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quote("a-b/c.d"), "a-b/c.d");
        assert_eq!(quote("two words"), "'two words'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_shell_has_a_build_id_and_a_text_is_no_module() {
        assert!(build_id("/bin/sh").is_some());
        assert_eq!(build_id("/etc/passwd"), None);
    }

    #[test]
    fn devices_and_huge_files_are_no_modules() {
        assert_eq!(build_id("/dev/zero"), None);
        let huge = tempfile::NamedTempFile::new().unwrap();
        huge.as_file().set_len(1 << 40).unwrap();
        assert_eq!(build_id(huge.path().to_str().unwrap()), None);
    }
}

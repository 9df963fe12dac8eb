//! What becomes of a machine's records: each vCPU is a thread of the trace.

use std::collections::{BTreeMap, HashMap};

use memref::{
    Access, AccessKind, Event, Gap, GapReason, Marker, MarkerKind, OrderMark, ProcessId, ThreadId, VirtAddr,
};
use segment::{BUFFER_BYTES, Buffer, MachineRecord, MachineRecords};
use trace_format::machine::{self, FoundEntry, PLACE_DEVICE, PageEntry, SyncEntry, TaskEntry};
use trace_format::{DataAccess, Error, ProcessRecord, ShardWriter, ThreadRecord, TraceWriter, TypedWriter};

use crate::record::sink::now_ns;

/// Virtual pages of which is remembered that their place was stated.
const STATED: usize = 1 << 13;
/// Bytes of a segment of data.
const DATA_BYTES: usize = 4 << 20;
const PAGE_SHIFT: u32 = 12;
/// The numbers of the plugin's texts.
const TEXT_API: u32 = 0;
const TEXT_INTROSPECTION: u32 = 1;
const TEXT_MEMORY: u32 = 2;
const TEXT_SYMBOL: u32 = 3;
/// The numbers of its marks.
const MARK_ON: u32 = 0;
const MARK_OFF: u32 = 1;

/// A block of the guest's code.
struct Block {
    ip: u64,
    /// Where each instruction starts, from the block's start.
    offsets: Vec<u16>,
}

/// One vCPU.
struct Cpu {
    id: ThreadId,
    shard: ShardWriter,
    pages: TypedWriter,
    tasks: TypedWriter,
    flow: TypedWriter,
    accesses: Vec<DataAccess>,
    /// Whether the trace has data.
    data: bool,
    /// The same without data.
    plain: Vec<Access>,
    /// Index of the next access.
    index: u64,
    /// Index of the first access of the frame that is being filled.
    frame: u64,
    /// (page, place) as stated in this frame.
    stated: Box<[(u64, u64)]>,
    /// The last cycle given to the shard: events of one thread must not go back.
    last: u64,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) accesses: u64,
    pub(crate) gaps: u64,
    pub(crate) cycle: u64,
}

/// All of a machine.
pub(crate) struct Sink {
    trace: TraceWriter,
    process: ProcessId,
    segment_entries: u64,
    data: bool,
    cpus: BTreeMap<u32, Cpu>,
    cpu: u32,
    blocks: HashMap<u32, Block>,
    block: u32,
    cycle: u64,
    /// What the plugin said of the next access's page, and of the one behind.
    page: Option<u64>,
    behind: Option<u64>,
    /// Where pages lie.
    places: HashMap<u64, u64>,
    found: TypedWriter,
    found_data: TypedWriter,
    symbols: TypedWriter,
    block_list: TypedWriter,
    syncs: TypedWriter,
    sequence: u32,
    early: BTreeMap<u32, Vec<u8>>,
    bytes: Box<[u8; BUFFER_BYTES]>,
    totals: Totals,
    /// Why processes of the guest can't be told apart, as the plugin says it.
    pub(crate) introspection: Option<String>,
}

impl Sink {
    pub(crate) fn new(
        trace: &TraceWriter,
        process: &ProcessRecord,
        segment_entries: usize,
        data: bool,
    ) -> Result<Self, Error> {
        let process = trace.add_process(process)?;
        let stream = |name, entries| trace.typed(machine::description(name, None), entries);
        Ok(Self {
            trace: trace.clone(),
            process,
            segment_entries: segment_entries as u64,
            data,
            cpus: BTreeMap::new(),
            cpu: 0,
            blocks: HashMap::new(),
            block: 0,
            cycle: 0,
            page: None,
            behind: None,
            places: HashMap::new(),
            found: stream(machine::FOUND, 1 << 16),
            found_data: stream(machine::FOUND_DATA, DATA_BYTES),
            symbols: stream(machine::SYMBOLS, DATA_BYTES),
            block_list: stream(machine::BLOCKS, 1 << 16),
            syncs: stream(machine::SYNCS, 1 << 12),
            sequence: 0,
            early: BTreeMap::new(),
            bytes: Box::new([0; BUFFER_BYTES]),
            totals: Totals::default(),
            introspection: None,
        })
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    fn cpu(&mut self) -> Result<&mut Cpu, Error> {
        let (trace, process, data) = (&self.trace, self.process, self.data);
        match self.cpus.entry(self.cpu) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let record =
                    ThreadRecord { process, tid: self.cpu, start_ns: now_ns(), ..Default::default() };
                let id = trace.add_thread(&record)?;
                let mut shard = trace.shard(id)?;
                shard.push(&Event::Order(OrderMark { cycle: 0, order: 0 }))?;
                let stream =
                    |name, entries| trace.typed(machine::description(name, Some((process, id))), entries);
                Ok(entry.insert(Cpu {
                    id,
                    shard,
                    pages: stream(machine::PAGES, 1 << 18),
                    data,
                    plain: Vec::new(),
                    tasks: stream(machine::TASKS, 1 << 14),
                    flow: stream(machine::FLOW, 1 << 20),
                    accesses: Vec::new(),
                    index: 0,
                    frame: 0,
                    stated: vec![(u64::MAX, 0); STATED].into_boxed_slice(),
                    last: 0,
                }))
            }
        }
    }

    /// Reads a buffer that was handed over, or left behind.
    pub(crate) fn take(&mut self, buffer: Buffer) -> Result<(), Error> {
        let sequence = buffer.header().sequence();
        let mut bytes = std::mem::replace(&mut self.bytes, Box::new([0; BUFFER_BYTES]));
        let filled = buffer.read(&mut bytes);
        let result = if sequence == self.sequence {
            self.in_turn(&bytes[..filled])
        } else {
            self.early.insert(sequence, bytes[..filled].to_vec());
            Ok(())
        };
        self.bytes = bytes;
        result?;
        while let Some(bytes) = self.early.remove(&self.sequence) {
            self.in_turn(&bytes)?;
        }
        Ok(())
    }

    fn in_turn(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut records = MachineRecords::new(bytes);
        for record in records.by_ref() {
            self.record(&record)?;
        }
        if records.is_broken() {
            self.gap(self.cycle, 1, GapReason::LostControl)?;
        }
        self.push_accesses()
    }

    /// Hands what was collected to the shards.
    fn push_accesses(&mut self) -> Result<(), Error> {
        for cpu in self.cpus.values_mut() {
            cpu.push_accesses(self.segment_entries)?;
        }
        Ok(())
    }

    fn record(&mut self, record: &MachineRecord<'_>) -> Result<(), Error> {
        match *record {
            MachineRecord::Access { addr, index, size_shift, store, value } => {
                return self.access(addr, index, size_shift, store, value);
            }
            MachineRecord::Enter { block, cycle } => {
                self.block = block;
                self.cycle = cycle;
                self.totals.cycle = self.totals.cycle.max(cycle);
            }
            MachineRecord::Page { page, device, behind } => {
                let place = page | if device { PLACE_DEVICE } else { 0 };
                *if behind { &mut self.behind } else { &mut self.page } = Some(place);
            }
            MachineRecord::Cpu(cpu) => self.cpu = cpu,
            MachineRecord::Block { block, ip, sizes } => {
                let mut offsets = Vec::with_capacity(sizes.len());
                let mut at = 0;
                for &size in sizes {
                    offsets.push(at);
                    at += u16::from(size);
                }
                let mut entry = [0; 16];
                entry[..8].copy_from_slice(&ip.to_le_bytes());
                entry[8..12].copy_from_slice(&(sizes.len() as u32).to_le_bytes());
                entry[12..].copy_from_slice(&u32::from(at).to_le_bytes());
                self.block_list.push(0, &entry)?;
                self.blocks.insert(block, Block { ip, offsets });
            }
            MachineRecord::Found { cycle, since, addr, bytes } => {
                let entry = FoundEntry {
                    cycle,
                    since,
                    addr,
                    len: bytes.len() as u64,
                    at: self.found_data.next_index(),
                };
                self.found_data.push(cycle, bytes)?;
                self.found.push(cycle, &entry.to_bytes())?;
            }
            MachineRecord::Task { cycle, change, task } => {
                let entry = TaskEntry {
                    cycle,
                    address: task.address,
                    process: task.process,
                    thread: task.thread,
                    parent: task.parent,
                    change: change as u8,
                    name: task.name,
                };
                self.cpu()?.tasks.push(cycle, &entry.to_bytes())?;
            }
            MachineRecord::Sync { cycle, time_ns } => {
                self.totals.cycle = self.totals.cycle.max(cycle);
                self.syncs.push(cycle, &SyncEntry { cycle, time_ns }.to_bytes())?;
            }
            MachineRecord::Mark { cycle, mark } => {
                self.push_accesses()?;
                let name = mark.to_string();
                let (kind, name) = match mark {
                    MARK_ON => (MarkerKind::Start, ""),
                    MARK_OFF => (MarkerKind::Stop, ""),
                    _ => (MarkerKind::Mark, name.as_str()),
                };
                let cpu = self.cpu()?;
                cpu.last = cpu.last.max(cycle);
                cpu.shard.push(&Event::Marker(Marker {
                    cycle: cpu.last,
                    order: 0,
                    ip: VirtAddr(0),
                    kind,
                    name,
                }))?;
            }
            MachineRecord::Gap { cycle, count } => self.gap(cycle, count, GapReason::StoreFailed)?,
            MachineRecord::Range { .. } => {}
            MachineRecord::Text { what, text } => self.text(what, text)?,
        }
        Ok(())
    }

    fn text(&mut self, what: u32, text: &[u8]) -> Result<(), Error> {
        let words = String::from_utf8_lossy(text).into_owned();
        match what {
            TEXT_API => self.trace.set_property("plugin_api", &words),
            TEXT_INTROSPECTION => {
                let result = self.trace.set_property("introspection", &words);
                self.introspection = Some(words);
                result
            }
            TEXT_MEMORY => self.trace.set_property("guest_memory", &words),
            TEXT_SYMBOL => {
                let len = u16::try_from(text.len()).unwrap_or(0);
                self.symbols.push(0, &len.to_le_bytes())?;
                self.symbols.push(0, &text[..usize::from(len)])
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn access(
        &mut self,
        addr: u64,
        index: u16,
        size_shift: u8,
        store: bool,
        value: Option<u128>,
    ) -> Result<(), Error> {
        let (page, behind) = (self.page.take(), self.behind.take());
        let number = addr >> PAGE_SHIFT;
        if let Some(place) = page {
            self.places.insert(number, place);
        }
        if let Some(place) = behind {
            self.places.insert(number + 1, place);
        }
        let Some(block) = self.blocks.get(&self.block) else {
            return self.gap(self.cycle, 1, GapReason::LostControl);
        };
        let ip = VirtAddr(block.ip + u64::from(block.offsets.get(usize::from(index)).copied().unwrap_or(0)));
        let cycle = self.cycle + u64::from(index);
        let size = 1usize << size_shift;
        let segment_entries = self.segment_entries;
        let crosses = (addr & 0xfff) as usize + size > 0x1000;
        let places =
            [self.places.get(&number).copied(), self.places.get(&(number + 1)).copied().filter(|_| crosses)];
        let cpu = self.cpu()?;
        let kind = if store { AccessKind::Store } else { AccessKind::Load };
        let access = Access { cycle, ip, addr: VirtAddr(addr), size: size as u32, kind };
        // A load and a store of the same bytes by one instruction are one access.
        if let Some(last) =
            cpu.accesses.last_mut().filter(|last| store && last.access.kind == AccessKind::Load)
            && last.access == (Access { kind: AccessKind::Load, ..access })
        {
            last.access.kind = AccessKind::Modify;
            (last.value, last.value_bytes) = (0, 0);
            return match value {
                Some(value) if size > 8 => {
                    let entry = cpu.accesses.pop().expect("it is the last one");
                    cpu.push_wide(&entry.access, value, segment_entries)
                }
                Some(value) => {
                    (last.value, last.value_bytes) = (value as u64, size as u8);
                    Ok(())
                }
                None => Ok(()),
            };
        }
        self.totals.accesses += 1;
        let cpu = self.cpu()?;
        if cpu.next_index() - cpu.frame >= segment_entries {
            cpu.push_accesses(segment_entries)?;
        }
        let index = cpu.next_index();
        for (number, place) in [number, number + 1].into_iter().zip(places) {
            if let Some(place) = place {
                cpu.state(index, number, place, cycle)?;
            }
        }
        match value {
            Some(value) if size > 8 => cpu.push_wide(&access, value, segment_entries),
            Some(value) => {
                cpu.accesses.push(DataAccess { access, value: value as u64, value_bytes: size as u8 });
                Ok(())
            }
            None => {
                cpu.accesses.push(DataAccess { access, value: 0, value_bytes: 0 });
                Ok(())
            }
        }
    }

    fn gap(&mut self, cycle: u64, count: u64, reason: GapReason) -> Result<(), Error> {
        self.totals.gaps += count;
        self.push_accesses()?;
        let process = self.process;
        let cpu = self.cpu()?;
        cpu.last = cpu.last.max(cycle);
        let gap = Gap { process, thread: cpu.id, cycle: cpu.last, count, reason, addr: VirtAddr(0) };
        cpu.shard.push(&Event::Gap(gap))
    }

    /// The plugin is gone: what came before its turn has lost its predecessor.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        for (_, bytes) in std::mem::take(&mut self.early) {
            self.gap(self.cycle, 1, GapReason::Killed)?;
            self.in_turn(&bytes)?;
        }
        Ok(())
    }

    /// Notes that QEMU did not end by itself.
    pub(crate) fn killed(&mut self) -> Result<(), Error> {
        self.gap(self.totals.cycle, 1, GapReason::Killed)
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.push_accesses()?;
        for stream in
            [&mut self.symbols, &mut self.block_list, &mut self.found_data, &mut self.found, &mut self.syncs]
        {
            stream.flush()?;
        }
        for cpu in self.cpus.values_mut() {
            for stream in [&mut cpu.pages, &mut cpu.tasks, &mut cpu.flow] {
                stream.flush()?;
            }
            cpu.begin_frame();
        }
        self.trace.flush()
    }
}

impl Cpu {
    /// A new frame of accesses begins, which states anew where pages lie.
    fn begin_frame(&mut self) {
        self.frame = self.index;
        self.stated.fill((u64::MAX, 0));
    }

    fn push_accesses(&mut self, segment_entries: u64) -> Result<(), Error> {
        if self.accesses.is_empty() {
            return Ok(());
        }
        if let Some(last) = self.accesses.last() {
            self.last = self.last.max(last.access.cycle);
        }
        if self.data {
            self.shard.push_data_accesses(&self.accesses)?;
        } else {
            self.plain.clear();
            self.plain.extend(self.accesses.iter().map(|entry| entry.access));
            self.shard.push_accesses(&self.plain)?;
        }
        self.index += self.accesses.len() as u64;
        self.accesses.clear();
        self.end_frame(segment_entries);
        Ok(())
    }

    /// Index of the next access.
    fn next_index(&self) -> u64 {
        self.index + self.accesses.len() as u64
    }

    /// Adds an access with more bytes than a word.
    fn push_wide(&mut self, access: &Access, value: u128, segment_entries: u64) -> Result<(), Error> {
        self.push_accesses(segment_entries)?;
        self.last = self.last.max(access.cycle);
        let bytes = value.to_le_bytes();
        self.shard.push_with_bytes(access, bytes.get(..access.size as usize).unwrap_or(&bytes))?;
        self.index += 1;
        self.end_frame(segment_entries);
        Ok(())
    }

    fn end_frame(&mut self, segment_entries: u64) {
        if self.index - self.frame >= segment_entries {
            self.begin_frame();
        }
    }

    /// States where a page lies, unless this frame has said so.
    #[inline]
    fn state(&mut self, index: u64, page: u64, place: u64, cycle: u64) -> Result<(), Error> {
        let slot = &mut self.stated[page as usize % STATED];
        if *slot == (page, place) {
            return Ok(());
        }
        *slot = (page, place);
        self.pages.push(cycle, &PageEntry { index, page, place }.to_bytes())
    }
}

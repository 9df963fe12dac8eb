//! Processes a machine's records: each vCPU becomes a thread of the trace.

use std::collections::BTreeMap;

use buffers::{BUFFER_BYTES, Buffer, MachineRecord, MachineRecords, PAGE_SLOTS, page_slot};
use memref::{
    Access, AccessKind, Event, Gap, GapReason, Marker, MarkerKind, OrderMark, ProcessId, ThreadId, VirtAddr,
};
use trace_format::control_flow::{BlockEntry, FlowEntry};
use trace_format::machine::{CheckpointEntry, FoundEntry, PLACE_DEVICE, PageEntry, TaskEntry};
use trace_format::{
    DataAccess, Error, ProcessRecord, ShardWriter, StreamDescription, StreamKind, ThreadRecord, TraceWriter,
    TypedWriter,
};

use crate::clock::now_ns;
use crate::feedback::totals::{MissingEvents, add_missing};

/// Virtual pages of which is remembered that their place was stated.
const STATED: usize = 1 << 13;
/// After so many accesses of a vCPU the places of pages are stated anew, so that a reader can start there.
const STATE_AGAIN: u64 = 1 << 20;
/// Accesses that are gathered before they go to the shard.
const WAITING: usize = 1 << 14;
/// More blocks than this are no numbers of ours.
const MAX_BLOCKS: usize = 1 << 28;
/// Bytes of a segment of data.
const DATA_BYTES: usize = 4 << 20;
/// The numbers of the plugin's texts.
const TEXT_API: u32 = 0;
const TEXT_INTROSPECTION: u32 = 1;
const TEXT_MEMORY: u32 = 2;
const TEXT_SYMBOL: u32 = 3;
/// The numbers of its marks.
const MARK_ON: u32 = 0;
const MARK_OFF: u32 = 1;

/// A block of the guest's code.
#[derive(Clone, Copy, Debug, Default)]
struct GuestBlock {
    ip: VirtAddr,
    /// Where its offsets begin, and how many there are: none where the block is not known.
    first: u32,
    count: u32,
}

/// All blocks, by number.
#[derive(Debug, Default)]
struct GuestBlocks {
    blocks: Vec<GuestBlock>,
    /// Where each instruction starts, from its block's start.
    offsets: Vec<u16>,
}

impl GuestBlocks {
    /// Adds a block. Returns its bytes.
    fn add(&mut self, number: u32, ip: VirtAddr, sizes: &[u8]) -> u16 {
        let (number, first) = (number as usize, self.offsets.len() as u32);
        let mut at = 0;
        for &size in sizes {
            self.offsets.push(at);
            at += u16::from(size);
        }
        if number < MAX_BLOCKS {
            self.blocks.resize(self.blocks.len().max(number + 1), GuestBlock::default());
            self.blocks[number] = GuestBlock { ip, first, count: sizes.len() as u32 };
        }
        at
    }

    fn get(&self, number: u32) -> GuestBlock {
        self.blocks.get(number as usize).copied().unwrap_or_default()
    }

    /// The address of an instruction.
    #[inline]
    fn ip(&self, block: GuestBlock, index: u16) -> Option<VirtAddr> {
        let index = u32::from(index);
        if index >= block.count {
            return None;
        }
        let offset = self.offsets.get((block.first + index) as usize)?;
        Some(block.ip.offset((*offset).into()))
    }
}

/// Where a page of virtual addresses lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PagePlace {
    page: u64,
    /// The page of physical addresses; [`PLACE_DEVICE`] is set where that is a device.
    place: u64,
}

impl PagePlace {
    /// No page has that number.
    const NONE: Self = Self { page: u64::MAX, place: 0 };
}

/// One vCPU.
struct GuestCpu {
    /// QEMU's number of it.
    number: u32,
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
    /// Index of the access from which on places are stated anew.
    state_again: u64,
    /// What was stated since then.
    stated: Box<[PagePlace]>,
    /// The last cycle given to the shard: events of one thread must not go back.
    last: u64,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineTotals {
    pub(crate) accesses: u64,
    pub(crate) gaps: u64,
    pub(crate) cycle: u64,
}

/// All of a machine.
pub(crate) struct MachineSink {
    trace: TraceWriter,
    process: ProcessId,
    data: bool,
    /// Whether all blocks that are entered are told, and kept.
    flow: bool,
    cpus: Vec<GuestCpu>,
    /// The present one's place among them.
    cpu: usize,
    blocks: GuestBlocks,
    block: GuestBlock,
    cycle: u64,
    /// What the plugin said of the next access's page, and of the page after it.
    page: Option<u64>,
    next_page: Option<u64>,
    /// What the plugin remembers, kept in step with it.
    places: Box<[PagePlace]>,
    found: TypedWriter,
    found_data: TypedWriter,
    symbols: TypedWriter,
    block_list: TypedWriter,
    checkpoints: TypedWriter,
    sequence: u32,
    early: BTreeMap<u32, Vec<u8>>,
    bytes: Box<[u8; BUFFER_BYTES]>,
    totals: MachineTotals,
    missing: Vec<MissingEvents>,
    /// Why processes of the guest can't be told apart, as the plugin says it.
    pub(crate) introspection: Option<String>,
}

impl MachineSink {
    pub(crate) fn new(
        trace: &TraceWriter,
        process: &ProcessRecord,
        data: bool,
        flow: bool,
    ) -> Result<Self, Error> {
        let process = trace.add_process(process)?;
        let stream = |kind, entries| trace.typed(StreamDescription::of_kind(kind, None), entries);
        Ok(Self {
            trace: trace.clone(),
            process,
            data,
            flow,
            cpus: Vec::new(),
            cpu: 0,
            blocks: GuestBlocks::default(),
            block: GuestBlock::default(),
            cycle: 0,
            page: None,
            next_page: None,
            places: vec![PagePlace::NONE; PAGE_SLOTS].into_boxed_slice(),
            found: stream(StreamKind::Found, 1 << 16),
            found_data: stream(StreamKind::FoundData, DATA_BYTES),
            symbols: stream(StreamKind::GuestSymbols, DATA_BYTES),
            block_list: stream(StreamKind::BasicBlocks, 1 << 16),
            checkpoints: stream(StreamKind::Checkpoints, 1 << 12),
            sequence: 0,
            early: BTreeMap::new(),
            bytes: Box::new([0; BUFFER_BYTES]),
            totals: MachineTotals::default(),
            missing: Vec::new(),
            introspection: None,
        })
    }

    pub(crate) fn totals(&self) -> MachineTotals {
        self.totals
    }

    /// Events that are missing, by their reason.
    pub(crate) fn missing(&self) -> &[MissingEvents] {
        &self.missing
    }

    /// What follows is about that vCPU.
    fn go_to(&mut self, number: u32) -> Result<(), Error> {
        if let Some(place) = self.cpus.iter().position(|cpu| cpu.number == number) {
            self.cpu = place;
            return Ok(());
        }
        let (trace, process) = (&self.trace, self.process);
        let record = ThreadRecord { process, tid: number, start_ns: now_ns(), ..Default::default() };
        let id = trace.add_thread(&record)?;
        let mut shard = trace.shard(id)?;
        shard.push(&Event::Order(OrderMark { cycle: 0, order: 0 }))?;
        let stream =
            |kind, entries| trace.typed(StreamDescription::of_kind(kind, Some((process, id))), entries);
        self.cpus.push(GuestCpu {
            number,
            id,
            shard,
            pages: stream(StreamKind::Pages, 1 << 18),
            data: self.data,
            plain: Vec::new(),
            tasks: stream(StreamKind::Tasks, 1 << 14),
            flow: stream(StreamKind::Flow, 1 << 20),
            accesses: Vec::with_capacity(WAITING),
            index: 0,
            state_again: STATE_AGAIN,
            stated: vec![PagePlace::NONE; STATED].into_boxed_slice(),
            last: 0,
        });
        self.cpu = self.cpus.len() - 1;
        Ok(())
    }

    fn cpu(&mut self) -> Result<&mut GuestCpu, Error> {
        if self.cpus.is_empty() {
            self.go_to(0)?;
        }
        Ok(&mut self.cpus[self.cpu])
    }

    /// Reads a buffer that was handed over, or that a dead QEMU left.
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
        Ok(())
    }

    /// Hands what was collected to the shards.
    fn push_accesses(&mut self) -> Result<(), Error> {
        self.cpus.iter_mut().try_for_each(GuestCpu::push_accesses)
    }

    fn record(&mut self, record: &MachineRecord<'_>) -> Result<(), Error> {
        match *record {
            MachineRecord::Access { addr, index, size_shift, store, value } => {
                return self.access(VirtAddr(addr), index, size_shift, store, value);
            }
            MachineRecord::Enter { block, cycle } => {
                self.block = self.blocks.get(block);
                self.cycle = cycle;
                if self.flow {
                    let entry = FlowEntry { cycle, block };
                    self.cpu()?.flow.push(cycle, &entry.to_bytes())?;
                }
                self.totals.cycle = self.totals.cycle.max(cycle);
            }
            MachineRecord::Page { page, device, next } => {
                let place = page | if device { PLACE_DEVICE } else { 0 };
                *if next { &mut self.next_page } else { &mut self.page } = Some(place);
            }
            MachineRecord::Cpu(cpu) => self.go_to(cpu)?,
            MachineRecord::Block { block, ip, sizes } => {
                let bytes = self.blocks.add(block, VirtAddr(ip), sizes).into();
                let entry = BlockEntry { ip: VirtAddr(ip), instructions: sizes.len() as u32, bytes };
                self.block_list.push(0, &entry.to_bytes())?;
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
                    address: VirtAddr(task.address),
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
                self.checkpoints.push(cycle, &CheckpointEntry { cycle, time_ns }.to_bytes())?;
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
            MachineRecord::Clock { cycle } => self.totals.cycle = self.totals.cycle.max(cycle),
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
        addr: VirtAddr,
        index: u16,
        size_shift: u8,
        store: bool,
        value: Option<u128>,
    ) -> Result<(), Error> {
        let number = addr.page_number();
        if let Some(place) = self.page.take() {
            self.places[page_slot(number)] = PagePlace { page: number, place };
        }
        if let Some(place) = self.next_page.take() {
            let number = number.wrapping_add(1);
            self.places[page_slot(number)] = PagePlace { page: number, place };
        }
        let Some(ip) = self.blocks.ip(self.block, index) else {
            return self.gap(self.cycle, 1, GapReason::LostControl);
        };
        let cycle = self.cycle + u64::from(index);
        let size = 1usize << size_shift;
        let kind = if store { AccessKind::Store } else { AccessKind::Load };
        let access = Access { cycle, ip, addr, size: size as u32, kind };
        if self.cpus.is_empty() {
            self.go_to(0)?;
        }
        let cpu = &mut self.cpus[self.cpu];
        // A load and a store of the same bytes by one instruction are one access.
        if store
            && let Some(last) = cpu.accesses.last_mut()
            && last.access == (Access { kind: AccessKind::Load, ..access })
        {
            last.access.kind = AccessKind::Modify;
            (last.value, last.value_bytes) = (0, 0);
            return match value {
                Some(value) if size > 8 => {
                    let entry = cpu.accesses.pop().expect("it is the last one");
                    cpu.push_wide(&entry.access, value)
                }
                Some(value) => {
                    (last.value, last.value_bytes) = (value as u64, size as u8);
                    Ok(())
                }
                None => Ok(()),
            };
        }
        self.totals.accesses += 1;
        if cpu.accesses.len() >= WAITING {
            cpu.push_accesses()?;
        }
        let index = cpu.next_index();
        if index >= cpu.state_again {
            cpu.state_again();
        }
        let known = self.places[page_slot(number)];
        if known.page == number {
            cpu.state(index, known, cycle)?;
        }
        if addr.0 % VirtAddr::PAGE_BYTES + size as u64 > VirtAddr::PAGE_BYTES {
            let number = number.wrapping_add(1);
            let known = self.places[page_slot(number)];
            if known.page == number {
                cpu.state(index, known, cycle)?;
            }
        }
        match value {
            Some(value) if size > 8 => cpu.push_wide(&access, value),
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
        add_missing(&mut self.missing, reason, count);
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

    /// Writes what is buffered, here and in the trace store.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.push_buffered()?;
        self.trace.flush()
    }

    /// Hands what is buffered here to the trace store.
    pub(crate) fn push_buffered(&mut self) -> Result<(), Error> {
        self.push_accesses()?;
        for stream in [
            &mut self.symbols,
            &mut self.block_list,
            &mut self.found_data,
            &mut self.found,
            &mut self.checkpoints,
        ] {
            stream.flush()?;
        }
        for cpu in &mut self.cpus {
            for stream in [&mut cpu.pages, &mut cpu.tasks, &mut cpu.flow] {
                stream.flush()?;
            }
        }
        Ok(())
    }
}

impl GuestCpu {
    /// From the next access on, where pages lie is stated anew.
    fn state_again(&mut self) {
        self.state_again = self.next_index() + STATE_AGAIN;
        self.stated.fill(PagePlace::NONE);
    }

    fn push_accesses(&mut self) -> Result<(), Error> {
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
        Ok(())
    }

    /// Index of the next access.
    fn next_index(&self) -> u64 {
        self.index + self.accesses.len() as u64
    }

    /// Adds an access with more bytes than a word.
    fn push_wide(&mut self, access: &Access, value: u128) -> Result<(), Error> {
        self.push_accesses()?;
        self.last = self.last.max(access.cycle);
        let bytes = value.to_le_bytes();
        self.shard.push_with_bytes(access, bytes.get(..access.size as usize).unwrap_or(&bytes))?;
        self.index += 1;
        Ok(())
    }

    /// States where a page lies, unless that was said.
    #[inline]
    fn state(&mut self, index: u64, known: PagePlace, cycle: u64) -> Result<(), Error> {
        let PagePlace { page, place } = known;
        let slot = &mut self.stated[page as usize % STATED];
        if *slot == known {
            return Ok(());
        }
        *slot = known;
        self.pages.push(cycle, &PageEntry { index, page, place }.to_bytes())
    }
}

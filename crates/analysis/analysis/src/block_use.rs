//! What happened to allocated blocks: how many were live at once, for how long, and how much of
//! them was read and written. Results are grouped by the allocating call and its calling context.
//!
//! Time is the number of instructions that all threads have executed, in replay order,
//! because threads have no common clock. A reallocation ends one block and allocates a new
//! one; the bytes it copies count as read from the old block and written to the new one.

use std::collections::{BTreeMap, HashMap};

use memref::{
    Access, AccessKind, Allocation, AllocationKind, BlockKind, Event, ProcessId, ThreadId, VirtAddr,
};
use symbols::{BlockId, BlockState, CodeId, VariableId, VariableKind};

use crate::stack::{CallPlace, ContextId, Contexts, Stacks};
use crate::{Error, Moment, Session, Tool};

/// Bytes of a block whose accesses are counted one by one; of larger blocks none are.
const MAX_HISTOGRAM: u64 = 1024;

/// Blocks and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSum {
    /// How many.
    pub blocks: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// What became of the blocks that one call allocated in one context.
#[derive(Clone, Debug)]
pub struct BlockUse {
    /// The context.
    pub context: ContextId,
    /// The call.
    pub code: CodeId,
    /// Whether it maps memory (mmap, mremap), which is not the allocator's.
    pub is_mapping: bool,
    /// All of them.
    pub total: BlockSum,
    /// When these were most bytes at once.
    pub most: BlockSum,
    /// When all blocks of the program were most bytes at once.
    pub peak: BlockSum,
    /// Those that were never released.
    pub live: BlockSum,
    /// How long they lived, together.
    pub lifetimes: u64,
    /// Bytes that were read from them.
    pub read_bytes: u64,
    /// Bytes that were written to them.
    pub written_bytes: u64,
    /// How often each of their bytes was accessed; empty where they are large or not all of one size.
    pub histogram: Vec<u64>,
    /// How many peaks had been when this point changed last.
    peaks: u64,
}

/// A block.
#[derive(Clone, Copy, Debug)]
struct UsedBlock {
    point: u32,
    start: VirtAddr,
    len: u64,
    born: u64,
    is_live: bool,
}

/// What a variable is to this analysis.
#[derive(Clone, Copy, Debug, Default)]
enum Known {
    #[default]
    NotYet,
    NoBlock,
    Block(u32),
}

/// Follows all blocks through a replay.
#[derive(Debug)]
pub struct BlockUses {
    stacks: Stacks,
    points: Vec<BlockUse>,
    point_of: HashMap<(ContextId, CodeId, bool), u32>,
    blocks: Vec<UsedBlock>,
    block_of: HashMap<(ProcessId, BlockId), u32>,
    /// The last mapping that began at an address.
    mappings: BTreeMap<(ProcessId, VirtAddr), u32>,
    parents: HashMap<ProcessId, ProcessId>,
    known: Vec<Known>,
    cycles: Vec<u64>,
    time: u64,
    now: u64,
    most: u64,
    /// How often the blocks were more bytes than ever before.
    peaks: u64,
    peak_time: u64,
}

impl BlockUses {
    /// Follows the blocks of that session.
    pub fn new(session: &Session) -> Self {
        let processes = session.trace().processes().iter();
        Self {
            stacks: Stacks::new(session),
            points: Vec::new(),
            point_of: HashMap::new(),
            blocks: Vec::new(),
            block_of: HashMap::new(),
            mappings: BTreeMap::new(),
            parents: processes.filter_map(|record| Some((record.process, record.parent?))).collect(),
            known: Vec::new(),
            cycles: Vec::new(),
            time: 0,
            now: 0,
            most: 0,
            peaks: 0,
            peak_time: 0,
        }
    }

    /// The contexts in which blocks were allocated.
    pub fn contexts(&self) -> &Contexts {
        self.stacks.contexts()
    }

    /// What became of the blocks, by call and context in the order of their first allocations. To be asked after the replay.
    pub fn points(&self) -> Vec<BlockUse> {
        let mut points = self.points.clone();
        points.iter_mut().for_each(|point| point.catch_up(self.peaks));
        for block in self.blocks.iter().filter(|block| block.is_live) {
            points[block.point as usize].lifetimes += self.time.saturating_sub(block.born);
        }
        points
    }

    /// Instructions of all threads.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// When the allocator's blocks were most bytes at once: the first time.
    pub fn peak_time(&self) -> u64 {
        self.peak_time
    }

    /// How many bytes these were.
    pub fn peak_bytes(&self) -> u64 {
        self.most
    }

    #[inline]
    fn passes(&mut self, thread: ThreadId, cycle: u64) {
        let index = thread.0 as usize;
        if index >= self.cycles.len() {
            self.cycles.resize(index + 1, u64::MAX);
        }
        let before = &mut self.cycles[index];
        if *before == u64::MAX {
            // A process may have been entered when its threads had executed instructions already.
            *before = cycle;
        }
        self.time += cycle.saturating_sub(*before);
        *before = cycle.max(*before);
    }

    /// The block that an address lies in.
    #[inline]
    fn block_at(&mut self, at: &mut Moment<'_>, addr: VirtAddr) -> Option<u32> {
        let variable = at.resolver.resolve_data(addr).variable;
        let index = variable.0 as usize;
        match self.known.get(index).copied().unwrap_or_default() {
            Known::Block(block) => Some(block),
            Known::NoBlock => None,
            Known::NotYet => self.find_block(at, variable),
        }
    }

    #[cold]
    fn find_block(&mut self, at: &Moment<'_>, id: VariableId) -> Option<u32> {
        let kind = at.resolver.names().variable(id).map(|variable| variable.kind);
        let found = match kind {
            Some(VariableKind::Block { process, block, state: BlockState::Live }) => {
                self.number(process, block)
            }
            _ => None,
        };
        let index = id.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, Known::NotYet);
        }
        self.known[index] = found.map_or(Known::NoBlock, Known::Block);
        found
    }

    /// A block by its name in a process, which may have it from the process that it was forked from.
    fn number(&self, mut process: ProcessId, block: BlockId) -> Option<u32> {
        loop {
            if let Some(&number) = self.block_of.get(&(process, block)) {
                return Some(number);
            }
            process = *self.parents.get(&process).filter(|parent| **parent < process)?;
        }
    }

    fn touch(&mut self, number: u32, addr: VirtAddr, size: u64, reads: bool, writes: bool) {
        let block = self.blocks[number as usize];
        let point = &mut self.points[block.point as usize];
        point.read_bytes += if reads { size } else { 0 };
        point.written_bytes += if writes { size } else { 0 };
        if !point.histogram.is_empty() {
            let first = addr.0.saturating_sub(block.start.0).min(block.len) as usize;
            let after = (first as u64).saturating_add(size).min(block.len) as usize;
            if let Some(bytes) = point.histogram.get_mut(first..after) {
                let times = u64::from(reads) + u64::from(writes);
                bytes.iter_mut().for_each(|count| *count += times);
            }
        }
    }

    /// A range of memory that may begin in a block.
    fn touch_range(&mut self, at: &mut Moment<'_>, addr: VirtAddr, len: u64, reads: bool) {
        if len > 0
            && let Some(number) = self.block_at(at, addr)
        {
            let block = self.blocks[number as usize];
            let inside = block.start.0.saturating_add(block.len).saturating_sub(addr.0).min(len);
            self.touch(number, addr, inside, reads, !reads);
        }
    }

    fn allocate(&mut self, at: &Moment<'_>, event: &Allocation, context: ContextId, code: CodeId) {
        let Some(hit) = at.resolver.heap().get(event.addr) else { return };
        let is_mapping = matches!(event.kind, AllocationKind::Mmap | AllocationKind::Mremap);
        let key = (context, code, is_mapping);
        let point = *self.point_of.entry(key).or_insert_with(|| {
            self.points.push(BlockUse::new(context, code, is_mapping, event.len));
            self.points.len() as u32 - 1
        });
        let number = self.blocks.len() as u32;
        let born = self.time;
        self.blocks.push(UsedBlock { point, start: event.addr, len: event.len, born, is_live: true });
        self.block_of.insert((at.process, hit.block), number);
        let use_ = &mut self.points[point as usize];
        use_.catch_up(self.peaks);
        use_.allocate(event.len);
        if is_mapping {
            self.mappings.insert((at.process, event.addr), number);
        } else {
            self.now += event.len;
            if self.now > self.most {
                (self.most, self.peak_time) = (self.now, self.time);
                self.peaks += 1;
            }
        }
    }

    fn release(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        if !std::mem::take(&mut block.is_live) {
            return;
        }
        let block = *block;
        let point = &mut self.points[block.point as usize];
        point.catch_up(self.peaks);
        point.live.blocks -= 1;
        point.live.bytes -= block.len;
        point.lifetimes += self.time.saturating_sub(block.born);
        if !point.is_mapping {
            self.now -= block.len;
        }
    }

    /// The block that begins at an address that was given back, if this process allocated it.
    fn released(&self, at: &Moment<'_>, addr: VirtAddr) -> Option<u32> {
        let hit = at.resolver.heap().get(addr).filter(|hit| hit.offset == 0)?;
        self.block_of.get(&(at.process, hit.block)).copied()
    }

    fn allocation(&mut self, at: &Moment<'_>, event: &Allocation, context: ContextId, code: CodeId) {
        match event.kind {
            AllocationKind::Free => {
                if let Some(number) = self.released(at, event.addr) {
                    self.release(number);
                }
            }
            AllocationKind::Munmap => self.unmap(at.process, event.addr, event.len),
            AllocationKind::Realloc => {
                // The old block may have been where the new one is: it is known by its address, not by the map.
                let old = self.starting_at(at, event.old_addr, event.addr);
                let copied = old.map(|old| self.blocks[old as usize].len.min(event.len));
                if let (Some(old), Some(copied)) = (old, copied) {
                    self.touch(old, event.old_addr, copied, true, false);
                    self.release(old);
                }
                self.allocate(at, event, context, code);
                let new = at.resolver.heap().get(event.addr).map(|hit| (at.process, hit.block));
                let new = new.and_then(|key| self.block_of.get(&key).copied());
                if let (Some(new), Some(copied)) = (new, copied) {
                    self.touch(new, event.addr, copied, false, true);
                }
            }
            AllocationKind::Mremap => {
                self.unmap(at.process, event.old_addr, event.old_len);
                self.allocate(at, event, context, code);
            }
            AllocationKind::Malloc | AllocationKind::Calloc | AllocationKind::Mmap => {
                self.allocate(at, event, context, code);
            }
            AllocationKind::Brk => {}
        }
    }

    /// The block that a reallocation gave up.
    fn starting_at(&self, at: &Moment<'_>, old: VirtAddr, new: VirtAddr) -> Option<u32> {
        if old != new {
            return self.released(at, old);
        }
        // The map has the new block there already; the old one is the last before it that began there and still lives.
        let new = at.resolver.heap().get(new)?.block;
        let key = |id: u32| (at.process, BlockId(id));
        (0..new.0).rev().take(1 << 16).filter_map(|id| self.block_of.get(&key(id)).copied()).find(|&number| {
            let block = self.blocks[number as usize];
            block.is_live && block.start == old
        })
    }

    /// Mappings that begin in what was given back are gone.
    fn unmap(&mut self, process: ProcessId, addr: VirtAddr, len: u64) {
        let range = (process, addr)..(process, VirtAddr(addr.0.saturating_add(len)));
        let gone: Vec<u32> = self.mappings.range(range).map(|(_, &number)| number).collect();
        gone.into_iter().for_each(|number| self.release(number));
    }
}

impl BlockUse {
    fn new(context: ContextId, code: CodeId, is_mapping: bool, len: u64) -> Self {
        let none = BlockSum::default();
        let histogram = if len <= MAX_HISTOGRAM { vec![0; len as usize] } else { Vec::new() };
        Self {
            context,
            code,
            is_mapping,
            total: none,
            most: none,
            peak: none,
            live: none,
            lifetimes: 0,
            read_bytes: 0,
            written_bytes: 0,
            histogram,
            peaks: 0,
        }
    }

    /// Before it changes: it has not changed since the last peak, so what it has now is what it had then.
    fn catch_up(&mut self, peaks: u64) {
        if self.peaks != peaks {
            (self.peak, self.peaks) = (self.live, peaks);
        }
    }

    fn allocate(&mut self, len: u64) {
        self.total.blocks += 1;
        self.total.bytes += len;
        self.live.blocks += 1;
        self.live.bytes += len;
        if self.live.bytes > self.most.bytes {
            self.most = self.live;
        }
        if self.histogram.len() as u64 != len {
            self.histogram = Vec::new();
        }
    }
}

impl Tool for BlockUses {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.stacks.access(at, access);
            self.passes(at.thread, access.cycle);
            if access.kind != AccessKind::Prefetch
                && let Some(number) = self.block_at(at, access.addr)
            {
                let reads = matches!(access.kind, AccessKind::Load | AccessKind::Modify);
                let writes = matches!(access.kind, AccessKind::Store | AccessKind::Modify);
                self.touch(number, access.addr, u64::from(access.size), reads, writes);
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        self.passes(at.thread, event.cycle());
        match event {
            Event::Block(op) => {
                if matches!(op.kind, BlockKind::Copy | BlockKind::Fetch) {
                    self.touch_range(at, op.src, op.len, true);
                }
                if matches!(op.kind, BlockKind::Copy | BlockKind::Fill) {
                    self.touch_range(at, op.dst, op.len, false);
                }
            }
            Event::Allocation(event) => {
                if let Some(CallPlace { context, code }) = place {
                    self.allocation(at, event, context, code);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

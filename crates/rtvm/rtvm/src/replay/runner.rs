//! The two systems, side by side over the same actions.

use std::cell::{Cell, RefCell};

use super::area::Area;
use super::{Action, BlockId, Costs, ReplayOutcome};
use crate::model::{Meter, ModelHeap, ModelMemory, Paging, Touches};
use crate::tlsf::HeapMemory;
use crate::{
    AddressSpace, BitTrie, Conventional, Counted, Error, Lane, Lookups, Page, PhysicalMemory, Rights,
    SpaceWords,
};

/// What is modelled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// Pages of each address space.
    pub pages: u32,
    /// How many of them are for the heap; the rest is for regions beside it.
    pub heap_pages: u32,
    /// Base-2 logarithm of the bytes of a page.
    pub page_bits: u32,
    /// Frames of the physical memory.
    pub frames: u32,
    /// What touches cost.
    pub costs: Costs,
}

impl Default for ReplayOptions {
    /// 16 GiB of address space in pages of 4 KiB, all for the heap, and as much memory.
    fn default() -> Self {
        Self { pages: 1 << 22, heap_pages: 1 << 22, page_bits: 12, frames: 1 << 22, costs: Costs::PAPER }
    }
}

/// Actions whose words are read ahead.
const AHEAD: usize = 64;

/// Arrays of the RTMMU that lie beside each other.
const LANES: usize = 8;
/// CountedWords of a cache line.
const LINE_WORDS: usize = 16;

type CountedWords<'a> = Counted<'a, Lane<'a, u32, LANES>>;
type Plain<'a> = Counted<'a, Vec<u32>>;
type Tree<'a> = BitTrie<Counted<'a, Vec<u64>>>;
type Rtmmu<'a> = AddressSpace<CountedWords<'a>, Tree<'a>>;
type Classic<'a> = Conventional<Plain<'a>, Tree<'a>>;
type Frames<'a> = RefCell<PhysicalMemory<Plain<'a>>>;

/// A block or a mapping of the program, where this system has it.
#[derive(Clone, Copy)]
struct HeldBlock {
    addr: u64,
    bytes: u64,
}

/// An access, as far as the next one may be the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LastAccess {
    space: usize,
    page: u64,
    store: bool,
}

/// One system: its address spaces over one physical memory.
struct Runner<'a, P> {
    heaps: Vec<ModelHeap<'a, P, Plain<'a>>>,
    /// By address space and number.
    blocks: Vec<Vec<Option<HeldBlock>>>,
    /// Pages for regions beside the heap, by address space.
    areas: Vec<Area>,
    frames: &'a Frames<'a>,
    meter: &'a Meter,
    costs: Costs,
    /// Where the last access went, while nothing has changed since: the next one to the same page can only be a hit.
    last: Option<LastAccess>,
    /// Frames in use before and after each call of the batch.
    points: Vec<u32>,
    outcome: ReplayOutcome,
}

impl<'a, P: Paging> Runner<'a, P> {
    fn new(
        spaces: Vec<P>,
        frames: &'a Frames<'a>,
        meter: &'a Meter,
        options: &ReplayOptions,
    ) -> Result<Self, Error> {
        let blocks = spaces.iter().map(|_| Vec::new()).collect();
        let areas = spaces.iter().map(|_| Area::new(options.heap_pages, options.pages)).collect();
        let heaps = spaces
            .into_iter()
            .map(|space| ModelMemory::heap(space, frames, options.page_bits, options.heap_pages))
            .collect::<Result<_, _>>()?;
        let outcome = ReplayOutcome { peak_pages: frames.borrow().used(), ..Default::default() };
        Ok(Self {
            heaps,
            blocks,
            areas,
            frames,
            meter,
            costs: options.costs,
            last: None,
            points: vec![],
            outcome,
        })
    }

    fn used(&self) -> u32 {
        self.frames.borrow().used()
    }

    /// Counters of everything that a call touches.
    fn counters(&self, space: usize) -> (Touches, Lookups) {
        let memory = self.heaps[space].memory();
        let (control, tags) = memory.touches();
        (Touches { control, tags, ..self.meter.read() }, memory.paging().lookups())
    }

    /// Runs a call of the allocator and measures it.
    fn call<R>(
        &mut self,
        space: usize,
        call: impl FnOnce(&mut ModelHeap<'a, P, Plain<'a>>) -> Result<R, Error>,
    ) -> (Option<R>, u64, f64) {
        self.last = None;
        let used = self.used();
        self.points.push(used);
        self.outcome.peak_pages = self.outcome.peak_pages.max(used);
        let before = self.counters(space);
        let result = call(&mut self.heaps[space]);
        let after = self.counters(space);
        let touches = after.0 - before.0;
        let lookups = Lookups {
            lookups: after.1.lookups - before.1.lookups,
            read_pointer: after.1.read_pointer - before.1.read_pointer,
            read_stack: after.1.read_stack - before.1.read_stack,
            ..Default::default()
        };
        let ns = self.costs.call(&touches, &lookups);
        let used = self.used();
        self.points.push(used);
        self.outcome.peak_pages = self.outcome.peak_pages.max(used);
        if let Err(error) = &result {
            self.outcome.failures.count(error);
        }
        (result.ok(), touches.total(), ns)
    }

    fn allocated(&mut self, bytes: u64, touches: u64, ns: f64) {
        let outcome = &mut self.outcome;
        outcome.max_alloc_touches = outcome.max_alloc_touches.max(touches);
        outcome.max_alloc_ns = outcome.max_alloc_ns.max(ns);
        outcome.alloc_points.add(bytes as f64, ns);
    }

    fn released(&mut self, space: usize, bytes: u64, touches: u64, ns: f64) {
        let unmapped = self.heaps[space].memory_mut().take_unmapped();
        let outcome = &mut self.outcome;
        outcome.max_free_touches = outcome.max_free_touches.max(touches);
        outcome.max_free_ns = outcome.max_free_ns.max(ns);
        outcome.max_pages_unmapped_by_one_free = outcome.max_pages_unmapped_by_one_free.max(unmapped);
        outcome.free_points.add(bytes as f64, ns);
    }

    fn malloc(&mut self, space: usize, align_bits: u8, bytes: u64) -> Option<HeldBlock> {
        let align = 1_u64 << align_bits.clamp(4, 63);
        let (addr, touches, ns) = self.call(space, |heap| heap.memalign(align, bytes));
        self.allocated(bytes, touches, ns);
        addr.map(|addr| HeldBlock { addr, bytes })
    }

    fn free(&mut self, space: usize, block: HeldBlock) {
        let (_, touches, ns) = self.call(space, |heap| heap.free(block.addr));
        self.released(space, block.bytes, touches, ns);
    }

    fn pages_of(&self, space: usize, bytes: u64) -> u32 {
        let page = self.heaps[space].memory().page_bytes();
        u32::try_from(bytes.div_ceil(page)).unwrap_or(u32::MAX).max(1)
    }

    fn map(&mut self, space: usize, counted: bool, bytes: u64) -> Option<HeldBlock> {
        let pages = self.pages_of(space, bytes);
        let Some(first) = self.areas[space].take(pages) else {
            self.outcome.failures.count(&Error::OutOfAddressSpace { bytes });
            return None;
        };
        let (made, touches, ns) = self.call(space, |heap| heap.memory_mut().map_region(Page(first), pages));
        if counted {
            self.allocated(bytes, touches, ns);
        }
        let addr = u64::from(first) * self.heaps[space].memory().page_bytes();
        made.map(|()| HeldBlock { addr, bytes })
    }

    fn unmap(&mut self, space: usize, block: HeldBlock) {
        let first = self.heaps[space].memory().page_of(block.addr) as u32;
        let (_, touches, ns) = self.call(space, |heap| heap.memory_mut().unmap_region(Page(first)));
        self.released(space, block.bytes, touches, ns);
        let pages = self.pages_of(space, block.bytes);
        self.areas[space].give(first, pages);
    }

    fn block(&mut self, space: usize, id: BlockId) -> Option<HeldBlock> {
        let block = self.blocks[space].get(id as usize).copied().flatten();
        self.outcome.failures.on_missing_blocks += u64::from(block.is_none());
        block
    }

    fn set_block(&mut self, space: usize, id: BlockId, block: Option<HeldBlock>) {
        let blocks = &mut self.blocks[space];
        if blocks.len() <= id as usize {
            blocks.resize(id as usize + 1, None);
        }
        blocks[id as usize] = block;
    }

    fn run(&mut self, space: usize, actions: &[Action]) {
        for actions in actions.chunks(AHEAD) {
            self.warm(space, actions);
            self.run_some(space, actions);
            // So few actions have no peak of their own that would change the mean.
            self.outcome.actions += actions.len() as u64;
            self.outcome.page_actions += u64::from(self.used()) * actions.len() as u64;
        }
        self.outcome.peak_pages = self.outcome.peak_pages.max(self.used());
    }

    /// Reads what the next accesses need, all at once: one after the other, each would wait for memory. A block that is
    /// made or released meanwhile makes this read in vain, nothing else.
    #[inline]
    fn warm(&self, space: usize, actions: &[Action]) {
        let memory = self.heaps[space].memory();
        let mut last = u64::MAX;
        let mut sum = 0_u32;
        for action in actions {
            if let Action::Access { id, offset, .. } = *action
                && let Some(Some(block)) = self.blocks[space].get(id as usize)
                && memory.page_of(block.addr + offset) != last
            {
                last = memory.page_of(block.addr + offset);
                sum = sum.wrapping_add(memory.warm(block.addr + offset));
            }
        }
        std::hint::black_box(sum);
    }

    fn run_some(&mut self, space: usize, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Access { id, store, offset } => {
                    self.outcome.accesses += 1;
                    let Some(block) = self.block(space, id) else { continue };
                    let addr = block.addr + offset;
                    let memory = self.heaps[space].memory_mut();
                    let page = memory.page_of(addr);
                    if self
                        .last
                        .is_some_and(|last| (last.space, last.page) == (space, page) && last.store >= store)
                    {
                        continue;
                    }
                    let wanted = if store { Rights::WRITE } else { Rights::READ };
                    match memory.access(addr, wanted) {
                        Ok(()) => self.last = Some(LastAccess { space, page, store }),
                        Err(error) => self.outcome.failures.count(&error),
                    }
                }
                Action::Malloc { id, align_bits, bytes } => {
                    self.outcome.allocations += 1;
                    let block = self.malloc(space, align_bits, bytes);
                    self.set_block(space, id, block);
                }
                Action::Free { id } => {
                    self.outcome.frees += 1;
                    if let Some(block) = self.block(space, id) {
                        self.free(space, block);
                        self.set_block(space, id, None);
                    }
                }
                Action::Map { id, counted, bytes } => {
                    self.outcome.allocations += u64::from(counted);
                    let block = self.map(space, counted, bytes);
                    self.set_block(space, id, block);
                }
                Action::Unmap { id } => {
                    self.outcome.frees += 1;
                    if let Some(block) = self.block(space, id) {
                        self.unmap(space, block);
                        self.set_block(space, id, None);
                    }
                }
                Action::Realloc { id, bytes } => {
                    self.outcome.allocations += 1;
                    let Some(block) = self.block(space, id) else { continue };
                    let block = self.realloc(space, block, bytes);
                    self.set_block(space, id, Some(block));
                }
            }
        }
    }

    /// What [`crate::tlsf::Tlsf::realloc`] does, its parts measured one by one: the copying is the program's, not the
    /// memory management's.
    fn realloc(&mut self, space: usize, old: HeldBlock, bytes: u64) -> HeldBlock {
        let usable = self.heaps[space].usable(old.addr).unwrap_or(0);
        let fits = bytes <= usable;
        if fits && usable - bytes < self.heaps[space].memory().page_bytes() {
            return HeldBlock { bytes, ..old };
        }
        let Some(new) = self.malloc(space, 0, bytes) else {
            return if fits { HeldBlock { bytes, ..old } } else { old };
        };
        self.last = None;
        let kept = old.bytes.min(bytes);
        if let Err(error) = self.heaps[space].memory_mut().copy(old.addr, new.addr, kept) {
            self.outcome.failures.count(&error);
            self.free(space, new);
            return old;
        }
        self.free(space, old);
        new
    }
}

/// Both systems.
pub struct Replay<'a> {
    rtmmu: Runner<'a, Rtmmu<'a>>,
    conventional: Runner<'a, Classic<'a>>,
    above: u64,
}

impl std::fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("above", &self.above).finish_non_exhaustive()
    }
}

impl Replay<'_> {
    /// Lets both systems do the actions of one address space.
    pub fn run(&mut self, space: usize, actions: &[Action]) {
        self.rtmmu.run(space, actions);
        self.conventional.run(space, actions);
        let points = self.rtmmu.points.drain(..).zip(self.conventional.points.drain(..));
        for (rtmmu, conventional) in points {
            self.rtmmu.outcome.footprint.push(rtmmu);
            self.conventional.outcome.footprint.push(conventional);
            self.above += u64::from(rtmmu > conventional);
        }
    }

    /// The RTMMU's outcome so far.
    pub fn rtmmu(&self) -> &ReplayOutcome {
        &self.rtmmu.outcome
    }

    /// The conventional system's outcome so far.
    pub fn conventional(&self) -> &ReplayOutcome {
        &self.conventional.outcome
    }

    /// Points at which the RTMMU's footprint was above the other's. None, unless something failed in one of them.
    pub fn points_above(&self) -> u64 {
        self.above
    }

    /// The cases of Lemma 1 that the accesses of one address space met.
    pub fn lookups(&self, space: usize) -> Lookups {
        self.rtmmu.heaps[space].memory().paging().lookups()
    }
}

/// Makes both systems with `spaces` address spaces, and lets `run` use them.
///
/// # Errors
/// Where the options allow no system: a page number out of range, or too few frames for a first page each.
///
/// # Panics
/// Where there are more than 2^27 pages.
pub fn with_replay<R>(
    options: &ReplayOptions,
    spaces: usize,
    run: impl FnOnce(&mut Replay<'_>) -> R,
) -> Result<R, Error> {
    let pages = options.pages as usize;
    // Room to begin at a cache line, so that all words of a page lie in one.
    let mut words: Vec<Vec<u32>> = (0..spaces).map(|_| vec![0; pages * LANES + LINE_WORDS]).collect();
    let meters = [Meter::default(), Meter::default()];
    let tree = |meter| {
        let words = vec![0; BitTrie::<Vec<u64>>::words_for(options.pages)];
        BitTrie::new(Counted::new(words, meter), options.pages)
    };
    let frames: [Frames<'_>; 2] = [0, 1].map(|which: usize| {
        let links = Counted::new(vec![0; options.frames as usize], &meters[which].frames);
        RefCell::new(PhysicalMemory::new(links))
    });
    let meter = &meters[0];
    let rtmmu = words.iter_mut().map(|words| {
        let skip = words.as_ptr().align_offset(LINE_WORDS * size_of::<u32>()).min(LINE_WORDS);
        let words = &mut words[skip..skip + pages * LANES];
        let cells: &[Cell<u32>] = Cell::from_mut(words).as_slice_of_cells();
        let lane = |lane, touches| Counted::new(Lane::new(cells, lane), touches);
        let words = SpaceWords {
            cache: lane(0, &meter.cache),
            helper: lane(1, &meter.helper),
            stack: lane(2, &meter.helper),
            table: lane(3, &meter.table),
            pointers: lane(4, &meter.cache),
            region_pages: lane(5, &meter.regions),
            region_starts: lane(6, &meter.regions),
            region_frames: lane(7, &meter.regions),
        };
        AddressSpace::new(tree(&meter.regions), words)
    });
    let rtmmu = Runner::new(rtmmu.collect(), &frames[0], meter, options)?;
    let meter = &meters[1];
    let conventional = (0..spaces).map(|_| {
        let zeros = |touches| Counted::new(vec![0; pages], touches);
        Conventional::new(tree(&meter.regions), zeros(&meter.table), zeros(&meter.regions))
    });
    let conventional = Runner::new(conventional.collect(), &frames[1], meter, options)?;
    Ok(run(&mut Replay { rtmmu, conventional, above: 0 }))
}

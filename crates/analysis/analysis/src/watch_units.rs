//! Analyses on watchpoint units: demand-driven, as in sections 3.1 to 3.3 of Unlimited Watchpoints.
//!
//! All units give the same answers. Therefore an analysis runs once, and every unit of a [`UnitSet`] receives
//! the same queries and updates. The result is the events that each unit would have had, and their cost.

use std::ops::Range;

use memref::{Access, AccessKind, BlockOp, Event, ProcessId, Sync, SyncKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use serde::Serialize;
use symbols::{RegionId, Resolver};
use watch_models::{
    Change, CostModel, Counters, Cycles, Origin, UnitKind, VirtualMemory, Watched, WatchpointUnit,
};

use crate::{Error, Moment, Tool};

/// Units that see the same program.
pub struct UnitSet {
    units: Vec<Box<dyn WatchpointUnit>>,
}

impl std::fmt::Debug for UnitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.units.iter().map(|unit| unit.kind())).finish()
    }
}

impl UnitSet {
    /// Units of these kinds, with the paper's sizes.
    pub fn new(kinds: &[UnitKind]) -> Self {
        Self { units: kinds.iter().map(|kind| kind.build()).collect() }
    }

    pub(crate) fn check(&mut self, thread: ThreadId, addr: VirtAddr, len: u64, kind: AccessKind) -> bool {
        let mut hit = false;
        for unit in &mut self.units {
            hit = unit.check(thread, addr.0, len, kind);
        }
        hit
    }

    /// The units.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn WatchpointUnit> {
        self.units.iter().map(Box::as_ref)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub(crate) fn set(&mut self, thread: ThreadId, range: Range<VirtAddr>, watched: Watched, origin: Origin) {
        let range = range.start.0..range.end.0;
        self.each(|unit| unit.change(thread, range.clone(), Change::Set(watched), origin));
    }

    fn each(&mut self, mut change: impl FnMut(&mut dyn WatchpointUnit)) {
        self.units.iter_mut().for_each(|unit| change(unit.as_mut()));
    }
}

/// What an analysis would take on one unit.
#[derive(Clone, Debug, Serialize)]
pub struct UnitFigure {
    /// The unit's name on the command line.
    pub unit: &'static str,
    /// Bytes that a watchpoint is set or removed for at a time.
    pub granule: u64,
    /// Accesses per miss of the unit's first cache (Figures 6, 8 and 10); null where nothing missed or there is no cache.
    pub accesses_per_miss: Option<f64>,
    /// The same with the misses of the lookaside buffer.
    pub accesses_per_any_miss: Option<f64>,
    /// Cycles that the unit's events take, by the cost model.
    pub cycles: f64,
    /// These by cause.
    pub cycles_by_cause: Cycles,
    /// How much faster the program is than with the baseline (Figures 7, 9 and 11).
    pub relative_performance: f64,
    /// The events.
    pub counters: Counters,
}

pub(crate) fn figure(
    unit: &dyn WatchpointUnit,
    granule: u64,
    model: &CostModel,
    baseline: f64,
) -> UnitFigure {
    let counters = *unit.counters();
    let program = counters.accesses as f64 * model.software.program_access;
    let cycles = unit.cost(model);
    let has_cache = unit.kind() != UnitKind::VirtualMemory;
    UnitFigure {
        unit: unit.kind().name(),
        granule,
        accesses_per_miss: counters.accesses_per_miss().filter(|_| has_cache),
        accesses_per_any_miss: counters.accesses_per_any_miss().filter(|_| has_cache),
        cycles: cycles.total(),
        cycles_by_cause: cycles,
        relative_performance: (program + baseline) / (program + cycles.total()).max(1.0),
        counters,
    }
}

/// Regions of a process that are watched, as far as they are known.
#[derive(Debug, Default)]
struct KnownRegions {
    lens: FxHashMap<RegionId, u64>,
    ranges: Vec<Range<u64>>,
}

impl KnownRegions {
    /// The part of the region of `addr` that was not known yet.
    fn discover(&mut self, resolver: &mut Resolver, addr: VirtAddr) -> Option<Range<u64>> {
        let id = resolver.resolve_region(addr)?;
        let region = resolver.image().regions().region(id)?;
        let (start, len) = (region.start.0, region.len);
        let known = self.lens.insert(id, len).unwrap_or(0);
        if known >= len {
            return None;
        }
        let range = start + known..start + len;
        self.ranges.push(range.clone());
        Some(range)
    }
}

/// One of the accesses that a block operation is.
struct AccessPart {
    addr: VirtAddr,
    len: u64,
    kind: AccessKind,
}

/// Accesses of a block operation, as the analyses see them.
fn parts(block: &BlockOp) -> impl Iterator<Item = AccessPart> {
    let reads = [block.read(), block.compared()].into_iter().flatten();
    let reads = reads.map(|(addr, len)| AccessPart { addr, len, kind: AccessKind::Load });
    let written = block.written().map(|(addr, len)| AccessPart { addr, len, kind: AccessKind::Store });
    reads.chain(written).filter(|part| part.len > 0)
}

/// The sharing detection of section 3.3: everything is watched for every thread at first; a read that faults takes the
/// thread's read watchpoint away and watches the others' writes, a write that faults takes both away and watches all that
/// the others do. What faults after that is sharing, and goes to the slow detector.
#[derive(Debug)]
pub struct Sharing {
    units: UnitSet,
    known: FxHashMap<ProcessId, KnownRegions>,
    /// Threads that have accessed something and were not joined: others change their watchpoints.
    threads: FxHashMap<ProcessId, Vec<ThreadId>>,
    /// Threads by the handles that others join them by.
    handles: FxHashMap<(ProcessId, u64), ThreadId>,
}

impl Sharing {
    /// On units of these kinds.
    pub fn new(kinds: &[UnitKind]) -> Self {
        Self {
            units: UnitSet::new(kinds),
            known: FxHashMap::default(),
            threads: FxHashMap::default(),
            handles: FxHashMap::default(),
        }
    }

    /// What each unit would take; the baseline checks every access in software.
    pub fn figures(&self, model: &CostModel) -> Vec<UnitFigure> {
        let units = self.units.units.iter();
        units
            .map(|unit| {
                let baseline = unit.counters().accesses as f64 * model.software.race_access;
                figure(unit.as_ref(), 1, model, baseline)
            })
            .collect()
    }

    fn enter(&mut self, at: &Moment<'_>) {
        let threads = self.threads.entry(at.process).or_default();
        if threads.contains(&at.thread) {
            return;
        }
        threads.push(at.thread);
        for range in self.known.entry(at.process).or_default().ranges.clone() {
            self.units.each(|unit| unit.set(at.thread, range.clone(), Watched::BOTH));
        }
    }

    fn access(&mut self, at: &mut Moment<'_>, addr: VirtAddr, len: u64, kind: AccessKind) {
        if kind == AccessKind::Prefetch {
            return;
        }
        self.enter(at);
        let Some(threads) = self.threads.get(&at.process) else { return };
        if let Some(range) = self.known.entry(at.process).or_default().discover(at.resolver, addr) {
            for &thread in threads {
                self.units.each(|unit| unit.set(thread, range.clone(), Watched::BOTH));
            }
        }
        if !self.units.check(at.thread, addr, len, kind) {
            return;
        }
        let range = addr.0..addr.0.saturating_add(len);
        for &thread in threads {
            self.units.each(|unit| match (thread == at.thread, kind.writes()) {
                (true, false) => unit.remove(thread, range.clone(), Watched::READ),
                (true, true) => unit.set(thread, range.clone(), Watched::NONE),
                (false, false) => unit.add_remote(thread, range.clone(), Watched::WRITE),
                (false, true) => unit.set_remote(thread, range.clone(), Watched::BOTH),
            });
        }
    }
}

impl Tool for Sharing {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.access(at, access.addr, access.size.into(), access.kind);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => {
                for AccessPart { addr, len, kind } in parts(block) {
                    self.access(at, addr, len, kind);
                }
            }
            Event::Sync(sync) if sync.kind == SyncKind::Start => {
                self.handles.insert((at.process, sync.value), at.thread);
            }
            // Who was joined runs on no core any more, so nobody watches anything for it.
            Event::Sync(sync) if sync.kind == SyncKind::Join => {
                if let Some(gone) = self.handles.remove(&(at.process, sync.object.0))
                    && let Some(threads) = self.threads.get_mut(&at.process)
                {
                    threads.retain(|&thread| thread != gone);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Bytes of a cache line, the granule of the paper's deterministic execution.
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = VirtAddr::PAGE_BYTES;

/// Deterministic execution (section 3.2): everything is watched for a thread when a region of it begins; the first read of
/// a granule takes its read watchpoint away, the first write both.
#[derive(Debug)]
pub struct ReadWriteSets {
    /// 4 KiB at a time in virtual memory, the baseline, and 64 bytes at a time.
    sets: [(u64, UnitSet); 2],
    known: FxHashMap<ProcessId, KnownRegions>,
    threads: FxHashMap<ProcessId, Vec<ThreadId>>,
}

impl ReadWriteSets {
    /// On units of these kinds.
    pub fn new(kinds: &[UnitKind]) -> Self {
        let baseline = UnitSet { units: vec![Box::new(VirtualMemory::new(PAGE_BYTES))] };
        Self {
            sets: [(PAGE_BYTES, baseline), (LINE_BYTES, UnitSet::new(kinds))],
            known: FxHashMap::default(),
            threads: FxHashMap::default(),
        }
    }

    /// What each unit would take; the baseline removes watchpoints of virtual memory a page at a time, and comes first.
    pub fn figures(&self, model: &CostModel) -> Vec<UnitFigure> {
        let baseline = self.sets[0].1.units.first().map_or(0.0, |unit| unit.cost(model).total());
        let all =
            self.sets.iter().flat_map(|(granule, set)| set.units.iter().map(move |unit| (*granule, unit)));
        all.map(|(granule, unit)| figure(unit.as_ref(), granule, model, baseline)).collect()
    }

    /// A region of the thread begins: it has read and written nothing.
    fn begin(&mut self, at: &Moment<'_>) {
        for range in self.known.entry(at.process).or_default().ranges.clone() {
            for (_, set) in &mut self.sets {
                set.each(|unit| unit.set(at.thread, range.clone(), Watched::BOTH));
            }
        }
    }

    fn access(&mut self, at: &mut Moment<'_>, addr: VirtAddr, len: u64, kind: AccessKind) {
        if kind == AccessKind::Prefetch {
            return;
        }
        if !self.threads.entry(at.process).or_default().contains(&at.thread) {
            self.threads.entry(at.process).or_default().push(at.thread);
            self.begin(at);
        }
        if let Some(range) = self.known.entry(at.process).or_default().discover(at.resolver, addr) {
            for &thread in self.threads.get(&at.process).into_iter().flatten() {
                for (_, set) in &mut self.sets {
                    set.each(|unit| unit.set(thread, range.clone(), Watched::BOTH));
                }
            }
        }
        for (granule, set) in &mut self.sets {
            if set.check(at.thread, addr, len, kind) {
                let start = addr.0 & !(*granule - 1);
                let end = addr.0.saturating_add(len).next_multiple_of(*granule);
                let gone = if kind.writes() { Watched::BOTH } else { Watched::READ };
                set.each(|unit| unit.remove(at.thread, start..end, gone));
            }
        }
    }
}

/// Whether a thread's region ends at an event: what it did is merged with what others did.
pub(crate) fn ends_region(event: &Sync) -> bool {
    use memref::SyncFunction::OpenMp;
    match event.kind {
        SyncKind::Create | SyncKind::Start | SyncKind::Exit | SyncKind::Join | SyncKind::Depart => true,
        // Entering and leaving a parallel region.
        SyncKind::Acquire | SyncKind::Release => {
            event.function == OpenMp && matches!(event.object.0 & 7, 1 | 3)
        }
        _ => false,
    }
}

impl Tool for ReadWriteSets {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.access(at, access.addr, access.size.into(), access.kind);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(block) => {
                for AccessPart { addr, len, kind } in parts(block) {
                    self.access(at, addr, len, kind);
                }
            }
            Event::Sync(sync) if ends_region(sync) => self.begin(at),
            _ => {}
        }
        Ok(())
    }
}

//! A replay through the cache model: misses by the data accessed, or by the code that accesses it.

use memref::{Access, AccessKind, BlockOp, Event, ProcessId, SyncKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::Resolver;
use trace_format::Filter;

use super::shape::LineShare;
use super::{CacheModel, CacheSetup, CacheTotals, MissedLevels};
use crate::block_lines::line_accesses;
use crate::lines::TouchedLines;
use crate::replay::SliceWorker;
use crate::stack::SiteStyle;
use crate::stack::{CallPlace, StackNames, Stacks};
use crate::tally::{Grouper, Numbering, slot};
use crate::{AccessRow, By, Error, Moment, Session, Tool};

/// Misses of each level: by accesses that read, and by those that only write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelMisses {
    /// Of the first level.
    pub l1_loads: u64,
    /// Of the first level.
    pub l1_stores: u64,
    /// Of the second level.
    pub l2_loads: u64,
    /// Of the second level.
    pub l2_stores: u64,
    /// Of the last level.
    pub ll_loads: u64,
    /// Of the last level.
    pub ll_stores: u64,
    /// Of the private levels, because another thread had taken the line: these are in the others, too.
    pub coherence: u64,
}

impl LevelMisses {
    /// Of the first level, by all accesses.
    pub fn l1(&self) -> u64 {
        self.l1_loads + self.l1_stores
    }

    /// Of the second level, by all accesses.
    pub fn l2(&self) -> u64 {
        self.l2_loads + self.l2_stores
    }

    /// Of the last level, by all accesses.
    pub fn ll(&self) -> u64 {
        self.ll_loads + self.ll_stores
    }

    fn add(&mut self, missed: MissedLevels, reads: bool) {
        let [l1, l2, ll] = [missed.l1, missed.l2, missed.ll].map(u64::from);
        if reads {
            self.l1_loads += l1;
            self.l2_loads += l2;
            self.ll_loads += ll;
        } else {
            self.l1_stores += l1;
            self.l2_stores += l2;
            self.ll_stores += ll;
        }
        self.coherence += u64::from(missed.coherence);
    }
}

impl std::ops::AddAssign for LevelMisses {
    fn add_assign(&mut self, other: Self) {
        self.l1_loads += other.l1_loads;
        self.l1_stores += other.l1_stores;
        self.l2_loads += other.l2_loads;
        self.l2_stores += other.l2_stores;
        self.ll_loads += other.ll_loads;
        self.ll_stores += other.ll_stores;
        self.coherence += other.coherence;
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct MissRow {
    /// What, without counts of accesses; of a stack its functions, innermost first.
    pub row: AccessRow,
    /// Its misses.
    pub misses: LevelMisses,
    /// The functions of a stack, outermost first.
    pub stack: Vec<String>,
}

/// What misses are counted to.
#[derive(Debug)]
enum MissKeys {
    Numbered(By, Numbering),
    /// Instructions in their contexts.
    Places {
        number_of: FxHashMap<CallPlace, u32>,
        places: Vec<CallPlace>,
        stacks: Box<Stacks>,
    },
}

/// What an access missed of one share, where it is to lines of several.
#[derive(Clone, Copy, Debug)]
struct PartlyMissed {
    /// Which access.
    told: u64,
    number: u32,
    reads: bool,
    missed: MissedLevels,
}

/// Fewer shares than these are not worth it.
const FEWEST_SHARES: usize = 3;

/// Counts misses in a replay.
#[derive(Debug)]
pub struct CacheMisses {
    model: CacheModel,
    line_shift: u32,
    /// The lines that it counts.
    share: LineShare,
    partly_missed: Vec<PartlyMissed>,
    touched: TouchedLines,
    /// The core of each thread that runs, and cores of threads that have ended.
    core_of: Vec<Option<usize>>,
    idle: Vec<usize>,
    keys: MissKeys,
    counts: Vec<LevelMisses>,
    total: LevelMisses,
    loads: u64,
    stores: u64,
    /// Missing events, which can have been accesses.
    pub missing: u64,
}

impl CacheMisses {
    /// For rows of that kind; `None`: of stacks. `touched` are the lines that threads share.
    ///
    /// # Errors
    /// Where the trace can't be read: types of heap blocks take a replay of their own.
    pub fn new(
        session: &Session,
        setup: CacheSetup,
        by: Option<By>,
        touched: TouchedLines,
    ) -> Result<Self, Error> {
        let keys = match by {
            Some(by) => MissKeys::Numbered(by, Numbering::new(by, session)?),
            None => MissKeys::Places {
                number_of: FxHashMap::default(),
                places: Vec::new(),
                stacks: Box::new(Stacks::new(session)),
            },
        };
        Ok(Self::of(setup, keys, touched))
    }

    fn of(setup: CacheSetup, keys: MissKeys, touched: TouchedLines) -> Self {
        Self {
            model: CacheModel::new(setup),
            line_shift: setup.l1.line_bytes.trailing_zeros(),
            share: LineShare::ALL,
            partly_missed: Vec::new(),
            touched,
            core_of: Vec::new(),
            idle: Vec::new(),
            keys,
            counts: Vec::new(),
            total: LevelMisses::default(),
            loads: 0,
            stores: 0,
            missing: 0,
        }
    }

    /// Replays all of a session, on several cores where sets have nothing to do with each other; gives the resolvers as they are at
    /// the end.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session) -> Result<Vec<Resolver>, Error> {
        let setup = self.model.setup();
        // Each share is told every access, which is half of the work: on two cores, two shares took as long as one, and twice the
        // processor time.
        let shares = setup.shares(if session.workers() < FEWEST_SHARES { 1 } else { session.workers() });
        let by = match &self.keys {
            MissKeys::Numbered(by, Numbering::Variable) if shares.len() > 1 => *by,
            _ => return session.replay(&Filter::default(), None, self),
        };
        let of_share = |share| {
            let keys = MissKeys::Numbered(by, Numbering::Variable);
            Self { share, ..Self::of(setup, keys, self.touched.clone()) }
        };
        let (resolvers, workers) = session.replay_shared(shares.into_iter().map(of_share).collect())?;
        self.join(workers);
        Ok(resolvers)
    }

    /// Adds what several counted, each of which was told everything.
    fn join(&mut self, workers: Vec<Self>) {
        let mut partly_missed = Vec::new();
        for (index, worker) in workers.into_iter().enumerate() {
            if index == 0 {
                (self.loads, self.stores, self.missing) = (worker.loads, worker.stores, worker.missing);
            }
            for (number, misses) in worker.counts.iter().enumerate() {
                *slot(&mut self.counts, number as u32) += *misses;
            }
            self.total += worker.total;
            self.model.add_totals(worker.model.totals());
            partly_missed.extend(worker.partly_missed);
        }
        // An access misses once, however many of its lines are missing.
        partly_missed.sort_unstable_by_key(|partly| partly.told);
        for parts in partly_missed.chunk_by(|one, other| one.told == other.told) {
            let mut missed = MissedLevels::default();
            parts.iter().for_each(|part| missed |= part.missed);
            self.count(parts[0].number, missed, parts[0].reads);
        }
    }

    /// All misses.
    pub fn total(&self) -> LevelMisses {
        self.total
    }

    /// Accesses that read, and those that only write.
    pub fn accesses(&self) -> [u64; 2] {
        [self.loads, self.stores]
    }

    /// What happened besides misses.
    pub fn totals(&self) -> CacheTotals {
        self.model.totals()
    }

    /// The rows, most misses of the first level first, then by name.
    pub fn rows(&self, session: &Session, resolvers: &[Resolver]) -> Vec<MissRow> {
        let mut rows: Vec<MissRow> = Vec::new();
        let mut missed: Vec<u32> =
            (0..self.counts.len() as u32).filter(|number| self.counts[*number as usize].l1() > 0).collect();
        match &self.keys {
            MissKeys::Numbered(by, numbering) => {
                let mut grouper = Grouper::new(*by, session, numbering, resolvers, SiteStyle::default());
                let mut sums: Vec<LevelMisses> = Vec::new();
                numbering.sort(session, &mut missed);
                for number in missed {
                    if let Some(row) = grouper.row(number) {
                        *slot(&mut sums, row as u32) += self.counts[number as usize];
                    }
                }
                let named = grouper.into_rows().into_iter().zip(sums);
                rows.extend(named.map(|(row, misses)| MissRow { row, misses, stack: Vec::new() }));
            }
            MissKeys::Places { places, stacks, .. } => {
                let namer = StackNames::new(session.names(), stacks.contexts());
                let mut sums: FxHashMap<Vec<String>, LevelMisses> = FxHashMap::default();
                for number in missed.into_iter().map(|number| number as usize) {
                    let stack = namer.stack(places[number]).into_iter().map(|f| f.function.to_string());
                    *sums.entry(stack.collect()).or_default() += self.counts[number];
                }
                rows.extend(sums.into_iter().map(|(stack, misses)| {
                    let name = stack.iter().rev().map(String::as_str).collect::<Vec<_>>().join(" < ");
                    MissRow { row: AccessRow { name, things: 1, ..AccessRow::default() }, misses, stack }
                }));
            }
        }
        rows.sort_by(|a, b| b.misses.l1().cmp(&a.misses.l1()).then_with(|| a.row.name.cmp(&b.row.name)));
        rows
    }

    fn core(&mut self, thread: ThreadId) -> usize {
        let index = thread.0 as usize;
        if index >= self.core_of.len() {
            self.core_of.resize(index + 1, None);
        }
        let (idle, model) = (&mut self.idle, &mut self.model);
        *self.core_of[index].get_or_insert_with(|| idle.pop().unwrap_or_else(|| model.add_core()))
    }

    /// The first and the last line of an access.
    #[inline]
    fn lines(&self, access: &Access) -> (u64, u64) {
        let last = access.addr.0.saturating_add(u64::from(access.size).max(1) - 1);
        (access.addr.0 >> self.line_shift, last >> self.line_shift)
    }

    #[inline]
    fn asks(
        &mut self,
        core: usize,
        process: ProcessId,
        (first, last): (u64, u64),
        writes: bool,
    ) -> MissedLevels {
        let mut missed = MissedLevels::default();
        for line in (first..=last).filter(|line| self.share.has(*line)) {
            // The kernel gives processes the addresses below 2^47; what a line of another process is told by is above.
            let key = line ^ u64::from(process.0) << 42;
            let is_shared = !self.touched.is_empty()
                && self.touched.has_any(process, VirtAddr(line << self.line_shift), 1 << self.line_shift);
            missed |= self.model.access(core, key, writes, is_shared);
        }
        missed
    }

    fn count(&mut self, number: u32, missed: MissedLevels, reads: bool) {
        slot(&mut self.counts, number).add(missed, reads);
        self.total.add(missed, reads);
    }

    fn access(&mut self, at: &mut Moment<'_>, core: usize, access: &Access) {
        let reads = access.kind.reads();
        self.loads += u64::from(reads);
        self.stores += u64::from(!reads);
        let lines = self.lines(access);
        let missed = self.asks(core, at.process, lines, access.kind.writes());
        let number = match &mut self.keys {
            MissKeys::Numbered(_, numbering) if numbering.follows() => {
                let number = numbering.number(at, access);
                if !missed.any() {
                    return;
                }
                number
            }
            MissKeys::Numbered(_, _) if !missed.any() => return,
            MissKeys::Numbered(_, numbering) => numbering.number(at, access),
            MissKeys::Places { number_of, places, stacks } => {
                let place = stacks.access(at, access);
                if !missed.any() {
                    return;
                }
                *number_of.entry(place).or_insert_with(|| {
                    places.push(place);
                    places.len() as u32 - 1
                })
            }
        };
        if self.share.has_no_bound_between(lines.0, lines.1) {
            self.count(number, missed, reads);
        } else {
            let told = self.loads + self.stores;
            self.partly_missed.push(PartlyMissed { told, number, reads, missed });
        }
    }

    /// A block operation is the accesses of its lines.
    fn block(&mut self, at: &mut Moment<'_>, block: &BlockOp) {
        let core = self.core(at.thread);
        let line_bytes = 1_u64 << self.line_shift;
        for access in line_accesses(block, line_bytes) {
            self.access(at, core, &access);
        }
    }
}

impl SliceWorker for CacheMisses {}

impl Tool for CacheMisses {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let core = self.core(at.thread);
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            self.access(at, core, access);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match &mut self.keys {
            MissKeys::Numbered(_, numbering) => numbering.event(at, event),
            MissKeys::Places { stacks, .. } => {
                stacks.event(at, event);
            }
        }
        match event {
            Event::Block(block) => self.block(at, block),
            Event::Sync(sync) if sync.kind == SyncKind::Exit => {
                let core = self.core_of.get_mut(at.thread.0 as usize).and_then(Option::take);
                self.idle.extend(core);
            }
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }
}

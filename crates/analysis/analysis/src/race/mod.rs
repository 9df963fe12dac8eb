//! Data races: accesses by two threads to the same bytes, at least one of them a write, that no synchronisation orders.
//!
//! The algorithm is happens-before in the manner of FastTrack (Flanagan and Freund, PLDI 2009): each thread has a vector
//! clock, and each byte has the epochs of its last write and of the reads since. Locks, barriers and the like order
//! threads as their events in the trace say. Atomic variables order them as well: a thread that reads one comes after
//! every thread that wrote it before. Weaker memory orders are not distinguished. Where the code does not tell whether a
//! plain move is an atomic access (`atomics`), it is assumed to be one. The same applies where a trace does not tell
//! which of two atomic accesses came first (`overlap`). Therefore every reported race is a race, but races may be missed.
//!
//! Accesses inside C library functions are neither checked nor taken for synchronisation:
//! operations on the program's locks are events, and the library's own locks are ignored.
//! The accesses of memcpy and similar functions belong to the program (`copies`).

mod access_site;
pub(crate) mod atomics;
mod calls;
mod cell_states;
mod clock;
mod copies;
mod executions;
mod found;
mod objects;
mod overlap;
mod past;
mod runtimes;
mod shadow;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;
use std::sync::Arc;

use memref::{
    Access, AccessKind, Allocation, BlockFunction, BlockOp, Event, Gap, ProcessId, RegionKind, Sync,
    SyncFunction, SyncKind, ThreadId, VirtAddr,
};
use rustc_hash::FxHashMap;
use symbols::{Call, CodeName, HeapChange, Resolver};
use trace_format::ExecutedFrame;

use self::access_site::AccessSite;
use self::atomics::{Atomics, CodeKind, Nature};
use self::calls::{CallEffect, Frames, Rows};
use self::clock::{Clock, Epoch};
use self::copies::LibraryCalls;
use self::executions::KnownBlocks;
use self::objects::Objects;
use self::overlap::Overlap;
use self::past::Present;
use self::shadow::{AccessHistory, EarlierAccess};
use crate::layout::{FieldNames, VariableAddress};
use crate::variable_name::variable_name;
use crate::{Error, FirstPlace, Moment, Session, Tool};

pub use self::atomics::unmodelled_runtimes;
pub use self::found::FoundRaces;

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// The function, or the module where it has no name.
    pub function: String,
    /// Source file, where known.
    pub file: Option<String>,
    /// Source line, where known.
    pub line: Option<u32>,
    /// The thread.
    pub thread: ThreadId,
    /// What it did.
    pub kind: AccessKind,
    /// Names of the locks that it held.
    pub locks: Vec<String>,
    /// The functions that it was in, the innermost first, as far as a trace tells: those that were inlined into another
    /// one, and that one; of translated programs their callers, too.
    pub stack: Vec<Call>,
}

/// Two accesses that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// What was accessed: a variable with its field, or a forged name.
    pub variable: String,
    /// Of a block of the heap: the type that it is of, where all accesses agree on it.
    pub type_name: Option<String>,
    /// That type's field.
    pub field: Option<String>,
    /// The modules, where both accesses are inside of ones of which there are no source lines, and these are libraries or the accesses plain
    /// moves: those may be to atomic variables.
    pub inside: Option<String>,
    /// Where it is, for its field.
    pub(crate) place: VariableAddress,
    pub(crate) process: ProcessId,
    /// Bytes that both touched.
    pub len: u64,
    /// The one that the replay came to first.
    pub first: Side,
    /// The other one.
    pub second: Side,
    /// How often.
    pub times: u64,
    /// Whether events that are missing from the trace could have ordered the two.
    pub uncertain: bool,
}

impl Race {
    /// Where it was seen first.
    pub fn first_seen(&self) -> FirstPlace {
        FirstPlace {
            process: self.process,
            thread: Some(self.second.thread),
            cycle: None,
            addr: self.place.addr,
        }
    }
}

/// Names the fields of heap blocks that races are about, `<malloc0003@make+12>.hits`. It takes a replay, where any block is raced for.
///
/// # Errors
/// Where the trace can't be read.
pub fn name_fields(session: &Session, races: &mut [Race]) -> Result<(), Error> {
    let names = session.names();
    let fields = FieldNames::new(session, races.iter().filter_map(|race| race.place.in_block(names)))?;
    for race in races {
        if let Some(name) = fields.name(names, race.place) {
            race.variable = name;
        }
        let typed = race.place.in_block(names).and_then(|place| fields.typed(place));
        if let Some(typed) = typed.filter(|typed| typed.conflicts.is_empty()) {
            (race.type_name, race.field) = (Some(typed.type_name.to_string()), typed.field);
        }
    }
    Ok(())
}

/// What a thread's sites are known by while it holds the same locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SiteKey {
    ip: VirtAddr,
    kind: AccessKind,
    row: u32,
}

/// An access that is looked at.
#[derive(Clone, Copy, Debug)]
struct RaceAccess {
    addr: VirtAddr,
    len: u64,
    kind: AccessKind,
    atomic: bool,
}

/// A lock, and how a thread holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLock {
    object: VirtAddr,
    shared: bool,
}

#[derive(Debug, Default)]
struct ThreadClocks {
    clock: Clock,
    held: Vec<HeldLock>,
    /// The number of the present set of locks.
    locks: u32,
    sites: FxHashMap<SiteKey, u32>,
    frames: Frames,
    /// The call by which it is writing to a descriptor: what the call itself reads comes before what it gives up.
    writing: Option<VirtAddr>,
    /// Episodes of barriers that it has arrived at.
    arrived: FxHashMap<VirtAddr, u64>,
}

/// A barrier: what all who arrived in an episode knew.
#[derive(Debug, Default)]
struct Barrier {
    episode: u64,
    departed: bool,
    /// By episode; old ones are forgotten.
    clocks: BTreeMap<u64, Clock>,
}

#[derive(Debug, Default)]
struct ProcessClocks {
    shadow: AccessHistory,
    objects: Objects,
    barriers: FxHashMap<VirtAddr, Barrier>,
    /// Clocks of threads that were made and have not begun, by number; of threads that ended, by handle.
    created: FxHashMap<u64, Clock>,
    ended: FxHashMap<VirtAddr, Clock>,
    handles: FxHashMap<VirtAddr, ThreadId>,
    atomics: Atomics,
    library_calls: LibraryCalls,
    blocks: KnownBlocks,
}

impl ProcessClocks {
    /// What lies there from now on is nothing that was there before.
    fn forget(&mut self, addr: VirtAddr, len: u64) {
        self.shadow.forget(addr, len);
        self.objects.forget(addr, len);
    }
}

/// The key under which a race is counted once.
type RaceKey = (String, PlaceName, PlaceName);
type PlaceName = (String, Option<String>, Option<u32>);

/// Looks for races.
#[derive(Debug, Default)]
pub struct Races {
    threads: Vec<ThreadClocks>,
    processes: BTreeMap<ProcessId, ProcessClocks>,
    sites: Vec<AccessSite>,
    rows: Rows,
    lock_sets: Vec<Vec<HeldLock>>,
    lock_numbers: BTreeMap<Vec<HeldLock>, u32>,
    races: BTreeMap<RaceKey, Race>,
    found: Vec<EarlierAccess>,
    /// Accesses of one execution.
    expanded: Vec<Access>,
    /// Threads with missing events.
    gaps: BTreeSet<ThreadId>,
    gaps_of_all: bool,
    /// Accesses looked at.
    pub accesses: u64,
    /// Synchronisation events seen.
    pub syncs: u64,
    /// Where the trace does not tell the order of all atomic accesses.
    overlap: Option<Overlap>,
}

impl Races {
    /// For a trace that does not tell of each atomic access whether it came before another. What such accesses may have ordered
    /// is counted, and not reported.
    pub fn without_order_of_atomics() -> Self {
        Self { overlap: Some(Overlap::default()), ..Self::default() }
    }

    /// Looks at a trace. Of processes with one thread no access is read: there is nobody to race with.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session) -> Result<(), Error> {
        let mut threads: FxHashMap<ProcessId, u32> = FxHashMap::default();
        for record in session.trace().threads() {
            *threads.entry(record.process).or_default() += 1;
        }
        session.replay_without_accesses(|process| threads.get(&process) == Some(&1), self)?;
        Ok(())
    }

    /// Runtimes inside of the program that were met and are not modelled, as [`unmodelled_runtimes`] for libraries.
    pub fn runtimes(&self) -> BTreeSet<String> {
        self.processes.values().flat_map(|process| process.atomics.runtimes()).cloned().collect()
    }

    /// What was found, by variable and place, what is inside of modules without source lines last, and how many that atomic variables may have ordered.
    pub fn into_races(mut self) -> (Vec<Race>, u64) {
        let possibly_ordered = self.pass_all();
        let (gaps, all) = (self.gaps, self.gaps_of_all);
        let is_lock = |race: &Race| {
            // Somebody looked at it before it was known to be one.
            self.processes.get(&race.process).is_some_and(|process| process.atomics.is_lock(race.place.addr))
        };
        let mut races: Vec<Race> = self.races.into_values().filter(|race| !is_lock(race)).collect();
        for race in &mut races {
            // A lost event may have been synchronisation of either side, or of one between them.
            race.uncertain = all || !gaps.is_empty();
        }
        races.sort_by(|a, b| {
            let key = |race: &Race| {
                (race.inside.clone(), race.variable.clone(), race.first.clone(), race.second.clone())
            };
            key(a).cmp(&key(b))
        });
        (races, possibly_ordered)
    }

    fn thread(&mut self, thread: ThreadId) -> &mut ThreadClocks {
        let index = thread.0 as usize;
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, ThreadClocks::default);
            if self.lock_sets.is_empty() {
                self.lock_sets.push(Vec::new());
                self.lock_numbers.insert(Vec::new(), 0);
            }
        }
        let state = &mut self.threads[index];
        if state.clock.get(thread) == 0 {
            state.clock.set(thread, 1);
        }
        state
    }

    fn site(&mut self, thread: ThreadId, ip: VirtAddr, kind: AccessKind, row: u32) -> u32 {
        let state = &mut self.threads[thread.0 as usize];
        let locks = state.locks;
        let sites = &mut self.sites;
        *state.sites.entry(SiteKey { ip, kind, row }).or_insert_with(|| {
            sites.push(AccessSite { ip, thread, kind, locks, row });
            sites.len() as u32 - 1
        })
    }

    fn process(&mut self, process: ProcessId) -> &mut ProcessClocks {
        self.processes.entry(process).or_default()
    }

    /// The thread does something at this moment. Its next accesses need not say so until another event comes.
    fn begin(&mut self, at: &Moment<'_>, call: Option<VirtAddr>) {
        self.thread(at.thread);
        self.pass(at.thread, at.order);
        self.leave_writing(at.thread, call);
    }

    fn access(
        &mut self,
        at: &mut Moment<'_>,
        ip: VirtAddr,
        addr: VirtAddr,
        len: u64,
        kind: AccessKind,
        block: bool,
    ) {
        if kind == AccessKind::Prefetch || len == 0 {
            return;
        }
        self.begin(at, Some(ip).filter(|_| block && kind == AccessKind::Load));
        let process = self.processes.entry(at.process).or_default();
        let (code, control) = process.atomics.code(at.resolver, ip);
        let nature = if block {
            Atomics::of_block(code)
        } else {
            process.atomics.of_access(at.resolver, at.thread, code, addr, len as u32, kind)
        };
        let row = self.threads[at.thread.0 as usize].frames.row();
        if nature != Nature::Ignored {
            self.check(at, ip, row, RaceAccess { addr, len, kind, atomic: nature == Nature::Atomic });
        } else if code == CodeKind::CLibrary
            && let Some(call) = process.library_calls.of(at.resolver, &mut process.atomics, &self.rows, row)
            && call.counts(kind, block)
        {
            self.check(at, call.ip, call.row, RaceAccess { addr, len, kind, atomic: false });
        }
        if !block && control != CallEffect::Other {
            self.threads[at.thread.0 as usize].frames.follow(&mut self.rows, control, ip, addr, kind);
        }
    }

    /// Looks whether an access races.
    fn check(&mut self, at: &mut Moment<'_>, ip: VirtAddr, row: u32, access: RaceAccess) {
        self.accesses += 1;
        if self.repeats(at.process, at.thread, access) {
            return;
        }
        let site = self.site(at.thread, ip, access.kind, row);
        self.note(at, access, site);
    }

    /// Notes an access that may change something, and reports what it races with.
    fn note(&mut self, at: &mut Moment<'_>, access: RaceAccess, site: u32) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let now = self.apply(at.process, at.thread, access, site, &mut found);
        for hit in &found {
            self.report(at, hit, now, site);
        }
        self.found = found;
    }

    /// Whether an access is as one that its thread made since it last gave something up. Atomic ones may always mean something to others.
    fn repeats(&mut self, id: ProcessId, thread: ThreadId, access: RaceAccess) -> bool {
        let RaceAccess { addr, len, kind, atomic } = access;
        let Some(process) = self.processes.get_mut(&id).filter(|_| !atomic) else { return false };
        let clock = &self.threads[thread.0 as usize].clock;
        let now = Present::new(clock, thread, (kind, atomic), &self.sites);
        process.shadow.repeats(&now, addr, len)
    }

    /// What an access means to its thread and to others, and what it races with. Returns when it was.
    fn apply(
        &mut self,
        id: ProcessId,
        thread: ThreadId,
        RaceAccess { addr, len, kind, atomic }: RaceAccess,
        site: u32,
        found: &mut Vec<EarlierAccess>,
    ) -> Epoch {
        let process = self.processes.entry(id).or_default();
        let state = &mut self.threads[thread.0 as usize];
        if atomic {
            let object = process.objects.at(addr);
            if kind.reads() {
                state.clock.join(&object.written);
            }
            if kind.writes() {
                object.written.join(&state.clock);
            }
        }
        let present = Present::new(&state.clock, thread, (kind, atomic), &self.sites);
        let now = present.epoch;
        process.shadow.access(&present, addr, len, site, found);
        let loads_first = atomic && kind.reads() && self.note_load(id, thread, addr);
        if atomic && kind.writes() {
            self.publish(id, thread, addr);
        }
        if loads_first || atomic && kind.writes() {
            self.threads[thread.0 as usize].clock.tick(thread);
        }
        now
    }

    fn report(&mut self, at: &mut Moment<'_>, hit: &EarlierAccess, now: Epoch, site: u32) {
        let first = self.sites[hit.site as usize];
        let second = self.sites[site as usize];
        if let Some(process) = self.processes.get_mut(&at.process)
            && (process.atomics.is_of_linked_runtime(at.resolver, first, second)
                || process.atomics.may_both_be_atomic(at.resolver, hit.addr, first, second))
        {
            return;
        }
        let variable = variable_name(at.resolver, hit.addr, hit.len as u32);
        let place = VariableAddress { variable: at.resolver.resolve_data(hit.addr).variable, addr: hit.addr };
        let inside = inside(at.resolver, first, second);
        let first = self.side(at.resolver, hit.epoch.thread, first);
        let second = self.side(at.resolver, at.thread, second);
        let site_of = |side: &Side| (side.function.clone(), side.file.clone(), side.line);
        let (a, b) = (site_of(&first), site_of(&second));
        let key = if a <= b { (site_name(&variable), a, b) } else { (site_name(&variable), b, a) };
        let process = at.process;
        let race = Race {
            variable,
            type_name: None,
            field: None,
            inside,
            place,
            process,
            len: hit.len,
            first,
            second,
            times: 1,
            uncertain: false,
        };
        self.find(key, race, hit.epoch, now);
    }

    fn keep(&mut self, key: RaceKey, race: Race) {
        match self.races.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().times += race.times,
            Entry::Vacant(place) => {
                place.insert(race);
            }
        }
    }

    fn side(&self, resolver: &mut Resolver, thread: ThreadId, site: AccessSite) -> Side {
        let code = resolver.code_name(site.ip);
        let function = code.as_ref().map_or_else(
            || site.ip.to_string(),
            |code| match &code.function {
                Some(function) => function.to_string(),
                None => code.to_string(),
            },
        );
        let line = code.as_ref().and_then(|code| code.line().map(|(file, line)| (file.to_owned(), line)));
        let (file, line) = line.map_or((None, None), |(file, line)| (Some(file), line));
        let locks = self.lock_sets.get(site.locks as usize).cloned().unwrap_or_default();
        let locks = locks.iter().map(|held| lock_name(resolver, held)).collect();
        let mut stack = code.as_deref().map(CodeName::calls).unwrap_or_default();
        for caller in self.rows.calls(site.row) {
            stack.extend(resolver.code_name(caller).as_deref().map(CodeName::calls).unwrap_or_default());
        }
        Side { function, file, line, thread, kind: site.kind, locks, stack }
    }

    /// The set of locks of a thread has changed.
    fn locks_changed(&mut self, thread: ThreadId) {
        let state = &mut self.threads[thread.0 as usize];
        let mut set = state.held.clone();
        set.sort_unstable();
        set.dedup();
        let number = match self.lock_numbers.get(&set) {
            Some(&number) => number,
            None => {
                let number = self.lock_sets.len() as u32;
                self.lock_sets.push(set.clone());
                self.lock_numbers.insert(set, number);
                number
            }
        };
        if number != state.locks {
            state.locks = number;
            state.sites.clear();
        }
    }

    /// What a thread does next is not given up by the call in which it wrote to a descriptor, unless it is that call's own.
    fn leave_writing(&mut self, thread: ThreadId, call: Option<VirtAddr>) {
        let state = &mut self.threads[thread.0 as usize];
        if state.writing.is_some() && state.writing != call {
            state.writing = None;
            state.clock.tick(thread);
        }
    }

    fn sync(&mut self, at: &Moment<'_>, event: &Sync) {
        self.syncs += 1;
        self.begin(at, None);
        let process = self.processes.entry(at.process).or_default();
        let state = &mut self.threads[at.thread.0 as usize];
        let (object, handle) = (event.object, VirtAddr(event.value));
        match event.kind {
            SyncKind::Create => {
                process.created.insert(object.0, state.clock.clone());
                state.clock.tick(at.thread);
            }
            SyncKind::Start => {
                if let Some(clock) = process.created.remove(&object.0) {
                    state.clock.join(&clock);
                }
                process.ended.remove(&handle);
                process.handles.insert(handle, at.thread);
                // The C library keeps the stacks of threads that ended for others, and orders that by itself.
                let regions = at.resolver.image().regions();
                let (start, end, region) = regions.find_range(handle);
                let region = region.and_then(|region| regions.region(region));
                if region.is_some_and(|region| region.kind == RegionKind::Stack) {
                    process.forget(start, end.0 - start.0);
                }
            }
            SyncKind::Exit => {
                process.ended.insert(object, state.clock.clone());
                state.clock.tick(at.thread);
            }
            SyncKind::Join => {
                if let Some(clock) = process.ended.get(&object) {
                    state.clock.join(clock);
                } else if let Some(&other) = process.handles.get(&object) {
                    // The end of the thread is missing: all that is known of it came before.
                    let clock = self.threads[other.0 as usize].clock.clone();
                    self.threads[at.thread.0 as usize].clock.join(&clock);
                }
            }
            SyncKind::Lock | SyncKind::LockShared => {
                let shared = event.kind == SyncKind::LockShared;
                let lock = process.objects.at(object);
                state.clock.join(&lock.written);
                if !shared {
                    state.clock.join(&lock.read);
                }
                state.held.push(HeldLock { object, shared });
                self.locks_changed(at.thread);
            }
            SyncKind::Unlock => {
                let held = state.held.iter().rposition(|held| held.object == object);
                let shared = held.is_some_and(|index| state.held.remove(index).shared);
                let lock = process.objects.at(object);
                if shared {
                    lock.read.join(&state.clock);
                } else {
                    lock.written.join(&state.clock);
                }
                state.clock.tick(at.thread);
                self.locks_changed(at.thread);
            }
            SyncKind::Release => {
                process.objects.at(object).written.join(&state.clock);
                if event.function == SyncFunction::Descriptor {
                    state.writing = Some(event.ip);
                } else {
                    state.clock.tick(at.thread);
                }
            }
            SyncKind::Acquire => {
                if let Some(lock) = process.objects.get(object) {
                    state.clock.join(&lock.written);
                }
            }
            SyncKind::Arrive => {
                let barrier = process.barriers.entry(object).or_default();
                if barrier.departed {
                    barrier.episode += 1;
                    barrier.departed = false;
                    let old = barrier.episode.saturating_sub(8);
                    barrier.clocks.retain(|&episode, _| episode >= old);
                }
                barrier.clocks.entry(barrier.episode).or_default().join(&state.clock);
                state.arrived.insert(object, barrier.episode);
                state.clock.tick(at.thread);
            }
            SyncKind::Depart => {
                let barrier = process.barriers.entry(object).or_default();
                let episode = state.arrived.remove(&object).unwrap_or(barrier.episode);
                if episode == barrier.episode {
                    barrier.departed = true;
                }
                if let Some(clock) = barrier.clocks.get(&episode) {
                    state.clock.join(clock);
                }
            }
        }
    }

    fn block(&mut self, at: &mut Moment<'_>, block: &BlockOp) {
        // What the allocator writes is about a block that nobody else has yet.
        if block.function == BlockFunction::Allocator || block.function == BlockFunction::Signal {
            return;
        }
        for (addr, len) in [block.read(), block.compared()].into_iter().flatten() {
            self.access(at, block.ip, addr, len, AccessKind::Load, true);
        }
        if let Some((addr, len)) = block.written() {
            self.access(at, block.ip, addr, len, AccessKind::Store, true);
        }
    }

    fn gap(&mut self, gap: &Gap) {
        self.gaps.insert(gap.thread);
        self.gaps_of_all |= gap.count > 0;
    }
}

/// The name without numbers of elements and blocks: a race in each element of an array is one race.
fn site_name(variable: &str) -> String {
    let stem = match variable.rfind(">+") {
        Some(at) => &variable[..=at],
        None => variable,
    };
    stem.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The module that an instruction is in, if no source line of it is known.
fn module_without_lines(resolver: &mut Resolver, ip: VirtAddr) -> Option<String> {
    let code = resolver.code_name(ip)?;
    let module = code.module.as_deref()?;
    code.line().is_none().then(|| module.to_owned())
}

/// See [`Race::inside`].
fn inside(resolver: &mut Resolver, first: AccessSite, second: AccessSite) -> Option<String> {
    let modules = [first, second].map(|site| module_without_lines(resolver, site.ip));
    let [Some(a), Some(b)] = modules else { return None };
    let are_moves = [first, second].iter().all(|site| site.kind != AccessKind::Modify);
    let are_libraries = [&a, &b].iter().all(|module| module.contains(".so"));
    if !are_moves && !are_libraries {
        return None;
    }
    Some(match a.cmp(&b) {
        Ordering::Equal => a,
        Ordering::Less => format!("{a} and {b}"),
        Ordering::Greater => format!("{b} and {a}"),
    })
}

fn lock_name(resolver: &mut Resolver, held: &HeldLock) -> String {
    let mut name = if held.object.0 <= 2 {
        "OpenMP's unnamed critical section".to_owned()
    } else {
        // A mutex, not the field of it that the C library has first.
        let name = variable_name(resolver, held.object, 0);
        name.split_once(".__").map_or_else(|| name.clone(), |(lock, _)| lock.to_owned())
    };
    if held.shared {
        name.push_str(" (shared)");
    }
    name
}

impl Tool for Races {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.access(at, access.ip, access.addr, access.size.into(), access.kind, false);
        }
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        true
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        self.look_at_executions(at, frame, part);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Sync(event) => self.sync(at, event),
            Event::Allocation(event) => self.thread(at.thread).frames.leave(event.ip),
            Event::Block(block) => {
                self.block(at, block);
                self.thread(at.thread).frames.leave(block.ip);
            }
            Event::Gap(gap) => self.gap(gap),
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        let Some(process) = self.processes.get_mut(&resolver.process()) else { return };
        let mut forget_block = |id| {
            if let Some(block) = resolver.heap().block(id) {
                process.forget(block.start, block.extent());
            }
        };
        match change {
            HeapChange::Allocated(id)
            | HeapChange::AllocatedForFreed { new: id, .. }
            | HeapChange::Released(id) => forget_block(id),
            HeapChange::Replaced { old, new } => {
                forget_block(old);
                forget_block(new);
            }
            HeapChange::Unmapped => process.forget(event.addr, event.len),
            _ => {}
        }
    }
}

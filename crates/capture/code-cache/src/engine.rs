//! The cache: which blocks exist, how they are linked, and what a trap in the cache means.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use blocks::{Extent, MAX_INSTRUCTIONS, RecordedValues};
use buffers::flow::{FIRST_BLOCK, ID_BITS};
use memref::VirtAddr;

use crate::area::Area;
use crate::check::{CheckSite, Checked};
use crate::code_pages::CodePages;
use crate::emit::{Around, ENTRY_BYTES, Emitted, Link, TooFar, emit, emit_probe, emit_way};
use crate::exit_reason::{CHECK_DONE, EXIT_CHECK, EXIT_KINDS, EXIT_LINK, EXIT_MISS, EXIT_STOP};
use crate::filter::AddressFilter;
use crate::mode::{Flow, Mode, Task};
use crate::paths::PathSearch;
use crate::place::{CachedBlock, Front, Place, Recording, ShorterBlock};
use crate::plan::{End, MAX_PATH_EXITS, Plan};
use crate::processor;
use crate::table::BranchTable;

/// Bytes that one block's code can take, with all its stubs.
const MAX_BLOCK_BYTES: usize = 32 << 10;
/// Bytes of the program that are read for one block.
const READ_BYTES: usize = 512;

const MODES: [Mode; 3] = Mode::ALL;

/// What the cache needs of the process around it.
pub trait Environment {
    /// Reads code; the number of bytes that could be read. What was read may be kept until [`Engine::invalidate`].
    fn read(&self, addr: u64, into: &mut [u8]) -> usize;

    /// Where code at `addr` really is: another address for functions that the tracer stands in for.
    fn resolve(&self, addr: u64, mode: Mode) -> u64;

    /// Whether the tracer must be asked before the instruction at `addr` runs.
    fn is_stop(&self, addr: u64) -> bool;

    /// Whether a function of the tracer itself stands at `addr`.
    fn is_own(&self, addr: u64) -> bool;

    /// Makes known what a block is, before it can run. `false` where that is not possible.
    fn define(&mut self, id: u32, block: Defined<'_>) -> bool;
}

/// What the recorder has to know of a block.
#[derive(Clone, Copy, Debug)]
pub struct Defined<'a> {
    /// Its code.
    pub extent: Extent,
    /// What an execution of it records.
    pub values: RecordedValues,
    /// Its accesses.
    pub accesses: &'a [blocks::BlockAccess],
}

/// Why code can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untranslatable {
    /// There is nothing to read at the address.
    Unreadable,
    /// No memory for code, or no more numbers for blocks.
    Full,
}

/// Why the cache was left through its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It wants to go on at that address, in that mode.
    Goto(u64, Mode, Via),
    /// An indirect branch: the target is in the thread's live slot, rcx and rdx are in spills 2 and 3.
    Indirect(Mode),
    /// The tracer's own function whose address is in the thread's live slot is called.
    Own,
    /// The checked instruction of that number is about to access a marked line ([`Engine::checked`]).
    Check(u32),
    /// It was executed. Its own address, and where the cache goes on after it.
    Checked(u64, u64),
}

impl Exit {
    /// What a reason means that needs no look into the cache.
    pub fn of_reason(reason: u32) -> Option<Self> {
        match reason & EXIT_KINDS {
            EXIT_MISS => MODES.get((reason & !EXIT_KINDS) as usize).map(|&mode| Self::Indirect(mode)),
            EXIT_STOP => Some(Self::Own),
            _ => None,
        }
    }
}

/// A trap of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// The instruction at that address needs help. It stands natively at the second address, if it can.
    Special(u64, Option<u64>),
}

/// The link that an exit came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via(u32);

/// How much was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslatedAmount {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of the program in them.
    pub program_bytes: u64,
}

impl TranslatedAmount {
    const NONE: Self = Self { blocks: 0, program_bytes: 0 };
}

/// Which code: a block exists once for each mode that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeKey {
    pub(crate) addr: u64,
    pub(crate) mode: Mode,
}

/// Where a block that has a number is.
#[derive(Clone, Copy, Debug)]
struct BlockAt {
    area: u32,
    /// Its place among the area's.
    index: u32,
}

/// How often code came to stand elsewhere, or was forgotten, in any cache of the process. Written by who holds the cache, before it
/// changes.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// While this number is the same, what [`Engine::known`] and [`Engine::intercept`] said still holds.
pub fn changes() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

fn note_change() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The code cache of a process.
#[derive(Debug)]
pub struct Engine {
    areas: Vec<Area>,
    /// Code by address and mode.
    pub(crate) blocks: BTreeMap<CodeKey, u64>,
    /// The blocks by their numbers, from [`FIRST_BLOCK`] on.
    by_id: Vec<BlockAt>,
    pub(crate) search: PathSearch,
    /// Code for addresses with a stop, as if there was none.
    after_stops: BTreeMap<CodeKey, u64>,
    pub(crate) links: Vec<Link>,
    tables: [Option<BranchTable>; 3],
    next_id: u32,
    /// Addresses to which branches in code of that kind always leave the cache.
    pub(crate) stops: BTreeSet<CodeKey>,
    /// Bytes of code of the program that were translated, and blocks: for the tracer's own counters.
    translated: TranslatedAmount,
    pub(crate) task: Task,
    pub(crate) flow: Flow,
    /// Checked instructions, by their numbers.
    sites: Vec<CheckSite>,
    pub(crate) pages: CodePages,
    /// The last plan: the next one has its memory.
    done: Option<Plan>,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// Empty.
    pub const fn new() -> Self {
        Self {
            areas: Vec::new(),
            blocks: BTreeMap::new(),
            by_id: Vec::new(),
            search: PathSearch::new(),
            after_stops: BTreeMap::new(),
            links: Vec::new(),
            tables: [None, None, None],
            next_id: FIRST_BLOCK,
            stops: BTreeSet::new(),
            translated: TranslatedAmount::NONE,
            task: Task::Addresses,
            flow: Flow::Accesses,
            sites: Vec::new(),
            pages: CodePages::new(),
            done: None,
        }
    }

    /// Makes what can't be made later. `false` where there is no memory for it.
    pub fn prepare(&mut self, task: Task, flow: Flow) -> bool {
        (self.task, self.flow) = (task, flow);
        for place in &mut self.tables {
            if place.is_none() {
                *place = BranchTable::new();
            }
        }
        self.tables.iter().all(Option::is_some)
    }

    /// Gives all memory back and begins anew.
    ///
    /// # Safety
    /// No thread is in the cache, and none comes back to it.
    pub unsafe fn clear(&mut self) {
        for area in &self.areas {
            // SAFETY: the caller's promise.
            unsafe { area.unmap() };
        }
        for table in self.tables.iter().flatten() {
            // SAFETY: only code of the cache looks it up.
            unsafe { table.unmap() };
        }
        note_change();
        *self = Self::new();
    }

    /// Whether an address lies in the cache.
    pub fn contains(&self, addr: u64) -> bool {
        self.areas.iter().any(|area| area.contains(addr))
    }

    /// Blocks translated so far, and bytes of the program in them.
    pub fn translated(&self) -> TranslatedAmount {
        self.translated
    }

    /// Forgets how much was translated.
    pub fn forget_counts(&mut self) {
        self.translated = TranslatedAmount::NONE;
    }

    /// Bytes of code in the cache.
    pub fn cache_bytes(&self) -> u64 {
        self.areas.iter().map(|area| area.next - area.start).sum()
    }

    /// The code for an address, if there is any.
    pub fn known(&self, addr: u64, mode: Mode) -> Option<u64> {
        self.blocks.get(&CodeKey { addr, mode }).copied()
    }

    /// The code for an address, made if it does not exist.
    pub fn code(
        &mut self,
        addr: u64,
        mode: Mode,
        environment: &mut impl Environment,
    ) -> Result<u64, Untranslatable> {
        if let Some(code) = self.known(addr, mode) {
            return Ok(code);
        }
        let real = environment.resolve(addr, mode);
        if real != addr {
            let code = self.code(real, mode, environment)?;
            self.blocks.insert(CodeKey { addr, mode }, code);
            return Ok(code);
        }
        self.translate(addr, mode, environment.is_stop(addr), environment)
    }

    /// The code for an address at which the tracer was asked: it goes on there. No branch leads to it.
    pub fn code_after(
        &mut self,
        addr: u64,
        mode: Mode,
        environment: &mut impl Environment,
    ) -> Result<u64, Untranslatable> {
        if let Some(&code) = self.after_stops.get(&CodeKey { addr, mode }) {
            return Ok(code);
        }
        self.translate(addr, mode, false, environment)
    }

    /// The code for an address, made if it does not exist, which indirect branches find from then on.
    pub fn code_for_indirect(
        &mut self,
        addr: u64,
        mode: Mode,
        environment: &mut impl Environment,
    ) -> Result<u64, Untranslatable> {
        let code = self.code(addr, mode, environment)?;
        if self.stops.contains(&CodeKey { addr, mode }) {
            return Ok(code);
        }
        if let Some(table) = self.tables.get(mode as usize).and_then(Option::as_ref) {
            let entry = code - ENTRY_BYTES;
            table.insert(addr, entry);
            let area = self.areas.iter_mut().find(|area| area.contains(code) && area.has_room());
            if table.is_way_free(addr)
                && let Some(area) = area
            {
                let way = area.append_entry(|at| emit_way(at, addr, entry, table.probe()));
                table.set_way(addr, way);
            }
        }
        Ok(code)
    }

    /// Sets the link that an exit came by, so that it is the last one.
    pub fn set_link(&mut self, via: Via, code: u64) {
        let Some(link) = self.links.get(via.0 as usize) else { return };
        write_slot(link.slot, code);
        let distance = code.wrapping_sub(link.distance + 4) as i64;
        if let Ok(distance) = i32::try_from(distance) {
            write_distance(link.distance, distance);
        }
    }

    /// From now on indirect branches from code of that kind to that address leave the cache.
    pub fn intercept(&mut self, addr: u64, mode: Mode) {
        if self.stops.insert(CodeKey { addr, mode })
            && let Some(table) = self.tables.get(mode as usize).and_then(Option::as_ref)
        {
            table.remove(addr);
            if !self.search.may_pass(addr) {
                return;
            }
            // A long path goes there without looking.
            let goes_there = |block: &CachedBlock| block.executed(None).skip(1).any(|ip| ip == addr);
            let gone = self.paths(goes_there).collect();
            self.forget(&gone);
        }
    }

    /// The register that points into the buffer at an address of the cache, where recording code writes.
    pub fn pointer(&self, rip: u64) -> Option<u8> {
        let area = self.areas.iter().find(|area| area.contains(rip))?;
        area.block(rip)?.pointer(rip)
    }

    fn area(&mut self, addr: u64) -> Option<usize> {
        if let Some(index) = self.areas.iter().position(|area| area.serves(addr)) {
            return Some(index);
        }
        self.areas.push(Area::new(addr)?);
        Some(self.areas.len() - 1)
    }

    /// Writes the search for indirect branches of code of that kind, where there is none yet.
    fn prepare_search(&mut self, mode: Mode, area: usize) -> Option<()> {
        let table = self.tables.get(mode as usize)?.as_ref()?;
        if !table.has_probe() {
            let area = self.areas.get_mut(area)?;
            table.set_probe(area.append_entry(|at| emit_probe(at, table.base(), mode)));
        }
        Some(())
    }

    fn translate(
        &mut self,
        addr: u64,
        mode: Mode,
        stop: bool,
        environment: &mut impl Environment,
    ) -> Result<u64, Untranslatable> {
        let mut bytes = [0u8; READ_BYTES];
        let len = self.pages.read(addr, &mut bytes, environment);
        let bytes = bytes.get(..len).unwrap_or(&[]);
        let limit = if stop { 1 } else { MAX_INSTRUCTIONS };
        let task = (mode == Mode::Record).then_some(self.task);
        let stops = |at| environment.is_stop(at);
        let mut plan = Plan::new(self.done.take(), addr, bytes, limit, (task, self.flow), stops)
            .ok_or(Untranslatable::Unreadable)?;
        if stop {
            plan.make_special();
        }
        let is_own = stop && environment.is_own(addr);
        let from = self.links.len();
        let start = self.append(&mut plan, mode, is_own, environment)?;
        let known = if stop || !environment.is_stop(addr) { &mut self.blocks } else { &mut self.after_stops };
        known.insert(CodeKey { addr, mode }, start);
        self.set_links(from);
        self.done = Some(plan);
        Ok(start)
    }

    /// Links from that number on, to code that exists, are set at once.
    pub(crate) fn set_links(&mut self, from: usize) {
        for number in from..self.links.len() {
            let Some(link) = self.links.get(number).copied() else { break };
            if let Some(&code) = self.blocks.get(&CodeKey { addr: link.target, mode: link.mode }) {
                self.set_link(Via(number as u32), code);
            }
        }
    }

    /// Writes a block into the cache, and makes known what it is. Nothing leads to it yet.
    pub(crate) fn append(
        &mut self,
        plan: &mut Plan,
        mode: Mode,
        is_own: bool,
        environment: &mut impl Environment,
    ) -> Result<u64, Untranslatable> {
        if self.next_id + MAX_PATH_EXITS as u32 >= 1 << ID_BITS {
            return Err(Untranslatable::Full);
        }
        let addr = plan.addr;
        let index = self.area(addr).ok_or(Untranslatable::Full)?;
        self.prepare_search(mode, index).ok_or(Untranslatable::Full)?;
        let id = self.next_id;
        let at = self.areas.get(index).ok_or(Untranslatable::Full)?.next;
        let table = self.tables.get(mode as usize).and_then(Option::as_ref);
        let (ways, way_numbers) = table.map_or((0, 0), |table| (table.ways(), table.way_numbers()));
        let next_link = self.links.len() as u32;
        let marks = match self.task {
            Task::Check(marks) => Some(marks.base()),
            Task::Addresses | Task::Data => None,
        };
        let next_site = self.sites.len() as u32;
        let rotates = marks.is_some() && processor::rotates();
        let around = Around { mode, id, at, ways, way_numbers, next_link, is_own, next_site, marks, rotates };
        let emitted = loop {
            match emit(plan, &around) {
                Ok(emitted) => break emitted,
                Err(TooFar(0)) if plan.end == End::Special => {
                    return Err(Untranslatable::Full);
                }
                Err(TooFar(0)) => plan.make_special(),
                Err(TooFar(step)) => plan.shorten(step),
            }
        };
        let Emitted { code, mut block, links, sites } = emitted;
        let shorter = |&exit: &u16| ShorterBlock { instructions: exit + 1, values: plan.before(exit).0 };
        block.exits = plan.exits.iter().map(shorter).collect();
        if code.len() > MAX_BLOCK_BYTES {
            return Err(Untranslatable::Full);
        }
        if block.recording == Recording::Values {
            let addr = VirtAddr(addr);
            let extent = Extent { addr, instructions: plan.steps.len() as u16, bytes: plan.covered() };
            let whole = Defined { extent, values: plan.recorded(), accesses: &plan.accesses };
            let shorter = plan.exits.iter().map(|&exit| {
                let (values, accesses) = plan.before(exit);
                Defined {
                    extent: Extent::of(addr, exit + 1),
                    values: RecordedValues::plain(values),
                    accesses,
                }
            });
            for (number, defined) in core::iter::once(whole).chain(shorter).enumerate() {
                let is_written = number == 0 || !defined.accesses.is_empty();
                if is_written && !environment.define(self.next_id, defined) {
                    return Err(Untranslatable::Full);
                }
                self.next_id += 1;
            }
            let of_area = self.areas.get(index).map_or(0, |area| area.blocks.len());
            let at = BlockAt { area: index as u32, index: of_area as u32 };
            self.by_id.resize((self.next_id - FIRST_BLOCK) as usize, at);
        }
        let start = block.code;
        self.translated.program_bytes += plan.code.len() as u64;
        self.translated.blocks += 1;
        let area = self.areas.get_mut(index).ok_or(Untranslatable::Full)?;
        area.append(code.bytes());
        area.blocks.push(block);
        self.links.extend(links);
        self.sites.extend(sites);
        Ok(start)
    }

    /// The block of that number, and which of its shorter ones that is.
    pub(crate) fn numbered(&self, id: u32) -> Option<(&CachedBlock, Option<usize>)> {
        let at = self.by_id.get(id.checked_sub(FIRST_BLOCK)? as usize)?;
        let block = self.areas.get(at.area as usize)?.blocks.get(at.index as usize)?;
        Some((block, (id - block.id).checked_sub(1).map(|exit| exit as usize)))
    }

    /// The block whose code that is.
    pub(crate) fn block_at(&self, code: u64) -> Option<&CachedBlock> {
        self.areas.iter().find(|area| area.contains(code))?.block(code)
    }

    /// From now on branches to these addresses lead to other code for them.
    pub(crate) fn replace(&mut self, codes: &BTreeMap<CodeKey, u64>) {
        note_change();
        for (&key, &code) in codes {
            self.blocks.insert(key, code);
            let Some(table) = self.tables.get(key.mode as usize).and_then(Option::as_ref) else { continue };
            let entry = code - ENTRY_BYTES;
            let area = self.areas.iter_mut().find(|area| area.contains(code) && area.has_room());
            if table.replace(key.addr, entry)
                && let Some(area) = area
            {
                let way = area.append_entry(|at| emit_way(at, key.addr, entry, table.probe()));
                table.set_way(key.addr, way);
            }
        }
        let filter = AddressFilter::of(codes.keys().map(|key| key.addr));
        for number in 0..self.links.len() {
            let Some(link) = self.links.get(number) else { break };
            if filter.may_have(link.target)
                && let Some(&code) = codes.get(&CodeKey { addr: link.target, mode: link.mode })
            {
                self.set_link(Via(number as u32), code);
            }
        }
    }

    /// The long paths of which that is true.
    fn paths(&self, is_meant: impl Fn(&CachedBlock) -> bool) -> impl Iterator<Item = CodeKey> {
        let code = |key: &CodeKey| self.blocks.get(key).copied();
        self.search
            .paths()
            .filter(move |key| code(key).and_then(|code| self.block_at(code)).is_some_and(&is_meant))
    }

    /// Forgets code: nothing leads to it any more.
    fn forget(&mut self, gone: &BTreeSet<CodeKey>) {
        if gone.is_empty() {
            return;
        }
        note_change();
        for key in gone {
            self.blocks.remove(key);
            self.search.forget(key.addr);
            if let Some(table) = self.tables.get(key.mode as usize).and_then(Option::as_ref) {
                table.remove(key.addr);
            }
        }
        let filter = AddressFilter::of(gone.iter().map(|key| key.addr));
        for link in &self.links {
            if filter.may_have(link.target) && gone.contains(&CodeKey { addr: link.target, mode: link.mode })
            {
                write_slot(link.slot, link.way_out);
                let distance = link.stub.wrapping_sub(link.distance + 4) as i64;
                if let Ok(distance) = i32::try_from(distance) {
                    write_distance(link.distance, distance);
                }
            }
        }
    }

    /// Whether the code at an address of the cache was made of code in that range of the program.
    pub fn is_of(&self, rip: u64, start: u64, end: u64) -> bool {
        self.block_at(rip).is_some_and(|block| block.is_of(start, end))
    }

    /// What the trap instruction before `rip` means; `None` where it is none of the cache's.
    pub fn trap(&self, rip: u64) -> Option<Trap> {
        let trap = rip.wrapping_sub(1);
        let area = self.areas.iter().find(|area| area.contains(trap))?;
        // SAFETY: a byte of the area.
        if unsafe { *(trap as *const u8) } != 0xcc {
            return None;
        }
        let (addr, native) = area.block(trap)?.trapped(trap)?;
        Some(Trap::Special(addr, native))
    }

    /// What the checked instruction of that number is about to access, by the values of the general registers; `backwards`:
    /// the direction flag is set.
    pub fn checked(
        &self,
        number: u32,
        register: impl Fn(u8) -> u64 + Copy,
        fs_base: u64,
        backwards: bool,
    ) -> Option<Checked> {
        self.sites.get(number as usize).map(|site| site.checked(register, fs_base, backwards))
    }

    /// What a reason for which the cache was left means, where [`Exit::of_reason`] can't say.
    pub fn exit(&self, reason: u32) -> Option<Exit> {
        let number = reason & !EXIT_KINDS;
        match reason & EXIT_KINDS {
            EXIT_LINK => {
                let link = self.links.get(number as usize)?;
                Some(Exit::Goto(link.target, link.mode, Via(number)))
            }
            EXIT_CHECK if number & CHECK_DONE != 0 => self
                .sites
                .get((number & !CHECK_DONE) as usize)
                .map(|site| Exit::Checked(site.addr, site.after)),
            EXIT_CHECK => Some(Exit::Check(number)),
            _ => None,
        }
    }

    /// Where in the program an address of the cache is.
    pub fn place(&self, rip: u64) -> Place {
        let Some(area) = self.areas.iter().find(|area| area.contains(rip)) else { return Place::Outside };
        area.block(rip).map_or(Place::Between, |block| block.place(rip))
    }

    /// What of a block comes next at an address of the cache; `None` between its instructions.
    pub fn front(&self, rip: u64) -> Option<Front> {
        let area = self.areas.iter().find(|area| area.contains(rip))?;
        area.block(rip)?.front(rip)
    }

    /// Forgets the code of a range of the program: it was changed or unmapped. Threads in it go on to its end.
    pub fn invalidate(&mut self, start: u64, end: u64) {
        self.pages.forget(start, end);
        let from = start.saturating_sub(MAX_INSTRUCTIONS as u64 * 15);
        self.after_stops.retain(|key, _| !(from..end).contains(&key.addr));
        let is_gone = |block: &CachedBlock| block.is_of(start, end);
        let first = |addr| CodeKey { addr, mode: Mode::Record };
        let near = self.blocks.range(first(from)..first(end));
        let near = near.filter(|&(_, &code)| self.block_at(code).is_some_and(is_gone)).map(|(&key, _)| key);
        let gone = near.chain(self.paths(is_gone)).collect();
        self.forget(&gone);
    }
}

impl Area {
    pub(crate) fn block(&self, addr: u64) -> Option<&CachedBlock> {
        let index = self.blocks.partition_point(|block| block.code <= addr);
        self.blocks.get(index.checked_sub(1)?)
    }
}

fn write_slot(slot: u64, code: u64) {
    // SAFETY: the slot is an aligned word of the cache that only jumps read; it is changed in one store.
    unsafe { (*(slot as *const AtomicU64)).store(code, Ordering::Release) };
}

fn write_distance(at: u64, distance: i32) {
    // SAFETY: four bytes of the cache inside one line (`Code::jump`): threads that run through the jump see the old or
    // the new distance (Living on the Edge, section 3). The store is aligned or not, but one.
    unsafe {
        if at.is_multiple_of(4) {
            (*(at as *const AtomicU32)).store(distance as u32, Ordering::Release);
        } else {
            (at as *mut i32).write_unaligned(distance);
        }
    }
}

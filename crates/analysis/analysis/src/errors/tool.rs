//! The replay that finds the errors.

use std::collections::BTreeMap;

use memref::{
    Access, AccessKind, Allocation, AllocationFunction, AllocationKind, BlockFunction, BlockOp, Event, Order,
    ProcessId, RegionKind, ThreadId, VirtAddr,
};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::{BlockId, BlockState, HeapBlock, HeapChange, RegionId, Resolver, VariableId, VariableKind};

use super::arrays::{ArrayBase, ArrayBounds, StackAccess};
use super::blocks::{FollowedBlock, FollowedBlocks, is_right_release};
use super::compares::ComparingLoads;
use super::copies::{CopyCall, EndedCopy, OverlappingCopies, OverlappingCopy, overlapping_block};
use super::exact::ExactLoads;
use super::finding::{ErrorKey, FoundError, MemoryError, MemoryErrorKind, named};
use super::inner::KeptByLibraries;
use super::known_code::{asks_usable_size, is_linker, is_runtime, is_system_call};
use super::last_access::LastAccesses;
use super::operators::{CalledOperator, CalledOperators};
use super::overruns::overrun;
use super::pointers::PointerWords;
use super::unwritten::{DecidedBy, UnwrittenBytes, UnwrittenDecision};
use super::values::AccessValues;
use super::wild::{LostThreads, WildAccess};
use crate::labelled::RecordedFlow;
use crate::layout::{BlockAddress, BlockTypes, FieldNames};
use crate::stack::{CallEdge, CallPlace, Instructions, StackNames, Stacks};
use crate::stale::scan::{RecentAccesses, StringLoads};
use crate::tally::slot;
use crate::{Death, Error, FirstPlace, Moment, Session, Tool, amount, has_stacks};

/// The bytes between two blocks that are the allocator's: the size of the second one.
const HEADER_BYTES: u64 = 8;

/// What an access to a variable has to be looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableClass {
    Other,
    /// The heap, where no known block is.
    Gap,
    Released,
    /// Variables and constants of modules.
    Static,
    /// A block of the process that is followed.
    Live(u32),
}

/// Looks for errors.
#[derive(Debug)]
pub struct MemoryErrors {
    pub(super) blocks: FollowedBlocks,
    pub(super) classes: Vec<Option<VariableClass>>,
    /// Of instructions whose accesses to that class are all right, unless a block's bytes say otherwise.
    pub(super) last: LastAccesses,
    recent: FxHashMap<ThreadId, RecentAccesses>,
    strings: StringLoads,
    exact: ExactLoads,
    /// Releases that the map of blocks did not understand, until their event comes: by process and order.
    odd: FxHashMap<(ProcessId, u64), HeapChange>,
    compares: ComparingLoads,
    pub(super) arrays: ArrayBounds,
    pub(super) instructions: Instructions,
    pub(super) copies: OverlappingCopies,
    operators: CalledOperators,
    /// The block that each thread allocated last.
    newest: FxHashMap<ThreadId, BlockId>,
    /// What the accesses say of the blocks' types, where anything can have one: most programs have a finding, which would take a second
    /// replay.
    votes: Option<BlockTypes>,
    /// Where control flow was recorded.
    pub(super) unwritten: Option<UnwrittenBytes>,
    /// Where values were recorded.
    pub(super) pointers: Option<Pointers>,
    lost: LostThreads,
    /// Threads that gave the allocator what is no block, and have allocated and released nothing since.
    confused: FxHashSet<ThreadId>,
    pub(super) found: BTreeMap<ErrorKey, FoundError>,
    /// Missing events, which can have written or released.
    pub missing: u64,
}

/// What memory holds.
#[derive(Debug)]
pub(super) struct Pointers {
    values: AccessValues,
    pub(super) words: PointerWords,
}

impl MemoryErrors {
    /// For a replay of all of that session.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn new(session: &Session) -> Result<Self, Error> {
        // What was stored where nothing was recorded may be the last pointer to a block.
        let values = AccessValues::of(session.trace()).filter(|_| has_stacks(session));
        Ok(Self {
            blocks: FollowedBlocks::default(),
            classes: Vec::new(),
            last: LastAccesses::default(),
            recent: FxHashMap::default(),
            strings: StringLoads::default(),
            exact: ExactLoads::default(),
            odd: FxHashMap::default(),
            compares: ComparingLoads::default(),
            arrays: ArrayBounds::default(),
            instructions: Instructions::default(),
            copies: OverlappingCopies::default(),
            operators: CalledOperators::default(),
            newest: FxHashMap::default(),
            votes: session.may_have_types().then(BlockTypes::default),
            pointers: values.map(|values| Pointers { values, words: PointerWords::default() }),
            unwritten: RecordedFlow::of(session)?.map(UnwrittenBytes::new),
            lost: LostThreads::default(),
            confused: FxHashSet::default(),
            found: BTreeMap::new(),
            missing: 0,
        })
    }

    /// What was found, errors first. To be asked after the replay of all of that session, with the stacks and the resolvers that it ended
    /// with.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn errors(
        mut self,
        session: &Session,
        stacks: &mut Stacks,
        resolvers: &mut [Resolver],
    ) -> Result<Vec<MemoryError>, Error> {
        for death in session.deaths()? {
            let resolver = resolvers.iter_mut().find(|resolver| resolver.process() == death.process);
            if let Some(resolver) = resolver {
                self.wild_access(&death, stacks, resolver);
            }
        }
        let names = StackNames::new(session.names(), stacks.contexts());
        let kinds = self.leak_kinds(resolvers, &mut KeptByLibraries::new(&names));
        self.add_leaks(&kinds);
        for outside in std::mem::take(&mut self.arrays).into_found() {
            let key = ErrorKey::new(MemoryErrorKind::OutOfBounds, outside.place, None);
            self.found.entry(key).or_insert(outside.error);
        }
        let places = self.found.values().filter_map(|found| found.place);
        let fields = FieldNames::of_votes(session, self.votes, places)?;
        Ok(named(&self.found, &names, &fields))
    }

    /// What a process ended by, where that was an access of its own.
    fn wild_access(&mut self, death: &Death, stacks: &mut Stacks, resolver: &mut Resolver) {
        // What the allocator does with what is no block follows from that.
        if death.thread.is_some_and(|thread| self.confused.contains(&thread)) {
            return;
        }
        let last = death.thread.and_then(|thread| self.recent.get(&thread)?.accesses().last());
        let Some(wild) = WildAccess::of(death, resolver, &self.lost, last.map(|access| access.addr)) else {
            return;
        };
        let WildAccess { thread, access, what, is_released } = wild;
        let process = death.process;
        let at = &mut Moment { resolver, process, thread, order: Order::MAX, places: &[], cfas: &[] };
        let place = Some(stacks.access(at, &access));
        if is_released {
            self.use_after_free(at, &access, place);
            return;
        }
        let name = at.resolver.resolve_data(access.addr).variable;
        let seen = FirstPlace::of(at, None, access.addr);
        self.add(ErrorKey::new(MemoryErrorKind::Wild, place, None), seen, || {
            FoundError::new(what, access.size.into(), variable_text(at.resolver, name), None)
        });
    }

    fn class(
        &mut self,
        resolver: &mut Resolver,
        process: ProcessId,
        id: VariableId,
        region: Option<RegionId>,
    ) -> VariableClass {
        if let Some(Some(class)) = self.classes.get(id.0 as usize) {
            return *class;
        }
        let kind = resolver.names().variable(id).map(|variable| variable.kind);
        let class = match kind {
            Some(VariableKind::Block { state: BlockState::Freed, .. }) => VariableClass::Released,
            Some(VariableKind::Block { process: of, block, state: BlockState::Live }) if of == process => {
                // One whose allocation is not told yet is asked for again.
                match self.blocks.number(of, block) {
                    Some(number) => VariableClass::Live(number),
                    None => return VariableClass::Other,
                }
            }
            Some(VariableKind::Static | VariableKind::Section) => VariableClass::Static,
            Some(VariableKind::Region { .. }) => {
                let region = region.and_then(|region| resolver.image().regions().region(region));
                let is_heap = region.is_some_and(|region| region.kind == RegionKind::Heap);
                if is_heap { VariableClass::Gap } else { VariableClass::Other }
            }
            _ => VariableClass::Other,
        };
        *slot(&mut self.classes, id.0) = Some(class);
        class
    }

    /// Found once more; `make` tells it the first time, which was there.
    fn add(&mut self, key: ErrorKey, seen: FirstPlace, make: impl FnOnce() -> FoundError) {
        let first = || FoundError { first_seen: Some(seen), ..make() };
        self.found.entry(key).or_insert_with(first).times += 1;
    }

    /// The block of a variable, from the process that has it.
    fn block_of(&mut self, resolver: &Resolver, id: VariableId) -> Option<FollowedBlock> {
        let variable = resolver.names().variable(id)?;
        let VariableKind::Block { process, block, .. } = variable.kind else { return None };
        let block = self.blocks.of(process, block)?;
        Some(block.clone())
    }

    fn use_after_free(&mut self, at: &mut Moment<'_>, access: &Access, place: Option<CallPlace>) {
        let name = at.resolver.resolve_data(access.addr);
        let block = self.block_of(at.resolver, name.variable);
        let allocated = block.as_ref().and_then(|block| block.allocated);
        let freed = block.as_ref().and_then(|block| block.freed);
        let key = ErrorKey::new(MemoryErrorKind::UseAfterFree, place, allocated);
        let place = block.as_ref().map(|block| block.place(access.addr));
        let len = block.map_or(0, |block| block.len);
        let (kind, size, offset) = (access.kind.name(), access.size, name.offset);
        let seen = FirstPlace::of(at, Some(access.cycle), access.addr);
        self.add(key, seen, || {
            let what = format!(
                "{kind} of {} at {offset} of a block of {len} that was released",
                amount(size.into(), "byte")
            );
            let name = variable_text(at.resolver, name.variable);
            FoundError { freed, ..FoundError::new(what, size.into(), name, place) }
        });
    }

    /// An access to the heap where no block is: whether it is next to one, which it runs over.
    fn gap(&mut self, at: &mut Moment<'_>, access: &Access, place: Option<CallPlace>) -> bool {
        let (begin, end, _) = at.resolver.heap().get_span(access.addr);
        let addr = access.addr.0;
        let live = |addr: u64| {
            let hit = at.resolver.heap().get(VirtAddr(addr)).filter(|hit| hit.state == BlockState::Live)?;
            Some((hit.block, *at.resolver.heap().block(hit.block)?))
        };
        let before = live(begin.0.wrapping_sub(1))
            .filter(|(_, block)| addr.wrapping_sub(block.start.0 + block.extent()) < HEADER_BYTES);
        let after = live(end.0).filter(|(_, block)| block.start.0 == end.0 && end.0 - addr <= HEADER_BYTES);
        let Some((id, block)) = before.or(after) else { return false };
        let allocated = self.blocks.of(at.process, id).and_then(|block| block.allocated);
        let variable = at.resolver.resolve_data(block.start).variable;
        let key = ErrorKey::new(MemoryErrorKind::OutOfBounds, place, allocated);
        let place = BlockAddress { process: at.process, block: id, addr: access.addr };
        let (kind, size, len) = (access.kind.name(), access.size, block.len);
        let where_ = if before.is_some() {
            format!("{} after", addr - block.start.0 - len)
        } else {
            format!("{} before", block.start.0 - addr)
        };
        let seen = FirstPlace::of(at, Some(access.cycle), access.addr);
        self.add(key, seen, || {
            let what = format!("{kind} of {}, {where_} a block of {len}", amount(size.into(), "byte"));
            FoundError::new(what, size.into(), variable_text(at.resolver, variable), Some(place))
        });
        true
    }

    /// An instruction's access that ends after what was asked for. Loads of whole vectors, of words that begin within the block and cross no
    /// boundary of their own, and those of the C library's functions may read more than they use, unless they are known not to; nobody writes
    /// more than that.
    fn access_over_end(
        &mut self,
        at: &mut Moment<'_>,
        access: &Access,
        number: u32,
        place: Option<CallPlace>,
    ) {
        const WORD_BYTES: u32 = 8;
        let begins_within = access.addr.distance(self.blocks.get(number).start) < self.blocks.get(number).len;
        let reads_more = access.size > WORD_BYTES
            || begins_within && access.addr.0.is_multiple_of(access.size.into())
            || is_runtime(at.resolver, access.ip);
        let reads_more = reads_more && !self.exact.is_one(at.resolver, access.ip);
        if access.kind != AccessKind::Prefetch && (access.kind.writes() || !reads_more) {
            let seen = FirstPlace::of(at, Some(access.cycle), access.addr);
            self.over_end(at, access.kind.name(), seen, access.size.into(), number, place);
        }
    }

    /// Bytes that end after what was asked for.
    fn over_end(
        &mut self,
        at: &mut Moment<'_>,
        doing: &str,
        seen: FirstPlace,
        bytes: u64,
        number: u32,
        place: Option<CallPlace>,
    ) {
        let (addr, block) = (seen.addr, self.blocks.get(number));
        let (allocated, len, offset) = (block.allocated, block.len, addr.distance(block.start));
        // glibc's rule is known; others give a quarter more, and up to 16 bytes where that is little.
        let most = block.usable.max(len.saturating_add(len / 4 + 16));
        if offset.saturating_add(bytes) <= most && asks_usable_size(at.resolver) {
            return;
        }
        let key = ErrorKey::new(MemoryErrorKind::OutOfBounds, place, allocated);
        let place = block.place(addr);
        let variable = at.resolver.resolve_data(addr).variable;
        self.add(key, seen, || {
            let amount = amount(bytes, "byte");
            let what = match offset.checked_sub(len) {
                Some(after) => format!("{doing} of {amount}, {after} after a block of {len}"),
                None => format!("{doing} of {amount} at {offset}, over the end of a block of {len}"),
            };
            FoundError::new(what, bytes, variable_text(at.resolver, variable), Some(place))
        });
    }

    /// A load of bytes that nobody wrote, where the instruction compares them.
    fn unwritten(&mut self, at: &mut Moment<'_>, access: &Access, number: u32, place: Option<CallPlace>) {
        if !self.compares.decides(at.resolver, access.ip) {
            return;
        }
        let block = self.blocks.get(number);
        let (allocated, len, offset) = (block.allocated, block.len, access.addr.distance(block.start));
        let variable = at.resolver.resolve_data(access.addr).variable;
        let key = ErrorKey::new(MemoryErrorKind::Uninitialised, place, allocated);
        let place = block.place(access.addr);
        let size = access.size;
        let seen = FirstPlace::of(at, Some(access.cycle), access.addr);
        self.add(key, seen, || {
            let what = format!(
                "comparison of {} at {offset} of a block of {len}, which nobody wrote",
                amount(size.into(), "byte")
            );
            FoundError::new(what, size.into(), variable_text(at.resolver, variable), Some(place))
        });
    }

    /// One instruction's accesses, of which the first has that place: follows what nobody wrote.
    fn follow_unwritten(
        &mut self,
        at: &mut Moment<'_>,
        accesses: &[Access],
        first: usize,
    ) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind.reads()) {
            let name = at.resolver.resolve_data(access.addr);
            if let VariableClass::Live(number) =
                self.class(at.resolver, at.process, name.variable, name.region)
                && let Some(unwritten) = &mut self.unwritten
            {
                let block = self.blocks.get(number);
                let bytes = block.unwritten(access.addr, access.size.into());
                unwritten.mark(at.process, number, access.addr.distance(block.start), bytes);
            }
        }
        let Some(unwritten) = &mut self.unwritten else { return Ok(()) };
        let decided = unwritten.group(at, accesses)?;
        let context = at.places.get(first).map(|place| place.context);
        for UnwrittenDecision { by, ip, block, offset } in decided {
            let code = at.resolver.resolve_code(ip);
            let place = context.map(|context| CallPlace { context, code });
            let block = self.blocks.get(block);
            let (allocated, len, addr) = (block.allocated, block.len, block.start.offset(offset));
            let (in_block, key) =
                (block.place(addr), ErrorKey::new(MemoryErrorKind::Uninitialised, place, allocated));
            self.add(key, FirstPlace::of(at, None, addr), || {
                let what = match by {
                    DecidedBy::Jump => "jump".to_owned(),
                    DecidedBy::Address => "address".to_owned(),
                    DecidedBy::SystemCall(index, name) => format!("argument {index} of {name}"),
                };
                let what = format!("{what} by bytes at {offset} of a block of {len}, which nobody wrote");
                let variable = at.resolver.resolve_data(addr).variable;
                FoundError::new(what, 1, variable_text(at.resolver, variable), Some(in_block))
            });
        }
        Ok(())
    }

    /// A copy to what it is made from.
    fn overlap(&mut self, at: &mut Moment<'_>, copy: OverlappingCopy) {
        let OverlappingCopy { what, destination, len, place } = copy;
        let name = at.resolver.resolve_data(destination);
        let block = self.block_of(at.resolver, name.variable);
        let allocated = block.as_ref().and_then(|block| block.allocated);
        let seen = FirstPlace::of(at, None, destination);
        self.add(ErrorKey::new(MemoryErrorKind::Overlap, place, allocated), seen, || {
            let name = variable_text(at.resolver, name.variable);
            FoundError::new(what, len, name, block.map(|block| block.place(destination)))
        });
    }

    /// An access to what may be a stack: no variable and no block of the allocator's.
    fn on_stack(&mut self, at: &mut Moment<'_>, access: &Access, index: usize) {
        let code = at.resolver.resolve_code(access.ip);
        let (place, cfa) = (at.places.get(index).copied(), at.cfas.get(index).copied().flatten());
        self.arrays.on_stack(at.resolver, at.thread, StackAccess { code, access: *access, place }, cfa);
        match self.instructions.edge(at.resolver, access) {
            CallEdge::Call => {
                let call = CopyCall { code, place, slot: access.addr, caller: cfa };
                self.copies.called(at.resolver, at.thread, access.ip, call);
            }
            CallEdge::Return => {
                let EndedCopy { overlapping, stored } =
                    self.copies.returned(at.thread, access.addr).unwrap_or_default();
                if let Some(copy) = overlapping {
                    self.overlap(at, copy);
                }
                if let Some(copy) = stored
                    && let Some(error) = overrun(at.resolver, &copy)
                {
                    let seen = FirstPlace::of(at, None, VirtAddr(copy.bytes.start));
                    self.add(
                        ErrorKey::new(MemoryErrorKind::OutOfBounds, copy.call.place, None),
                        seen,
                        || error,
                    );
                }
            }
            CallEdge::None => {}
        }
    }

    fn access(&mut self, at: &mut Moment<'_>, accesses: &[Access], index: usize) {
        let access = &accesses[index];
        let is_as_before = self.is_as_before(at, access, index);
        if let Some(votes) = &mut self.votes {
            let code = at.places.get(index).map(|place| place.code);
            // The block is known from the access before.
            if !is_as_before || !code.is_some_and(|code| votes.knows_no_type(code)) {
                votes.access(at.resolver, access);
            }
        }
        if is_as_before {
            return;
        }
        let name = at.resolver.resolve_data(access.addr);
        let class = self.class(at.resolver, at.process, name.variable, name.region);
        if self.copies.is_running()
            && let Some(cfa) = at.cfas.get(index).copied().flatten()
        {
            self.copies.access(at.resolver, at.thread, cfa, access, at.places.get(index).copied());
        }
        match class {
            _ if access.kind == AccessKind::Prefetch
                && matches!(class, VariableClass::Other | VariableClass::Static) => {}
            VariableClass::Other => {
                self.on_stack(at, access, index);
            }
            VariableClass::Static => {
                let (code, place) = (at.resolver.resolve_code(access.ip), at.places.get(index).copied());
                self.arrays.access(at.resolver, code, access, ArrayBase::Static, place);
            }
            VariableClass::Live(number) => {
                let (addr, len) = (access.addr, u64::from(access.size));
                let block = self.blocks.get(number);
                block.accessed(at.places.get(index).copied());
                let (base, is_mapping) = (ArrayBase::Block(block.start, block.len), block.is_mapping);
                let code = at.resolver.resolve_code(access.ip);
                self.arrays.access(at.resolver, code, access, base, at.places.get(index).copied());
                // The stacks of threads are mapped.
                if is_mapping {
                    self.on_stack(at, access, index);
                }
                if self.blocks.get(number).is_overrun(addr, len) {
                    self.access_over_end(at, access, number, at.places.get(index).copied());
                }
                let block = self.blocks.get(number);
                let is_load = access.kind == AccessKind::Load && self.unwritten.is_none();
                if is_load && len <= 8 && block.is_unwritten(addr, len) {
                    self.unwritten(at, access, number, at.places.get(index).copied());
                } else if access.kind.writes() {
                    block.write(addr, len);
                }
            }
            VariableClass::Gap | VariableClass::Released => {
                if access.kind == AccessKind::Prefetch {
                    return;
                }
                let before = self.recent.get(&at.thread).map_or(&[][..], |recent| recent.accesses());
                let before = accesses[..index].iter().rev().chain(before.iter().rev());
                if self.strings.is_right(at.resolver, access, before, accesses.get(index + 1))
                    && !self.exact.is_one(at.resolver, access.ip)
                    || is_linker(at.resolver, access.ip)
                {
                    return;
                }
                let place = at.places.get(index).copied();
                // Where a larger block was before, the allocator's bytes next to a block were a part of it.
                if !self.gap(at, access, place) && class == VariableClass::Released {
                    self.use_after_free(at, access, place);
                }
            }
        }
        self.note_access(at, access, index, class);
    }

    /// A range that one call read or wrote.
    fn range(&mut self, at: &mut Moment<'_>, op: &BlockOp, range: Option<(VirtAddr, u64)>, kind: AccessKind) {
        let Some((addr, len)) = range.filter(|(_, len)| *len > 0) else { return };
        let name = at.resolver.resolve_data(addr);
        match self.class(at.resolver, at.process, name.variable, name.region) {
            VariableClass::Live(number) => {
                let block = self.blocks.get(number);
                if op.function != BlockFunction::Allocator {
                    block.accessed(at.places.first().copied());
                }
                if kind == AccessKind::Store {
                    block.write(addr, len);
                } else if is_system_call(op.function) && block.is_unwritten(addr, len) {
                    self.unwritten_output(at, op, number, addr, len);
                }
                let is_told = !matches!(op.function, BlockFunction::Allocator | BlockFunction::Signal);
                if is_told && self.blocks.get(number).is_overrun(addr, len) {
                    let doing = format!("{} by {}", kind.name(), op.function.name());
                    let seen = FirstPlace::of(at, Some(op.cycle), addr);
                    self.over_end(at, &doing, seen, len, number, at.places.first().copied());
                }
            }
            VariableClass::Released
                if !matches!(op.function, BlockFunction::Allocator | BlockFunction::Signal) =>
            {
                let size = u32::try_from(len).unwrap_or(u32::MAX);
                let place = at.places.first().copied();
                self.use_after_free(at, &Access { cycle: op.cycle, ip: op.ip, addr, size, kind }, place);
            }
            _ => {}
        }
    }

    /// A system call reads bytes of which nobody wrote one.
    fn unwritten_output(&mut self, at: &mut Moment<'_>, op: &BlockOp, number: u32, addr: VirtAddr, len: u64) {
        let block = self.blocks.get(number);
        let (allocated, of, offset) = (block.allocated, block.len, addr.distance(block.start));
        let place = block.place(addr);
        let key = ErrorKey::new(MemoryErrorKind::Uninitialised, at.places.first().copied(), allocated);
        let variable = at.resolver.resolve_data(addr).variable;
        let function = op.function.name();
        self.add(key, FirstPlace::of(at, Some(op.cycle), addr), || {
            let what = format!(
                "{function} of {} at {offset} of a block of {of}, which nobody wrote",
                amount(len, "byte")
            );
            FoundError::new(what, len, variable_text(at.resolver, variable), Some(place))
        });
    }

    fn allocation(&mut self, at: &mut Moment<'_>, event: &Allocation) {
        let place = at.places.first().copied();
        let odd = self.odd.remove(&(at.process, event.order));
        self.confused.remove(&at.thread);
        match event.kind {
            AllocationKind::Free => {
                let hit = at.resolver.heap().get(event.addr);
                if let Some(change) = odd {
                    self.invalid_free(at, event, place, change);
                } else if let Some(hit) = hit.filter(|hit| hit.offset == 0 && hit.state == BlockState::Freed)
                {
                    self.released(at, event, hit.block, place);
                }
            }
            kind if kind.allocates() => {
                match odd.filter(|_| kind == AllocationKind::Realloc) {
                    Some(HeapChange::Replaced { old, .. }) => self.reallocated(at, event, old, place),
                    Some(HeapChange::AllocatedForFreed { freed, .. }) => {
                        self.reallocated_freed(at, event, freed, place);
                    }
                    _ => {}
                }
                let Some(hit) = at.resolver.heap().get(event.addr).filter(|hit| hit.offset == 0) else {
                    return;
                };
                let is_mapping = matches!(kind, AllocationKind::Mmap | AllocationKind::Mremap);
                // What realloc keeps may not have been written, either; nobody knows here.
                let is_written = is_mapping || kind != AllocationKind::Malloc;
                let mut block = FollowedBlock::new(event.addr, event.len, event.function, is_written);
                block.allocated = place;
                block.is_mapping = is_mapping;
                let given = at.resolver.heap().block(hit.block).map(HeapBlock::extent);
                block.usable = given.unwrap_or(u64::MAX).max(event.len);
                if let Some(unwritten) = &mut self.unwritten {
                    unwritten.forget(at.process, event.addr, event.len);
                }
                if let Some(Pointers { words, .. }) = self.pointers.as_mut().filter(|_| !is_mapping) {
                    words.allocated(at.process, event.addr, event.len, kind != AllocationKind::Realloc);
                }
                if !is_mapping {
                    block.operator = self.operators.of(at.resolver, event);
                    self.newest.insert(at.thread, hit.block);
                }
                self.blocks.add(at.process, hit.block, block);
            }
            _ => {}
        }
    }

    /// A block that realloc gave back for another one.
    fn reallocated(
        &mut self,
        at: &mut Moment<'_>,
        event: &Allocation,
        old: BlockId,
        place: Option<CallPlace>,
    ) {
        let Some(block) = self.blocks.known(at.process, old) else { return };
        let (start, len) = (block.start, block.len.min(event.len));
        self.released(at, event, old, place);
        if let Some(Pointers { words, .. }) = self.pointers.as_mut().filter(|_| start != event.addr) {
            words.moved(at.process, start, event.addr, len);
        }
    }

    /// Realloc was given a block that had been released.
    fn reallocated_freed(
        &mut self,
        at: &Moment<'_>,
        event: &Allocation,
        freed: BlockId,
        place: Option<CallPlace>,
    ) {
        let Some(block) = self.blocks.known(at.process, freed) else { return };
        let (allocated, freed, len, block_start) = (block.allocated, block.freed, block.len, block.start);
        let of = block.place(block_start);
        let seen = FirstPlace::of(at, Some(event.cycle), block_start);
        self.add(ErrorKey::new(MemoryErrorKind::InvalidFree, place, allocated), seen, || {
            let what = format!("realloc of a block of {len} that was released");
            FoundError { freed, ..FoundError::new(what, len, String::new(), Some(of)) }
        });
    }

    fn released(&mut self, at: &mut Moment<'_>, event: &Allocation, id: BlockId, place: Option<CallPlace>) {
        let newest = self.newest.get(&at.thread).copied();
        let operator = self.operators.of(at.resolver, event);
        let Some(block) = self.blocks.of(at.process, id) else { return };
        let (by, with, allocated, len) = (block.function, event.function, block.allocated, block.len);
        let (start, of) = (block.start, block.place(block.start));
        let is_right = is_right_release(block, with, operator);
        let as_array = |function: AllocationFunction, call: CalledOperator| {
            let is_named = matches!(function, AllocationFunction::NewArray | AllocationFunction::DeleteArray);
            if call.is_array == Some(true) && !is_named { " for an array" } else { "" }
        };
        let (made_as, released_as) = (as_array(by, block.operator), as_array(with, operator));
        block.is_temporary = newest == Some(id) && event.kind == AllocationKind::Free;
        block.release(place);
        if !is_right {
            let variable = at.resolver.resolve_data(start).variable;
            let key = ErrorKey::new(MemoryErrorKind::MismatchedFree, place, allocated);
            self.add(key, FirstPlace::of(at, Some(event.cycle), start), || {
                let what =
                    format!("{}{released_as} of a block that {}{made_as} allocated", with.name(), by.name());
                FoundError::new(what, len, variable_text(at.resolver, variable), Some(of))
            });
        }
    }

    /// A release that changed nothing. What may have been allocated before the recording is none.
    fn invalid_free(
        &mut self,
        at: &mut Moment<'_>,
        event: &Allocation,
        place: Option<CallPlace>,
        change: HeapChange,
    ) {
        let name = at.resolver.resolve_data(event.addr);
        let block = self.block_of(at.resolver, name.variable);
        let region = name
            .region
            .and_then(|region| at.resolver.image().regions().region(region))
            .map(|region| region.kind);
        let what = match (change, &block, region) {
            (HeapChange::FreedTwice(_), ..) => "released again".to_owned(),
            (_, Some(block), _) if block.is_live && name.offset > 0 && name.offset < block.len => {
                format!("release of an address {} into a block of {}", amount(name.offset, "byte"), block.len)
            }
            (
                _,
                None,
                // Where nothing is mapped, nothing was ever allocated.
                None
                | Some(
                    RegionKind::Stack
                    | RegionKind::Data
                    | RegionKind::Bss
                    | RegionKind::Rodata
                    | RegionKind::Text,
                ),
            ) => "release of what was never allocated".to_owned(),
            _ => return,
        };
        let (allocated, freed) = block.as_ref().map_or((None, None), |block| (block.allocated, block.freed));
        let key = ErrorKey::new(MemoryErrorKind::InvalidFree, place, allocated);
        let place = block.as_ref().map(|block| block.place(event.addr));
        let len = block.map_or(0, |block| block.len);
        self.confused.insert(at.thread);
        self.add(key, FirstPlace::of(at, Some(event.cycle), event.addr), || {
            let name = variable_text(at.resolver, name.variable);
            FoundError { freed, ..FoundError::new(what, len, name, place) }
        });
    }
}

/// What a variable is called.
fn variable_text(resolver: &Resolver, id: VariableId) -> String {
    resolver.names().variable(id).map_or_else(String::new, |variable| variable.name.to_string())
}

impl Tool for MemoryErrors {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        if let Some(Pointers { values, words }) = &mut self.pointers {
            let thread = at.thread;
            let resolver = &mut *at.resolver;
            let code = &mut self.instructions;
            let each =
                |access: &Access, bytes: Option<&[u8]>| words.access(resolver, code, thread, access, bytes);
            if !values.next(thread, accesses, each)? {
                self.pointers = None;
            }
        }
        if self.unwritten.is_none() {
            for index in 0..accesses.len() {
                self.access(at, accesses, index);
            }
        } else {
            let mut first = 0;
            for group in accesses.chunk_by(|a, b| a.cycle == b.cycle && a.ip == b.ip) {
                self.follow_unwritten(at, group, first)?;
                for index in first..first + group.len() {
                    self.access(at, accesses, index);
                }
                first += group.len();
            }
        }
        self.recent.entry(at.thread).or_default().add(accesses);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if let Some(votes) = &mut self.votes {
            votes.event(at, event)?;
        }
        match event {
            Event::Block(op) => {
                if let Some(unwritten) = &mut self.unwritten {
                    if op.function == BlockFunction::Signal {
                        unwritten.interrupt(at.thread);
                    }
                    if let Some((start, len)) = op.written() {
                        unwritten.forget(at.process, start, len);
                    }
                }
                if let Some(written) = op.written().filter(|_| self.copies.is_running()) {
                    self.copies.kernel_stored(at.thread, written);
                }
                // What the allocator moves is told with the allocation.
                let written = op.written().filter(|_| op.function != BlockFunction::Allocator);
                if let (Some((start, len)), Some(Pointers { words, .. })) = (written, &mut self.pointers) {
                    words.written(at.process, start, len);
                }
                if let Some(copy) = overlapping_block(op, at.places.first().copied()) {
                    self.overlap(at, copy);
                }
                self.range(at, op, op.read(), AccessKind::Load);
                self.range(at, op, op.compared(), AccessKind::Load);
                self.range(at, op, op.written(), AccessKind::Store);
            }
            Event::Allocation(event) => self.allocation(at, event),
            Event::Gap(gap) => {
                self.missing += gap.count;
                self.lost.gap(gap);
            }
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        use HeapChange::{AllocatedForFreed, FreedTwice, Replaced, Unknown};
        if matches!(change, FreedTwice(_) | Unknown | Replaced { .. } | AllocatedForFreed { .. }) {
            self.odd.insert((resolver.process(), event.order), change);
        }
    }
}

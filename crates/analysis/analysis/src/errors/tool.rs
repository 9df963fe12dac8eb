//! The replay that finds them.

use std::collections::BTreeMap;

use memref::{
    Access, AccessKind, Allocation, AllocationKind, BlockFunction, BlockOp, Event, ProcessId, RegionKind,
    ThreadId, VirtAddr,
};
use rustc_hash::FxHashMap;
use symbols::{BlockId, BlockState, CodeId, HeapChange, Names, RegionId, Resolver, VariableId, VariableKind};
use x86::{Instruction, MAX_INSTRUCTION_BYTES};

use super::blocks::{FollowedBlock, FollowedBlocks, go_together};
use super::found::{ErrorKey, FoundError, MemoryError, MemoryErrorKind, named};
use crate::code_files::CodeFiles;
use crate::stack::{CallPlace, Contexts, StackNames};
use crate::stale::scan::{self, RecentAccesses};
use crate::{Error, Moment, Owner, Tool};

/// The bytes between two blocks that are the allocator's: the size of the second one.
const HEADER_BYTES: u64 = 8;

/// What an access to a variable has to be looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableClass {
    Other,
    /// The heap, where no known block is.
    Gap,
    Released,
    /// A block of the process that is followed.
    Live(u32),
}

/// Looks for errors.
#[derive(Debug, Default)]
pub struct MemoryErrors {
    blocks: FollowedBlocks,
    classes: Vec<Option<VariableClass>>,
    recent: FxHashMap<ThreadId, RecentAccesses>,
    /// Releases that the map of blocks did not understand, until their event comes: by process and order.
    odd: FxHashMap<(ProcessId, u64), HeapChange>,
    files: CodeFiles,
    /// Whether an instruction compares what it loads.
    compares: FxHashMap<CodeId, bool>,
    found: BTreeMap<ErrorKey, FoundError>,
    /// Missing events, which can have written or released.
    pub missing: u64,
}

impl MemoryErrors {
    /// What was found, errors first. To be asked after the replay.
    pub fn errors(mut self, names: &Names, contexts: &Contexts) -> Vec<MemoryError> {
        self.add_leaks();
        named(&self.found, &StackNames::new(names, contexts))
    }

    fn add_leaks(&mut self) {
        let kinds = [(MemoryErrorKind::Leak, "never released"), (MemoryErrorKind::Unused, "never accessed")];
        for block in self.blocks.iter().filter(|block| !block.is_mapping && block.allocated.is_some()) {
            for (kind, what) in kinds {
                let is_one = if kind == MemoryErrorKind::Leak { block.is_live } else { !block.is_accessed };
                if !is_one {
                    continue;
                }
                let key = ErrorKey { kind, access: None, allocated: block.allocated };
                let one = self.found.entry(key).or_insert_with(|| FoundError {
                    what: what.to_owned(),
                    bytes: 0,
                    name: block.function.name().to_owned(),
                    freed: None,
                    times: 0,
                });
                one.bytes += block.len;
                one.times += 1;
            }
        }
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
            Some(VariableKind::Region { .. }) => {
                let region = region.and_then(|region| resolver.image().regions().region(region));
                let is_heap = region.is_some_and(|region| region.kind == RegionKind::Heap);
                if is_heap { VariableClass::Gap } else { VariableClass::Other }
            }
            _ => VariableClass::Other,
        };
        let index = id.0 as usize;
        if index >= self.classes.len() {
            self.classes.resize(index + 1, None);
        }
        self.classes[index] = Some(class);
        class
    }

    fn add(
        &mut self,
        key: ErrorKey,
        freed: Option<CallPlace>,
        bytes: u64,
        name: String,
        what: impl FnOnce() -> String,
    ) {
        let one = self.found.entry(key).or_insert_with(|| FoundError {
            what: what(),
            bytes,
            name,
            freed,
            times: 0,
        });
        one.times += 1;
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
        let text =
            at.resolver.names().variable(name.variable).map_or_else(String::new, |v| v.name.to_string());
        let key = ErrorKey { kind: MemoryErrorKind::UseAfterFree, access: place, allocated };
        let len = block.map_or(0, |block| block.len);
        let (kind, size, offset) = (access.kind, access.size, name.offset);
        self.add(key, freed, size.into(), text, || {
            format!("{} of {size} bytes at {offset} of a block of {len} that was released", kind.name())
        });
    }

    /// An access to the heap where no block is: next to one it runs over.
    fn gap(&mut self, at: &mut Moment<'_>, access: &Access, place: Option<CallPlace>) {
        let (begin, end, _) = at.resolver.heap().get_span(access.addr);
        let addr = access.addr.0;
        let live = |addr: u64| {
            let hit = at.resolver.heap().get(VirtAddr(addr)).filter(|hit| hit.state == BlockState::Live)?;
            Some((hit.block, *at.resolver.heap().block(hit.block)?))
        };
        let before = live(begin.0.wrapping_sub(1))
            .filter(|(_, block)| addr.wrapping_sub(block.start.0 + block.extent()) < HEADER_BYTES);
        let after = live(end.0).filter(|(_, block)| block.start.0 == end.0 && end.0 - addr <= HEADER_BYTES);
        let Some((id, block)) = before.or(after) else { return };
        let allocated = self.blocks.of(at.process, id).and_then(|block| block.allocated);
        let name = at.resolver.resolve_data(block.start).variable;
        let name = at.resolver.names().variable(name).map_or_else(String::new, |v| v.name.to_string());
        let key = ErrorKey { kind: MemoryErrorKind::OutOfBounds, access: place, allocated };
        let (kind, size, len) = (access.kind.name(), access.size, block.len);
        let where_ = if before.is_some() {
            format!("{} after", addr - block.start.0 - len)
        } else {
            format!("{} before", block.start.0 - addr)
        };
        self.add(key, None, size.into(), name, || {
            format!("{kind} of {size} bytes, {where_} a block of {len}")
        });
    }

    /// A load of bytes that nobody wrote, where the instruction compares them.
    fn unwritten(&mut self, at: &mut Moment<'_>, access: &Access, number: u32, place: Option<CallPlace>) {
        let code = at.resolver.resolve_code(access.ip);
        let is_compared = match self.compares.get(&code) {
            Some(is_compared) => *is_compared,
            None => {
                let is_compared = self.is_compared(at.resolver, access.ip, code);
                self.compares.insert(code, is_compared);
                is_compared
            }
        };
        if !is_compared {
            return;
        }
        let block = self.blocks.get(number);
        let (allocated, len, offset) = (block.allocated, block.len, access.addr.distance(block.start));
        let name = at.resolver.resolve_data(access.addr).variable;
        let name = at.resolver.names().variable(name).map_or_else(String::new, |v| v.name.to_string());
        let key = ErrorKey { kind: MemoryErrorKind::Uninitialised, access: place, allocated };
        let size = access.size;
        self.add(key, None, size.into(), name, || {
            format!("comparison of {size} bytes at {offset} of a block of {len}, which nobody wrote")
        });
    }

    fn is_compared(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) -> bool {
        let name = resolver.names().code(code);
        let module = name.as_deref().and_then(|name| name.module.as_deref());
        // String functions of the C library compare what they then mask away.
        if module.is_none_or(|module| Owner::of_module(module) != Owner::Program) {
            return false;
        }
        let mut buffer = [0; MAX_INSTRUCTION_BYTES];
        let bytes = self.files.at(resolver, ip, &mut buffer);
        let instruction = bytes.and_then(|bytes| Instruction::decode(bytes, ip.0));
        instruction.is_some_and(|instruction| {
            instruction.names_memory()
                && matches!(format!("{:?}", instruction.name()).as_str(), "Cmp" | "Test")
        })
    }

    fn access(&mut self, at: &mut Moment<'_>, accesses: &[Access], index: usize) {
        let access = &accesses[index];
        let name = at.resolver.resolve_data(access.addr);
        let class = self.class(at.resolver, at.process, name.variable, name.region);
        match class {
            VariableClass::Other => {}
            VariableClass::Live(number) => {
                let (addr, len) = (access.addr, u64::from(access.size));
                let block = self.blocks.get(number);
                block.is_accessed = true;
                if access.kind == AccessKind::Load && len <= 8 && block.is_unwritten(addr, len) {
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
                if scan::is_right(at.resolver, access, before, accesses.get(index + 1))
                    || is_linker(at.resolver, access.ip)
                {
                    return;
                }
                let place = at.places.get(index).copied();
                if class == VariableClass::Gap {
                    self.gap(at, access, place)
                } else {
                    self.use_after_free(at, access, place)
                }
            }
        }
    }

    /// A range that one call read or wrote.
    fn range(&mut self, at: &mut Moment<'_>, op: &BlockOp, range: Option<(VirtAddr, u64)>, kind: AccessKind) {
        let Some((addr, len)) = range.filter(|(_, len)| *len > 0) else { return };
        let name = at.resolver.resolve_data(addr);
        match self.class(at.resolver, at.process, name.variable, name.region) {
            VariableClass::Live(number) => {
                let block = self.blocks.get(number);
                block.is_accessed |= op.function != BlockFunction::Allocator;
                if kind == AccessKind::Store {
                    block.write(addr, len);
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

    fn allocation(&mut self, at: &mut Moment<'_>, event: &Allocation) {
        let place = at.places.first().copied();
        let odd = self.odd.remove(&(at.process, event.order));
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
                if kind == AllocationKind::Realloc
                    && let Some(HeapChange::Replaced { old, .. }) = odd
                    && let Some(old) = self.blocks.of(at.process, old)
                {
                    old.release(place);
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
                self.blocks.add(at.process, hit.block, block);
            }
            _ => {}
        }
    }

    fn released(&mut self, at: &mut Moment<'_>, event: &Allocation, id: BlockId, place: Option<CallPlace>) {
        let Some(block) = self.blocks.of(at.process, id) else { return };
        let (by, with, allocated, len) = (block.function, event.function, block.allocated, block.len);
        block.release(place);
        if !go_together(by, with) {
            let name = at.resolver.resolve_data(event.addr).variable;
            let name = at.resolver.names().variable(name).map_or_else(String::new, |v| v.name.to_string());
            let key = ErrorKey { kind: MemoryErrorKind::MismatchedFree, access: place, allocated };
            self.add(key, None, len, name, || {
                format!("{} of a block that {} allocated", with.name(), by.name())
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
        let text =
            at.resolver.names().variable(name.variable).map_or_else(String::new, |v| v.name.to_string());
        let region = name
            .region
            .and_then(|region| at.resolver.image().regions().region(region))
            .map(|region| region.kind);
        let what = match (change, &block, region) {
            (HeapChange::FreedTwice(_), ..) => "released again".to_owned(),
            (_, Some(block), _) if block.is_live && name.offset > 0 && name.offset < block.len => {
                format!("release of an address {} bytes into a block of {}", name.offset, block.len)
            }
            (
                _,
                None,
                Some(
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
        let key = ErrorKey { kind: MemoryErrorKind::InvalidFree, access: place, allocated };
        self.add(key, freed, block.map_or(0, |block| block.len), text, || what);
    }
}

/// Whether the dynamic linker accesses it: it reads what it maps before the map of regions has it, where a large block may have been.
fn is_linker(resolver: &mut Resolver, ip: VirtAddr) -> bool {
    let code = resolver.code_name(ip);
    let module = code.as_deref().and_then(|code| code.module.as_deref());
    module.is_some_and(|module| Owner::of_module(module) == Owner::Linker)
}

impl Tool for MemoryErrors {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for index in 0..accesses.len() {
            self.access(at, accesses, index);
        }
        self.recent.entry(at.thread).or_default().add(accesses);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        match event {
            Event::Block(op) => {
                self.range(at, op, op.read(), AccessKind::Load);
                self.range(at, op, op.compared(), AccessKind::Load);
                self.range(at, op, op.written(), AccessKind::Store);
            }
            Event::Allocation(event) => self.allocation(at, event),
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        if matches!(change, HeapChange::FreedTwice(_) | HeapChange::Unknown | HeapChange::Replaced { .. }) {
            self.odd.insert((resolver.process(), event.order), change);
        }
    }
}

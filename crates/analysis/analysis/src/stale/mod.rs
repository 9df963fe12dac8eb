//! Accesses to released memory (MadT, section III-F: names that begin with
//! `<freed:` or `<unmap:`), and releases of what is not a live block.
//!
//! Whole blocks are released, including the bytes by which the allocator rounded them up
//! ([`symbols::HeapBlock::slack`]). Loads by string functions of the C library that go past the end of a string,
//! because they read whole vectors, are not reported. Neither are the allocator's own accesses (`scan`).

pub(crate) mod scan;

use std::collections::{BTreeMap, HashMap};

use memref::{Access, AccessKind, Allocation, AllocationKind, BlockFunction, Event, ProcessId, ThreadId};
use memref::{BlockOp, VirtAddr};
use symbols::{BlockId, BlockState, CodeId, HeapChange, Resolver, VariableKind};

use crate::{Count, Error, Moment, Tool};
use scan::{RecentAccesses, StringLoads};

/// All accesses of one function to blocks of one site after their release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleAccess {
    /// The first such block, by its forged name.
    pub variable: String,
    /// The instruction, as function and offset.
    pub code: String,
    /// Source file and line, where known.
    pub line: Option<String>,
    /// The call that released the block, where it was seen.
    pub released: Option<String>,
    /// How often.
    pub count: Count,
}

/// A block that was freed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubleFree {
    /// Its forged name.
    pub block: String,
    /// The call that freed it again.
    pub call: String,
    /// The call that freed it first, where it was seen.
    pub released: Option<String>,
}

/// What is accessed by which instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StalePlace {
    variable: u32,
    code: u32,
}

/// Looks for use after free, double frees and frees of unknown addresses.
#[derive(Debug, Default)]
pub struct Stale {
    accesses: BTreeMap<StalePlace, StaleAccess>,
    /// The call that released a block.
    released_by: HashMap<ProcessId, Vec<Option<CodeId>>>,
    /// What each thread accessed last, in batches before the present one.
    recent: HashMap<ThreadId, RecentAccesses>,
    strings: StringLoads,
    /// Blocks that were freed again.
    pub double_frees: Vec<DoubleFree>,
    /// Frees of addresses at which no known block begins: how many. Blocks from before the recording count here.
    pub unknown_frees: u64,
}

impl Stale {
    /// What was found, most accesses first.
    pub fn findings(&self) -> Vec<StaleAccess> {
        let mut found: Vec<StaleAccess> = self.accesses.values().cloned().collect();
        found.sort_by(|a, b| {
            b.count.accesses().cmp(&a.count.accesses()).then_with(|| a.variable.cmp(&b.variable))
        });
        found
    }

    /// The call that released a block, as function and offset, with its line.
    fn release_of(&self, resolver: &Resolver, process: ProcessId, block: BlockId) -> Option<String> {
        let code = (*self.released_by.get(&process)?.get(block.0 as usize)?)?;
        let code = resolver.names().code(code)?;
        Some(match line_of(&code) {
            Some(line) => format!("{code} ({line})"),
            None => code.to_string(),
        })
    }

    /// Counts an access if it goes to released memory.
    fn count(&mut self, at: &mut Moment<'_>, access: &Access) {
        let name = at.resolver.resolve_data(access.addr);
        let Some(variable) = at.resolver.names().variable(name.variable) else { return };
        let VariableKind::Block { process, block, .. } = variable.kind else { return };
        let code = at.resolver.resolve_code(access.ip);
        let place = StalePlace { variable: name.variable.0, code: code.0 };
        if let Some(found) = self.accesses.get_mut(&place) {
            found.count.add(access);
            return;
        }
        let released = self.release_of(at.resolver, process, block);
        let code = at.resolver.names().code(code);
        let mut found = StaleAccess {
            variable: variable.name.to_string(),
            line: code.as_ref().and_then(|code| line_of(code)),
            code: code.map_or_else(String::new, |code| code.to_string()),
            released,
            count: Count::default(),
        };
        found.count.add(access);
        self.accesses.insert(place, found);
    }

    /// A range that one call read or wrote. Where it begins in a live block and ends in a released one, it ran over.
    fn range(&mut self, at: &mut Moment<'_>, op: &BlockOp, range: Option<(VirtAddr, u64)>, kind: AccessKind) {
        let Some((addr, len)) = range.filter(|(_, len)| *len > 0) else { return };
        if is_released(at.resolver, addr) {
            let size = u32::try_from(len).unwrap_or(u32::MAX);
            self.count(at, &Access { cycle: op.cycle, ip: op.ip, addr, size, kind });
        }
    }
}

fn line_of(code: &symbols::CodeName) -> Option<String> {
    let (file, line) = code.line()?;
    Some(line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

/// Whether a byte was freed, and is nothing else since. What was unmapped can't be accessed: where an access to it is recorded,
/// something else is mapped there already.
fn is_released(resolver: &mut Resolver, addr: VirtAddr) -> bool {
    let name = resolver.resolve_data(addr);
    resolver
        .names()
        .variable(name.variable)
        .is_some_and(|variable| matches!(variable.kind, VariableKind::Block { state: BlockState::Freed, .. }))
}

impl Tool for Stale {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let mut last = None;
        for (index, access) in accesses.iter().enumerate() {
            let name = at.resolver.resolve_data(access.addr);
            // Most accesses go to the variable of the one before.
            if last == Some(name.variable) {
                continue;
            }
            if !is_released(at.resolver, access.addr) {
                last = Some(name.variable);
                continue;
            }
            let before = self.recent.get(&at.thread).map_or(&[][..], |recent| recent.accesses());
            let before = accesses[..index].iter().rev().chain(before.iter().rev());
            if access.kind != AccessKind::Prefetch
                && !self.strings.is_right(at.resolver, access, before, accesses.get(index + 1))
            {
                self.count(at, access);
            }
        }
        self.recent.entry(at.thread).or_default().add(accesses);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        // What the allocator and the kernel do to memory for their own ends is no access of the program.
        let Event::Block(op) = event else { return Ok(()) };
        if matches!(op.function, BlockFunction::Allocator | BlockFunction::Signal) {
            return Ok(());
        }
        self.range(at, op, op.read(), AccessKind::Load);
        self.range(at, op, op.compared(), AccessKind::Load);
        self.range(at, op, op.written(), AccessKind::Store);
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        match change {
            HeapChange::Released(block) | HeapChange::Replaced { old: block, .. } => {
                let code = resolver.resolve_code(event.ip);
                let calls = self.released_by.entry(resolver.process()).or_default();
                if calls.len() <= block.0 as usize {
                    calls.resize(block.0 as usize + 1, None);
                }
                calls[block.0 as usize] = Some(code);
            }
            HeapChange::FreedTwice(block) => {
                let released = self.release_of(resolver, resolver.process(), block);
                let name = resolver.resolve_data(event.addr).variable;
                let block = resolver.names().variable(name).map_or_else(String::new, |v| v.name.to_string());
                let call = resolver.code_name(event.ip).map_or_else(String::new, |code| code.to_string());
                self.double_frees.push(DoubleFree { block, call, released });
            }
            HeapChange::Unknown if event.kind == AllocationKind::Free => self.unknown_frees += 1,
            _ => {}
        }
    }
}

/// Two tools in one pass.
impl<A: Tool, B: Tool> Tool for (A, B) {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.0.accesses(at, accesses)?;
        self.1.accesses(at, accesses)
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &memref::Event<String>) -> Result<(), Error> {
        self.0.event(at, event)?;
        self.1.event(at, event)
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        self.0.change(resolver, event, change);
        self.1.change(resolver, event, change);
    }
}

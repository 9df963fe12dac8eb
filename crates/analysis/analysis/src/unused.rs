//! Unused allocations: blocks that were never read, never written or never freed, by the call that allocated them.
//!
//! Block operations (memcpy, write) also read and write. A block that realloc or mremap moved is the same block as
//! before. Writes by calloc itself are not uses. Blocks that were allocated before the recording are not known.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{Access, AccessKind, Allocation, AllocationKind, Event, ProcessId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{BlockId, BlockState, HeapChange, Resolver, VariableId, VariableKind};

use crate::block_total::BlockTotal;
use crate::stack::{SiteStyle, Stacks};
use crate::tally::BlockSites;
use crate::{Error, Moment, Owner, Session, Tool, has_stacks};

/// The blocks of one call that allocates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedRow {
    /// The call: `malloc at func1+230`.
    pub name: String,
    /// Source file and line of the call, where known.
    pub line: Option<String>,
    /// The file name of the module with the call.
    pub module: String,
    /// Whose code that is.
    pub owner: Owner,
    /// All its blocks.
    pub all: BlockTotal,
    /// Those that nothing ever read.
    pub never_read: BlockTotal,
    /// Those that nothing ever wrote.
    pub never_written: BlockTotal,
    /// Those that were neither read nor written.
    pub never_accessed: BlockTotal,
    /// Those that were still allocated at the end.
    pub never_freed: BlockTotal,
}

/// What was done with a block.
#[derive(Clone, Copy, Debug, Default)]
struct DoneWith {
    read: bool,
    written: bool,
    freed: bool,
    /// The block of which this one is what realloc made.
    moved_from: Option<u32>,
}

/// A variable that is no block, or not one whose allocation was seen.
const NO_BLOCK: u32 = u32::MAX;
/// Variables that one block operation is followed through.
const MOST_PARTS: usize = 1 << 16;

/// Sees which blocks are used.
#[derive(Debug, Default)]
pub struct Unused {
    uses: Vec<DoneWith>,
    blocks: FxHashMap<(ProcessId, BlockId), u32>,
    /// The block of each variable, once it was asked for.
    of_variable: Vec<Option<u32>>,
    parents: HashMap<ProcessId, ProcessId>,
    /// Followed for the sites of the blocks, where the trace has calls.
    stacks: Option<Stacks>,
    /// Events that were lost: they may have used any block.
    pub missing: u64,
}

impl Unused {
    /// For that session.
    pub fn new(session: &Session) -> Self {
        let records = session.trace().processes().iter();
        let parents = records.filter_map(|record| Some((record.process, record.parent?))).collect();
        let stacks = has_stacks(session).then(|| Stacks::new(session));
        Self { parents, stacks, ..Self::default() }
    }

    fn block(&mut self, resolver: &Resolver, variable: VariableId) -> u32 {
        let index = variable.0 as usize;
        if index >= self.of_variable.len() {
            self.of_variable.resize(index + 1, None);
        }
        if let Some(block) = self.of_variable[index] {
            return block;
        }
        let found = resolver.names().variable(variable).and_then(|variable| match variable.kind {
            VariableKind::Block { process, block, state: BlockState::Live } => self.find(process, block),
            _ => None,
        });
        let block = found.unwrap_or(NO_BLOCK);
        self.of_variable[index] = Some(block);
        block
    }

    /// A block of a process, or of the one that it was forked from.
    fn find(&self, process: ProcessId, block: BlockId) -> Option<u32> {
        let mut process = Some(process);
        while let Some(now) = process {
            if let Some(&found) = self.blocks.get(&(now, block)) {
                return Some(found);
            }
            process = self.parents.get(&now).copied().filter(|parent| *parent < now);
        }
        None
    }

    fn begin(&mut self, process: ProcessId, block: BlockId, moved_from: Option<u32>) {
        self.blocks.insert((process, block), self.uses.len() as u32);
        self.uses.push(DoneWith { moved_from, ..DoneWith::default() });
    }

    fn mark(&mut self, block: u32, read: bool, written: bool) {
        if let Some(block) = self.uses.get_mut(block as usize) {
            block.read |= read;
            block.written |= written;
        }
    }

    fn mark_range(&mut self, resolver: &mut Resolver, range: Option<(VirtAddr, u64)>, written: bool) {
        let Some((VirtAddr(mut addr), len)) = range else { return };
        let end = addr.saturating_add(len);
        for _ in 0..MOST_PARTS {
            if addr >= end {
                return;
            }
            let name = resolver.resolve_data(VirtAddr(addr));
            let bytes = resolver.names().variable(name.variable).map_or(0, |variable| variable.bytes);
            let block = self.block(resolver, name.variable);
            self.mark(block, !written, written);
            let next = addr.wrapping_sub(name.offset).saturating_add(bytes);
            let next_page = (addr | (VirtAddr::PAGE_BYTES - 1)).saturating_add(1);
            addr = if next > addr { next } else { (addr + 16 - addr % 16).min(next_page) };
        }
    }

    /// The allocation sites with blocks that were not used, those with the most bytes that were never read first. Reads debug
    /// information.
    pub fn rows(&self, session: &Session, resolvers: &[Resolver], style: SiteStyle) -> Vec<UnusedRow> {
        let mut uses = self.uses.clone();
        // What was done with a block was done with those that it was made from, and what these held it holds, too. A block is
        // made from one with a lower number.
        for index in (0..uses.len()).rev() {
            if let Some(from) = uses[index].moved_from {
                uses[from as usize].read |= uses[index].read;
                uses[from as usize].written |= uses[index].written;
            }
        }
        for index in 0..uses.len() {
            if let Some(from) = uses[index].moved_from {
                uses[index].read |= uses[from as usize].read;
                uses[index].written |= uses[from as usize].written;
            }
        }
        let mut sites = BlockSites::new(session, self.stacks.as_ref(), resolvers, style, true);
        let mut rows: HashMap<(AllocationKind, Arc<str>), UnusedRow> = HashMap::new();
        for resolver in resolvers {
            let process = resolver.process();
            for (id, block) in resolver.heap().blocks() {
                let Some(&index) = self.blocks.get(&(process, id)) else { continue };
                let Some(site) = sites.of(process, id) else { continue };
                let key = (site.kind, Arc::clone(&site.place.text));
                let row = rows.entry(key).or_insert_with(|| UnusedRow {
                    name: site.name(),
                    line: site.place.line.as_deref().map(str::to_owned),
                    owner: Owner::of_module(site.module()),
                    module: site.module().to_owned(),
                    ..UnusedRow::default()
                });
                let done = uses[index as usize];
                row.all.add(block.len);
                if !done.read {
                    row.never_read.add(block.len);
                }
                if !done.written {
                    row.never_written.add(block.len);
                }
                if !done.read && !done.written {
                    row.never_accessed.add(block.len);
                }
                if !done.freed {
                    row.never_freed.add(block.len);
                }
            }
        }
        let is_unused = |row: &UnusedRow| row.never_read.blocks + row.never_written.blocks > 0;
        let mut rows: Vec<UnusedRow> = rows.into_values().filter(is_unused).collect();
        let most = |row: &UnusedRow| std::cmp::Reverse((row.never_read.bytes, row.never_written.bytes));
        rows.sort_by(|a, b| most(a).cmp(&most(b)).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

impl Tool for Unused {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            if let Some(stacks) = &mut self.stacks {
                stacks.access(at, access);
            }
            let (read, written) = match access.kind {
                AccessKind::Load => (true, false),
                AccessKind::Store => (false, true),
                AccessKind::Modify => (true, true),
                AccessKind::Prefetch => continue,
            };
            let variable = at.resolver.resolve_data(access.addr).variable;
            let block = self.block(at.resolver, variable);
            if block != NO_BLOCK {
                self.mark(block, read, written);
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if let Some(stacks) = &mut self.stacks {
            stacks.event(at, event);
        }
        match event {
            Event::Block(block) => {
                self.mark_range(at.resolver, block.read(), false);
                self.mark_range(at.resolver, block.compared(), false);
                self.mark_range(at.resolver, block.written(), true);
            }
            Event::Gap(gap) => self.missing += gap.count,
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, _: &Allocation, change: HeapChange) {
        let process = resolver.process();
        match change {
            HeapChange::Allocated(new) | HeapChange::AllocatedForFreed { new, .. } => {
                self.begin(process, new, None)
            }
            HeapChange::Replaced { old, new } => {
                let old = self.find(process, old);
                if let Some(old) = old.and_then(|old| self.uses.get_mut(old as usize)) {
                    old.freed = true;
                }
                self.begin(process, new, old);
            }
            HeapChange::Released(block) => {
                let block = self.find(process, block);
                if let Some(block) = block.and_then(|block| self.uses.get_mut(block as usize)) {
                    block.freed = true;
                }
            }
            _ => {}
        }
    }
}

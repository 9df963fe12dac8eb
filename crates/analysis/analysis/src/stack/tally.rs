//! Counts by calling context.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use memref::{Access, Event, ThreadId};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Names, Resolver};
use trace_format::Filter;

use super::context::{ContextId, Contexts};
use super::names::StackNames;
use super::place::CallPlace;
use super::shadow::Stacks;
use crate::chosen::{self, Chosen, CountsPart};
use crate::{Count, Error, Moment, Session, Tool};

/// What happened in one stack of functions, not counting what happened in functions that these called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCount {
    /// The functions, outermost first. Functions that were inlined are functions.
    pub stack: Vec<Arc<str>>,
    /// The file names of their modules, each once.
    pub modules: BTreeSet<Arc<str>>,
    /// Accesses.
    pub count: Count,
    /// Calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

/// What one instruction did in one context.
#[derive(Clone, Copy, Debug)]
pub struct Tallied {
    /// The context.
    pub context: ContextId,
    /// The instruction.
    pub code: CodeId,
    /// Its accesses.
    pub count: Count,
    /// Its calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

const NO_CONTEXT: ContextId = ContextId(u32::MAX);

/// Counts the accesses and allocations of each instruction in each context.
#[derive(Debug)]
pub struct StackTally {
    stacks: Stacks,
    tallied: Vec<Tallied>,
    place_of: FxHashMap<(ContextId, CodeId), usize>,
    /// Where each instruction was counted last: it mostly runs in the same context again.
    last: Vec<(ContextId, u32)>,
    chosen: Chosen,
}

impl StackTally {
    /// Counts for that session.
    pub fn new(session: &Session) -> Self {
        Self {
            stacks: Stacks::new(session),
            tallied: Vec::new(),
            place_of: FxHashMap::default(),
            last: Vec::new(),
            chosen: Chosen::default(),
        }
    }

    /// Counts what matches a filter; with `only`, of one thread. All events of each thread are followed.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(
        &mut self,
        session: &Session,
        filter: &Filter,
        only: Option<ThreadId>,
    ) -> Result<Vec<Resolver>, Error> {
        chosen::replay(self, session, filter, only)
    }

    /// Each instruction in each context, in the order in which they were met. Nothing is named yet.
    pub fn tallied(&self) -> &[Tallied] {
        &self.tallied
    }

    /// The contexts that these were met in.
    pub fn contexts(&self) -> &Contexts {
        self.stacks.contexts()
    }

    #[inline]
    fn at(&mut self, context: ContextId, code: CodeId) -> &mut Tallied {
        let place = match self.last.get(code.0 as usize) {
            Some(&(last, place)) if last == context => place as usize,
            _ => self.find(context, code),
        };
        &mut self.tallied[place]
    }

    fn find(&mut self, context: ContextId, code: CodeId) -> usize {
        let place = *self.place_of.entry((context, code)).or_insert_with(|| {
            let count = Count::default();
            self.tallied.push(Tallied { context, code, count, allocations: 0, allocated_bytes: 0 });
            self.tallied.len() - 1
        });
        let index = code.0 as usize;
        if index >= self.last.len() {
            self.last.resize(index + 1, (NO_CONTEXT, 0));
        }
        self.last[index] = (context, place as u32);
        place
    }

    /// All stacks, those with most accesses first, of equals in alphabetical order. Reads debug information.
    pub fn rows(&self, names: &Names) -> Vec<StackCount> {
        let namer = StackNames::new(names, self.stacks.contexts());
        let mut rows: HashMap<Vec<Arc<str>>, StackCount> = HashMap::new();
        for tallied in &self.tallied {
            let place = CallPlace { context: tallied.context, code: tallied.code };
            let frames = namer.stack(place);
            let stack: Vec<Arc<str>> = frames.iter().map(|frame| Arc::clone(&frame.function)).collect();
            let row = rows.entry(stack).or_default();
            for module in frames.iter().filter_map(|frame| frame.module.as_ref()) {
                if !row.modules.contains(module) {
                    row.modules.insert(Arc::clone(module));
                }
            }
            row.count += tallied.count;
            row.allocations += tallied.allocations;
            row.allocated_bytes += tallied.allocated_bytes;
        }
        let mut rows: Vec<StackCount> =
            rows.into_iter().map(|(stack, row)| StackCount { stack, ..row }).collect();
        let most = |row: &StackCount| std::cmp::Reverse(row.count.accesses());
        rows.sort_by(|a, b| most(a).cmp(&most(b)).then_with(|| a.stack.cmp(&b.stack)));
        rows
    }
}

impl CountsPart for StackTally {
    fn follows_all(&self) -> bool {
        true
    }

    fn chosen(&mut self) -> &mut Chosen {
        &mut self.chosen
    }
}

impl Tool for StackTally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        if self.chosen.is_all() {
            for access in accesses {
                let CallPlace { context, code } = self.stacks.access(at, access);
                self.at(context, code).count.add(access);
            }
            return Ok(());
        }
        let begin = self.chosen.tell(at.thread, accesses.len());
        for (index, access) in (begin..).zip(accesses) {
            let CallPlace { context, code } = self.stacks.access(at, access);
            if self.chosen.has(index, access) {
                self.at(context, code).count.add(access);
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        if let (Event::Allocation(allocation), Some(place)) = (event, place)
            && allocation.kind.allocates()
            && self.chosen.has_event(at.thread, event)
        {
            let tallied = self.at(place.context, place.code);
            tallied.allocations += 1;
            tallied.allocated_bytes += allocation.len;
        }
        Ok(())
    }
}

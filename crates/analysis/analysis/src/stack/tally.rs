//! Counts by calling context.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{Access, Event};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Names};

use super::context::{ContextId, EnteredBy};
use super::shadow::Stacks;
use crate::{Count, Error, Moment, Session, Tool};

/// What happened in one stack of functions, not counting what happened in functions that these called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCount {
    /// The functions, outermost first. Functions that were inlined are functions.
    pub stack: Vec<Arc<str>>,
    /// Accesses.
    pub count: Count,
    /// Calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

/// One instruction in one context.
#[derive(Clone, Copy, Debug)]
struct Tallied {
    context: ContextId,
    code: CodeId,
    count: Count,
    allocations: u64,
    allocated_bytes: u64,
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
}

impl StackTally {
    /// Counts for that session.
    pub fn new(session: &Session) -> Self {
        Self {
            stacks: Stacks::new(session.begun_inside()),
            tallied: Vec::new(),
            place_of: FxHashMap::default(),
            last: Vec::new(),
        }
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
        let mut namer = Namer { names, frames: HashMap::new() };
        let mut rows: HashMap<Vec<Arc<str>>, StackCount> = HashMap::new();
        for tallied in &self.tallied {
            let mut stack = namer.outermost_first(&self.stacks, tallied.context);
            stack.extend(namer.frames(tallied.code).iter().cloned());
            let row = rows.entry(stack).or_default();
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

impl Tool for StackTally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            let (context, code) = self.stacks.access(at, access);
            self.at(context, code).count.add(access);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.stacks.event(at, event);
        if let Event::Allocation(event) = event
            && event.kind.allocates()
            && let Some(context) = self.stacks.context(at.thread)
        {
            let code = at.resolver.resolve_code(event.ip);
            let tallied = self.at(context, code);
            tallied.allocations += 1;
            tallied.allocated_bytes += event.len;
        }
        Ok(())
    }
}

/// Names of functions, each asked for once.
struct Namer<'a> {
    names: &'a Names,
    frames: HashMap<CodeId, Arc<[Arc<str>]>>,
}

impl Namer<'_> {
    /// The functions at an instruction: the one with the symbol, then those that were inlined there.
    fn frames(&mut self, code: CodeId) -> Arc<[Arc<str>]> {
        let names = self.names;
        let read = || {
            let Some(name) = names.code(code) else { return Arc::from([Arc::from("[unknown]")]) };
            let calls = name.calls();
            let own = || Arc::from(name.to_string());
            calls.into_iter().rev().map(|call| call.function.unwrap_or_else(own)).collect()
        };
        Arc::clone(self.frames.entry(code).or_insert_with(read))
    }

    fn outermost_first(&mut self, stacks: &Stacks, context: ContextId) -> Vec<Arc<str>> {
        let mut stack: Vec<Arc<str>> = Vec::new();
        let outwards: Vec<EnteredBy> =
            stacks.contexts().outwards(context).map(|(_, context)| context.entry).collect();
        for entry in outwards.into_iter().rev() {
            match entry {
                EnteredBy::Begin => {}
                EnteredBy::Unknown => stack.push("[unknown]".into()),
                EnteredBy::AfterGap => stack.push("[after a gap]".into()),
                EnteredBy::Signal => stack.push("[signal]".into()),
                EnteredBy::Stack => stack.push("[another stack]".into()),
                EnteredBy::Call(code) => stack.extend(self.frames(code).iter().cloned()),
            }
        }
        stack
    }
}

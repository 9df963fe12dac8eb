//! A replay in which each event comes with its place: its instruction, and the context that this ran in.

use std::collections::HashMap;

use memref::{Access, Allocation, Event, ThreadId, VirtAddr};
use symbols::{HeapChange, Resolver};
use trace_format::{Filter, KindSet};

use super::place::CallPlace;
use super::shadow::Stacks;
use crate::{Error, Moment, Session, Tool};

impl Session {
    /// As [`replay`](Self::replay), and the [`Moment`] of the tool has a place for each event. All events of each thread are
    /// followed from its beginning; those that match the filter are told.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay_in_context<T: Tool + ?Sized>(
        &self,
        filter: &Filter,
        only: Option<ThreadId>,
        stacks: &mut Stacks,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        let mut tool = InContext {
            is_all: *filter == Filter { kinds: filter.kinds, ..Filter::default() }
                && filter.kinds.contains(KindSet::ACCESSES),
            filter,
            stacks,
            tool,
            places: Vec::new(),
            cfas: Vec::new(),
            chosen: Vec::new(),
            told: HashMap::new(),
        };
        self.replay(&Filter { wall_ns: filter.wall_ns.clone(), ..Filter::default() }, only, &mut tool)
    }
}

/// Follows the stacks, and tells another tool what happens where.
struct InContext<'a, T: ?Sized> {
    filter: &'a Filter,
    /// Whether all accesses match.
    is_all: bool,
    stacks: &'a mut Stacks,
    tool: &'a mut T,
    places: Vec<CallPlace>,
    cfas: Vec<Option<VirtAddr>>,
    chosen: Vec<Access>,
    /// The accesses of each thread so far.
    told: HashMap<ThreadId, u64>,
}

impl<T: Tool + ?Sized> Tool for InContext<'_, T> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.places.clear();
        self.cfas.clear();
        if self.is_all {
            for access in accesses {
                self.places.push(self.stacks.access(at, access));
                self.cfas.push(self.stacks.cfa(at.thread));
            }
            return self.tool.accesses(&mut at.with(&self.places, &self.cfas), accesses);
        }
        self.chosen.clear();
        let begin = self.told.get(&at.thread).copied().unwrap_or_default();
        for (index, access) in (begin..).zip(accesses) {
            let place = self.stacks.access(at, access);
            if self.filter.admits_access(index, access) {
                self.chosen.push(*access);
                self.places.push(place);
                self.cfas.push(self.stacks.cfa(at.thread));
            }
        }
        self.told.insert(at.thread, begin + accesses.len() as u64);
        if self.chosen.is_empty() {
            return Ok(());
        }
        self.tool.accesses(&mut at.with(&self.places, &self.cfas), &self.chosen)
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        if self.filter.admits(event) {
            self.tool.event(&mut at.with(place.as_slice(), &[]), event)?;
        }
        Ok(())
    }

    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        self.tool.change(resolver, event, change);
    }
}

//! Counting only a part of a trace, while tools that follow the stacks still receive everything.

use std::collections::BTreeSet;

use memref::{Access, Event, ThreadId};
use rustc_hash::FxHashMap;
use symbols::Resolver;
use trace_format::Filter;

use crate::{Error, Session, Tool};

/// Which accesses are counted of all that are told.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// `None`: all of them.
    filter: Option<Filter>,
    /// Of this thread alone.
    only: Option<ThreadId>,
    /// Of these threads alone.
    threads: Option<BTreeSet<ThreadId>>,
    /// The accesses of each thread so far.
    told: FxHashMap<ThreadId, u64>,
}

impl Selection {
    /// That of some threads.
    pub(crate) fn of_threads(threads: BTreeSet<ThreadId>) -> Self {
        Self { threads: Some(threads), ..Self::default() }
    }

    /// Whether all are counted.
    #[inline]
    pub(crate) fn is_all(&self) -> bool {
        self.filter.is_none() && self.only.is_none() && self.threads.is_none()
    }

    /// The number of the next access among those of its thread, of so many that are told now.
    pub(crate) fn tell(&mut self, thread: ThreadId, accesses: usize) -> u64 {
        let told = self.told.entry(thread).or_default();
        *told += accesses as u64;
        *told - accesses as u64
    }

    /// Whether an event that is no access is counted. With a range of numbers it is where the next access of its thread would be.
    pub(crate) fn has_event(&self, thread: ThreadId, event: &Event<String>) -> bool {
        let next = || self.told.get(&thread).copied().unwrap_or_default();
        self.has_thread(thread)
            && self.filter.as_ref().is_none_or(|filter| {
                filter.admits(event) && filter.index.as_ref().is_none_or(|range| range.contains(&next()))
            })
    }

    /// Whether anything of a thread is counted.
    #[inline]
    pub(crate) fn has_thread(&self, thread: ThreadId) -> bool {
        self.only.is_none_or(|only| only == thread)
            && self.threads.as_ref().is_none_or(|threads| threads.contains(&thread))
    }

    /// Whether an access of a thread with that number is counted.
    pub(crate) fn has(&self, thread: ThreadId, index: u64, access: &Access) -> bool {
        self.has_thread(thread)
            && self.filter.as_ref().is_none_or(|filter| filter.admits_access(index, access))
    }
}

/// A tool that counts a part of a trace.
pub(crate) trait CountsPart: Tool {
    /// Whether it has to be told everything.
    fn follows_all(&self) -> bool;

    /// What it counts then.
    fn selection(&mut self) -> &mut Selection;
}

/// Replays what such a tool has to be told.
pub(crate) fn replay<T: CountsPart>(
    tool: &mut T,
    session: &Session,
    filter: &Filter,
    only: Option<ThreadId>,
) -> Result<Vec<Resolver>, Error> {
    let follows_all = tool.follows_all();
    // Who called what a forked child does, another thread tells.
    let begun_inside = session.begun_inside();
    let process = |thread: ThreadId| session.trace().thread(thread);
    let is_inside =
        |thread: ThreadId| process(thread).is_some_and(|record| begun_inside.contains(&record.process));
    let inside = only.filter(|only| follows_all && is_inside(*only));
    if (*filter == Filter::default() && inside.is_none()) || !follows_all {
        return session.replay(filter, only, tool);
    }
    let only = if inside.is_some() { None } else { only };
    tool.selection().only = inside;
    tool.selection().filter = (*filter != Filter::default()).then(|| filter.clone());
    session.replay(&Filter { wall_ns: filter.wall_ns.clone(), ..Filter::default() }, only, tool)
}

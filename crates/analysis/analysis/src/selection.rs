//! Counting only a part of a trace, while tools that follow the stacks still receive everything.

use memref::{Access, Event, ThreadId};
use rustc_hash::FxHashMap;
use symbols::Resolver;

use crate::{Error, Session, Tool, TracePart};

/// Which accesses are counted of all that are told.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    part: TracePart,
    /// The accesses of each thread so far.
    told: FxHashMap<ThreadId, u64>,
}

impl Selection {
    /// Whether all are counted.
    #[inline]
    pub(crate) fn is_all(&self) -> bool {
        self.part.is_all()
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
        self.part.has_event(thread, event)
            && self.part.filter().index.as_ref().is_none_or(|range| range.contains(&next()))
    }

    /// Whether an access of a thread with that number is counted.
    #[inline]
    pub(crate) fn has(&self, thread: ThreadId, index: u64, access: &Access) -> bool {
        self.part.has_access(thread, index, access)
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
    part: &TracePart,
) -> Result<Vec<Resolver>, Error> {
    if !tool.follows_all() {
        return session.replay_part(part, tool);
    }
    // Who called what a forked child does, another thread tells.
    let begun_inside = session.begun_inside();
    let is_inside = |thread: ThreadId| {
        session.trace().thread(thread).is_some_and(|record| begun_inside.contains(&record.process))
    };
    let any_inside = part.threads().is_some_and(|mut threads| threads.any(is_inside));
    if part.is_whole() && !any_inside {
        return session.replay_part(part, tool);
    }
    tool.selection().part = part.clone();
    let told = part.whole_threads();
    session.replay_part(&if any_inside { told.of_all_threads() } else { told }, tool)
}

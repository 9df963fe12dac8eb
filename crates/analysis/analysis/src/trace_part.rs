//! A part of a trace: events that match a filter, of all threads or of some, each of these in cycles of its own if need be.
//!
//! Each thread has its own clock, so a stretch of time is other cycles in each of them.

use std::collections::BTreeMap;
use std::ops::Range;

use memref::{Access, Event, ThreadId};
use trace_format::Filter;

/// Which part of a trace is read or counted. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    filter: Filter,
    /// Of these threads alone, and of a thread with cycles in these instead of the filter's.
    threads: Option<BTreeMap<ThreadId, Option<Range<u64>>>>,
}

impl TracePart {
    /// What matches a filter; with `only`, of one thread.
    pub fn new(filter: Filter, only: Option<ThreadId>) -> Self {
        Self { filter, threads: only.map(|only| BTreeMap::from([(only, None)])) }
    }

    /// What matches a filter in some threads.
    pub fn of_threads(filter: Filter, threads: impl IntoIterator<Item = ThreadId>) -> Self {
        Self { filter, threads: Some(threads.into_iter().map(|thread| (thread, None)).collect()) }
    }

    /// What matches a filter in some cycles of each of some threads, whatever cycles the filter has.
    pub fn in_cycles(filter: Filter, cycles: impl IntoIterator<Item = (ThreadId, Range<u64>)>) -> Self {
        let threads = cycles.into_iter().map(|(thread, cycles)| (thread, Some(cycles))).collect();
        Self { filter: Filter { cycles: None, ..filter }, threads: Some(threads) }
    }

    /// Whether it is all of a trace.
    pub fn is_all(&self) -> bool {
        self.threads.is_none() && self.is_whole()
    }

    /// Whether all events of its threads are in it.
    pub(crate) fn is_whole(&self) -> bool {
        self.filter == Filter::default()
            && self.threads.as_ref().is_none_or(|threads| threads.values().all(Option::is_none))
    }

    /// All events of the same threads, as far as the time of day leaves frames.
    pub(crate) fn whole_threads(&self) -> Self {
        let filter = Filter { wall_ns: self.filter.wall_ns.clone(), ..Filter::default() };
        match &self.threads {
            None => Self { filter, threads: None },
            Some(threads) => Self::of_threads(filter, threads.keys().copied()),
        }
    }

    /// The same of all threads, each with all of its cycles.
    pub(crate) fn of_all_threads(self) -> Self {
        Self { threads: None, ..self }
    }

    /// What of a thread is in it; `None` where nothing is.
    pub(crate) fn filter_of(&self, thread: ThreadId) -> Option<Filter> {
        Some(match self.cycles_of(thread)? {
            None => self.filter.clone(),
            Some(cycles) => Filter { cycles: Some(cycles.clone()), ..self.filter.clone() },
        })
    }

    /// Its filter, which does not know of threads.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The threads it names, if it names any.
    pub(crate) fn threads(&self) -> Option<impl Iterator<Item = ThreadId>> {
        self.threads.as_ref().map(|threads| threads.keys().copied())
    }

    /// The cycles of a thread instead of the filter's; the outer `None` where nothing of it is meant.
    #[inline]
    fn cycles_of(&self, thread: ThreadId) -> Option<Option<&Range<u64>>> {
        match &self.threads {
            None => Some(None),
            Some(threads) => threads.get(&thread).map(Option::as_ref),
        }
    }

    /// Whether an access of a thread with that number is in it, the time of day apart.
    #[inline]
    pub(crate) fn has_access(&self, thread: ThreadId, index: u64, access: &Access) -> bool {
        self.has_cycle(thread, access.cycle) && self.filter.admits_access(index, access)
    }

    /// Whether an event of a thread that is no access is in it, the time of day and the number apart.
    pub(crate) fn has_event(&self, thread: ThreadId, event: &Event<String>) -> bool {
        self.has_cycle(thread, event.cycle()) && self.filter.admits(event)
    }

    #[inline]
    fn has_cycle(&self, thread: ThreadId, cycle: u64) -> bool {
        self.cycles_of(thread).is_some_and(|cycles| cycles.is_none_or(|cycles| cycles.contains(&cycle)))
    }
}

#[cfg(test)]
mod tests {
    use memref::{AccessKind, VirtAddr};

    use super::*;

    const ONE: ThreadId = ThreadId(1);
    const TWO: ThreadId = ThreadId(2);

    fn at(cycle: u64) -> Access {
        Access { cycle, ip: VirtAddr(1), addr: VirtAddr(8), size: 8, kind: AccessKind::Load }
    }

    #[test]
    fn each_thread_has_cycles_of_its_own() {
        let filter = Filter { cycles: Some(90..95), ..Filter::default() };
        let part = TracePart::in_cycles(filter, [(ONE, 5..10), (TWO, 70..80)]);
        let has = |thread, cycle| part.has_access(thread, 0, &at(cycle));
        assert_eq!(
            [has(ONE, 4), has(ONE, 5), has(ONE, 75), has(TWO, 5), has(TWO, 75)],
            [false, true, false, false, true]
        );
        assert!(!has(ThreadId(3), 5) && part.filter_of(ThreadId(3)).is_none());
        assert_eq!(part.filter_of(TWO).unwrap().cycles, Some(70..80));
        assert!(!part.is_all() && !part.is_whole());
        assert!(part.whole_threads().is_whole() && !part.whole_threads().is_all());
    }

    #[test]
    fn one_thread_has_the_cycles_of_the_filter() {
        let filter = Filter { cycles: Some(5..10), ..Filter::default() };
        let part = TracePart::new(filter.clone(), Some(ONE));
        let has = |thread, cycle| part.has_access(thread, 0, &at(cycle));
        assert_eq!([has(ONE, 5), has(ONE, 10), has(TWO, 5)], [true, false, false]);
        assert_eq!(part.filter_of(ONE), Some(filter));
        assert!(TracePart::default().is_all() && !TracePart::new(Filter::default(), Some(ONE)).is_all());
    }
}

//! What addresses mean at moments that are asked about in any order: at a cycle of a thread, as a replay has it there.
//!
//! A replay only goes forward, and so does everything here. Moments that are asked about together are sorted, and resolvers that
//! have come to one moment are kept for later ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memref::{Order, ProcessId, ThreadId};
use symbols::Resolver;
use trace_format::{Batch, Filter};

use super::births::Births;
use super::processes::{Changes, Processes};
use super::{Nothing, ORDERED, order_of};
use crate::{Error, Session};

/// Resolvers that are kept, at different moments: those who ask may be several threads.
const MOST_KEPT: usize = 4;

/// A moment: a cycle of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedMoment {
    /// The thread.
    pub thread: ThreadId,
    /// The cycle, on its own clock.
    pub cycle: u64,
}

/// The orders that a thread comes to, which are its turns in a replay.
#[derive(Debug)]
struct ThreadTurns {
    process: ProcessId,
    first: Order,
    /// The cycle at which each of the others holds; both rise.
    later: Vec<(u64, Order)>,
    /// The last cycle of any event.
    last_cycle: u64,
}

impl ThreadTurns {
    fn of(session: &Session, births: &Births, thread: ThreadId, process: ProcessId) -> Result<Self, Error> {
        let shard = session.trace().shard(thread);
        let first = births.first_order(session, thread)?;
        let (mut later, mut order) = (Vec::new(), first);
        let mut cursor = shard.events(&Filter { kinds: ORDERED, ..Filter::default() });
        while let Some(batch) = cursor.next_batch()? {
            let Batch::Event(event) = batch else { continue };
            if let Some(new) = order_of(&event).filter(|new| *new > order) {
                order = new;
                later.push((event.cycle(), order));
            }
        }
        let cycles = shard.streams().map(|stream| stream.bounds.cycles).filter(|cycles| !cycles.is_none());
        Ok(Self { process, first, later, last_cycle: cycles.map(|cycles| cycles.max).max().unwrap_or(0) })
    }

    /// The order that accesses of a cycle have. What tells an order in the same cycle comes before them.
    fn at(&self, cycle: u64) -> Order {
        let after = self.later.partition_point(|(from, _)| *from <= cycle);
        after.checked_sub(1).map_or(self.first, |place| self.later[place].1)
    }

    /// Its last turn up to that order.
    fn last_until(&self, order: Order) -> Option<Order> {
        let after = self.later.partition_point(|(_, turn)| *turn <= order);
        let place = after.checked_sub(1);
        place.map(|place| self.later[place].1).or((self.first <= order).then_some(self.first))
    }
}

/// The first turn of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FirstTurn {
    order: Order,
    thread: ThreadId,
    process: ProcessId,
}

/// The processes as they are after all that has an order up to this one.
#[derive(Debug)]
struct PlacedProcesses {
    processes: Processes,
    order: Order,
    /// First turns that were taken.
    begun: usize,
}

/// Answers what addresses mean at moments. Any number of threads may ask.
#[derive(Debug)]
pub struct Moments {
    session: Session,
    changes: Arc<Changes>,
    threads: BTreeMap<ThreadId, ThreadTurns>,
    first_turns: Vec<FirstTurn>,
    kept: Mutex<Vec<PlacedProcesses>>,
}

impl Moments {
    /// Of a session. Reads what has an order, and no access.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        let births = session.births()?;
        let mut threads = BTreeMap::new();
        for record in session.trace().threads() {
            let turns = ThreadTurns::of(session, &births, record.thread, record.process)?;
            threads.insert(record.thread, turns);
        }
        let first = |(&thread, turns): (&ThreadId, &ThreadTurns)| FirstTurn {
            order: turns.first,
            thread,
            process: turns.process,
        };
        let mut first_turns: Vec<_> = threads.iter().map(first).collect();
        first_turns.sort_unstable();
        let changes = session.changes()?;
        Ok(Self { session: session.clone(), changes, threads, first_turns, kept: Mutex::default() })
    }

    /// The threads that come to a cycle.
    pub fn threads_at(&self, cycle: u64) -> impl Iterator<Item = ThreadId> + '_ {
        let come = move |(_, turns): &(&ThreadId, &ThreadTurns)| turns.last_cycle >= cycle;
        self.threads.iter().filter(come).map(|(thread, _)| *thread)
    }

    /// Calls `answer` once for each moment, with its place among those that are asked about and the resolver of the thread's process as it
    /// is then. Gives the answers in their places; none for threads that the trace does not have.
    pub fn resolve<T>(
        &self,
        asked: &[AskedMoment],
        mut answer: impl FnMut(usize, &mut Resolver) -> T,
    ) -> Vec<Option<T>> {
        let turn = |(place, moment): (usize, &AskedMoment)| {
            let turns = self.threads.get(&moment.thread)?;
            Some((turns.at(moment.cycle), turns.process, place))
        };
        let mut turns: Vec<(Order, ProcessId, usize)> = asked.iter().enumerate().filter_map(turn).collect();
        turns.sort_unstable();
        let mut answers: Vec<Option<T>> = asked.iter().map(|_| None).collect();
        let Some(&(first, ..)) = turns.first() else { return answers };
        let mut placed = self.take(first);
        for (order, process, place) in turns {
            self.begin(&mut placed, order);
            placed.order = order;
            let resolver = placed.processes.at(process, order, &mut Nothing);
            answers[place] = Some(answer(place, resolver));
        }
        self.keep(placed);
        answers
    }

    /// Begins the processes whose first turns are not after that order. A forked child has what its parent had at its own last turn before.
    fn begin(&self, placed: &mut PlacedProcesses, order: Order) {
        while let Some(first) = self.first_turns.get(placed.begun).filter(|first| first.order <= order) {
            placed.begun += 1;
            if placed.processes.have(first.process) {
                continue;
            }
            let record = self.session.trace().process(first.process);
            if let Some(parent) = record.and_then(|record| record.parent) {
                let before = |(thread, turns): (&ThreadId, &ThreadTurns)| {
                    let until =
                        if *thread < first.thread { Some(first.order) } else { first.order.checked_sub(1) };
                    turns.last_until(until?)
                };
                let of_parent = self.threads.iter().filter(|(_, turns)| turns.process == parent);
                if let Some(reached) = of_parent.filter_map(before).max() {
                    placed.processes.at(parent, reached, &mut Nothing);
                }
            }
            placed.processes.enter(first.process, first.order, &mut Nothing);
        }
    }

    /// The processes that have come farthest, but not beyond that order.
    fn take(&self, order: Order) -> PlacedProcesses {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.iter().enumerate().filter(|(_, placed)| placed.order <= order);
        match before.max_by_key(|(_, placed)| placed.order).map(|(place, _)| place) {
            Some(place) => kept.swap_remove(place),
            None => PlacedProcesses {
                processes: Processes::new(&self.session, Arc::clone(&self.changes)),
                order: 0,
                begun: 0,
            },
        }
    }

    fn keep(&self, placed: PlacedProcesses) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(placed);
        if kept.len() > MOST_KEPT {
            // Whoever asks about what lies before the others begins anew, which takes least.
            let least = kept.iter().enumerate().min_by_key(|(_, placed)| placed.order);
            if let Some(place) = least.map(|(place, _)| place) {
                kept.swap_remove(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_has_the_order_that_was_told_last() {
        let turns = ThreadTurns {
            process: ProcessId(0),
            first: 4,
            later: vec![(10, 7), (10, 8), (25, 20)],
            last_cycle: 30,
        };
        let check = |cycle, expect| assert_eq!(turns.at(cycle), expect, "{cycle}");
        check(0, 4);
        check(9, 4);
        check(10, 8);
        check(24, 8);
        check(25, 20);
        check(u64::MAX, 20);
        let check = |order, expect| assert_eq!(turns.last_until(order), expect, "{order}");
        check(3, None);
        check(4, Some(4));
        check(7, Some(7));
        check(19, Some(8));
        check(Order::MAX, Some(20));
    }
}

//! The replay: the events of all threads, in an order in which addresses mean what they meant during the recording.
//!
//! Events that change this meaning (allocations, releases, mappings) have an order that holds for the whole session. The accesses
//! of a thread lie between two order marks. They came after the first mark, but their order relative to what other threads did in
//! the meantime is unknown. Therefore the thread with the lowest mark goes first, after all changes up to that mark have been
//! applied. If the program was synchronised, this gives the right name; if it was not, either name is right. An event that has an
//! order itself waits until it is the lowest: an event that gives something up is replayed before the event that takes it up. A
//! forked child starts with what its parent had at the time of the fork, which may be long before the child's first event.

mod births;
mod divided;
mod in_context;
mod moments;
mod processes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Allocation, Event, Order, ProcessId, ThreadId, VirtAddr};
use symbols::{HeapChange, Resolver};
use trace_format::{Batch, EventCursor, ExecutedFrame, ExecutionBatch, Filter, KindSet, Shard};

use self::births::Births;
pub(crate) use self::divided::{SliceMarks, SliceWorker};
pub use self::moments::{AskedMoment, Moments};
use self::processes::{Changes, Processes};
use crate::stack::CallPlace;
use crate::thread_events::{ThreadEvents, accesses_in};
use crate::{Error, Session, TracePart};

/// Where the replay is.
#[derive(Debug)]
pub struct Moment<'a> {
    /// Names at this point.
    pub resolver: &'a mut Resolver,
    /// Whose events these are.
    pub process: ProcessId,
    /// Of which of its threads.
    pub thread: ThreadId,
    /// They came after that order, and those with a lower one have been seen.
    pub order: Order,
    /// Where each of them was made, as many as there are accesses; one for another event. None unless the replay was asked
    /// for contexts ([`Session::replay_in_context`]).
    pub places: &'a [CallPlace],
    /// The canonical frame addresses of the functions that made the accesses, as far as they are known, where there are places of them.
    pub cfas: &'a [Option<VirtAddr>],
}

impl Moment<'_> {
    /// The same moment, with places.
    pub(crate) fn with<'b>(
        &'b mut self,
        places: &'b [CallPlace],
        cfas: &'b [Option<VirtAddr>],
    ) -> Moment<'b> {
        let Moment { process, thread, order, .. } = *self;
        Moment { resolver: self.resolver, process, thread, order, places, cfas }
    }
}

/// Some accesses of a thread, and all that lies between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPart {
    /// The thread.
    pub thread: ThreadId,
    /// Which of its accesses, counted from 0.
    pub accesses: Range<u64>,
}

/// Looks at a replay.
pub trait Tool {
    /// Accesses of one thread, without any other event of it between them.
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error>;

    /// Whether [`Self::executions`] is to be called where that is possible. Then accesses of executions that are cut by an event still come
    /// to [`Self::accesses`].
    fn takes_executions(&self) -> bool {
        false
    }

    /// Executions of one thread, without any other event of it between them.
    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        let mut accesses = Vec::new();
        frame.expand_part(part, &mut accesses);
        self.accesses(at, &accesses)
    }

    /// Any other event. An allocation has been applied to the resolver already.
    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let _ = (at, event);
        Ok(())
    }

    /// What an allocation event of a process changed, in the order of the session.
    fn change(&mut self, resolver: &mut Resolver, event: &Allocation, change: HeapChange) {
        let _ = (resolver, event, change);
    }

    /// A process begins: what is told of it comes after that order.
    fn process(&mut self, process: ProcessId, order: Order) {
        let _ = (process, order);
    }
}

/// Looks at nothing: what addresses mean is wanted, and not what happened.
struct Nothing;

impl Tool for Nothing {
    fn accesses(&mut self, _: &mut Moment<'_>, _: &[Access]) -> Result<(), Error> {
        Ok(())
    }
}

/// One thread's cursor.
struct ReplayedThread {
    thread: ThreadId,
    process: ProcessId,
    events: ThreadEvents,
    order: Order,
    /// The event that raised the order, and waits until it is the lowest.
    pending: Option<Event<String>>,
}

/// Which thread is next: that with the lowest order, and of equals the lowest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    order: Order,
    thread: ThreadId,
    /// Among those that are replayed; `None` where the thread begins a forked process, whether it is replayed or not.
    place: Option<usize>,
}

/// Kinds of events that tell an order: they are read whether they are wanted or not, since the names of what follows depend
/// on them.
const ORDERED: KindSet = KindSet(KindSet::ORDERS.0 | KindSet::ALLOCATIONS.0 | KindSet::SYNCS.0);

/// Executions that are expanded together.
const TOLD_EXECUTIONS: usize = 1 << 12;

/// The parts of some executions whose accesses are told together: few at a time, so that a tool finds them in the processor's caches.
fn told_parts(part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = part.end;
    part.step_by(TOLD_EXECUTIONS).map(move |begin| begin..end.min(begin + TOLD_EXECUTIONS))
}

/// Whether an event that was read for its order is wanted itself.
fn is_wanted(kinds: KindSet, event: &Event<String>) -> bool {
    match event {
        Event::Allocation(event) => kinds.intersects(KindSet::allocation(event.kind)),
        Event::Sync(_) => kinds.intersects(KindSet::SYNCS),
        _ => true,
    }
}

/// The order that an event has drawn or tells of.
fn order_of(event: &Event<String>) -> Option<Order> {
    match event {
        Event::Order(mark) => Some(mark.order),
        Event::Allocation(event) => Some(event.order),
        Event::Sync(event) => Some(event.order),
        _ => None,
    }
}

impl Session {
    /// Replays the events that match; names are right even where the filter leaves allocations out. With `only`, one
    /// thread's. Returns the resolvers as they are at the end.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay<T: Tool + ?Sized>(
        &self,
        filter: &Filter,
        only: Option<ThreadId>,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        self.replay_part(&TracePart::new(filter.clone(), only), tool)
    }

    /// Replays the events of a part; names are right even where it leaves allocations out. Returns the resolvers as they are at the end.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay_part<T: Tool + ?Sized>(
        &self,
        part: &TracePart,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        self.has_threads(part)?;
        let chosen = |thread| part.filter_of(thread);
        self.replay_threads(part.filter().kinds, &chosen, Shard::events, self.changes()?, tool)
    }

    /// Replays everything but the accesses and block operations of some processes; names are right all the same.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub(crate) fn replay_without_accesses<T: Tool + ?Sized>(
        &self,
        is_without: impl Fn(ProcessId) -> bool,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        let chosen = |thread: ThreadId| {
            let record = self.trace().thread(thread)?;
            let kinds = match is_without(record.process) {
                true => KindSet::ALL.without(KindSet(KindSet::ACCESSES.0 | KindSet::BLOCKS.0)),
                false => KindSet::ALL,
            };
            Some(Filter { kinds, ..Filter::default() })
        };
        self.replay_threads(KindSet::ALL, &chosen, Shard::events, self.changes()?, tool)
    }

    /// Replays the accesses of parts of some threads, each thread once at most; names are those that a replay of everything gives.
    /// Several replays of parts that together are the whole can run at the same time.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay_parts<T: Tool + ?Sized>(
        &self,
        filter: &Filter,
        parts: &[ThreadPart],
        tool: &mut T,
    ) -> Result<(), Error> {
        let chosen = |thread: ThreadId| {
            let part = parts.iter().find(|part| part.thread == thread)?;
            Some(Filter { index: Some(part.accesses.clone()), ..filter.clone() })
        };
        self.replay_threads(KindSet::NONE, &chosen, Shard::accesses_in_order, self.changes()?, tool).map(drop)
    }

    /// Replays the threads that have a filter, each with the events that `events` gives. Of those that tell an order, `kinds` are wanted.
    fn replay_threads<T: Tool + ?Sized>(
        &self,
        kinds: KindSet,
        chosen: &dyn Fn(ThreadId) -> Option<Filter>,
        events: fn(&Shard, &Filter) -> EventCursor,
        changes: Arc<Changes>,
        tool: &mut T,
    ) -> Result<Vec<Resolver>, Error> {
        let threads = self.threads(chosen, events, tool.takes_executions())?;
        let turn = |(place, thread): (usize, &ReplayedThread)| {
            Reverse(Turn { order: thread.order, thread: thread.thread, place: Some(place) })
        };
        let mut turns: BinaryHeap<_> = threads.iter().enumerate().map(turn).collect();
        turns.extend(self.forks()?.into_iter().map(Reverse));
        let mut threads: Vec<_> = threads.into_iter().map(Some).collect();
        let mut processes = Processes::new(self, changes);
        while let Some(Reverse(Turn { order, thread, place })) = turns.pop() {
            let Some(place) = place else {
                let process = self.trace().thread(thread).map(|record| record.process);
                process.into_iter().for_each(|process| processes.enter(process, order, tool));
                continue;
            };
            let Some(thread) = &mut threads[place] else { break };
            let mut at = Moment {
                resolver: processes.at(thread.process, thread.order, tool),
                process: thread.process,
                thread: thread.thread,
                order: thread.order,
                places: &[],
                cfas: &[],
            };
            if let Some(event) = thread.pending.take() {
                // All that others did before it has been seen.
                if is_wanted(kinds, &event) {
                    tool.event(&mut at, &event)?;
                }
            }
            let over = loop {
                let batch = thread.events.next_batch()?;
                self.note_read(batch.as_ref().map_or(0, accesses_in))?;
                match batch {
                    None => break true,
                    Some(ExecutionBatch::Accesses(accesses)) => tool.accesses(&mut at, accesses)?,
                    Some(ExecutionBatch::Executions(frame, part)) => tool.executions(&mut at, frame, part)?,
                    Some(ExecutionBatch::Event(event)) => match order_of(&event) {
                        Some(order) if order > thread.order => {
                            thread.order = order;
                            thread.pending = Some(event);
                            break false;
                        }
                        _ if is_wanted(kinds, &event) => tool.event(&mut at, &event)?,
                        _ => {}
                    },
                }
            };
            if over {
                threads[place] = None;
            } else {
                turns.push(turn((place, thread)));
            }
        }
        Ok(processes.finish(tool))
    }

    /// The regions of each process, as they are at the end of the trace. No access is read, and no allocation applied.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn regions_at_end(&self) -> Result<Vec<Resolver>, Error> {
        let mut processes = Processes::new(self, Arc::new(Changes::of_regions(self)));
        let mut first = Vec::new();
        let births = self.births()?;
        for record in self.trace().threads() {
            first.push((births.first_order(self, record.thread)?, record.process));
        }
        first.sort_unstable();
        // As a replay comes to them: a forked child begins with what its parent had then.
        for (order, process) in first {
            processes.enter(process, order, &mut Nothing);
        }
        Ok(processes.finish(&mut Nothing))
    }

    /// Gives a tool the events that match, one thread after the other, or with `only` one thread's. Nothing is named: the
    /// resolver of the moment knows nothing, and changes of the heap are not told.
    ///
    /// # Errors
    /// Where the trace can't be read, or the tool fails.
    pub fn replay_by_thread<T: Tool + ?Sized>(
        &self,
        filter: &Filter,
        only: Option<ThreadId>,
        tool: &mut T,
    ) -> Result<(), Error> {
        self.has_thread(only)?;
        for record in self.trace().threads() {
            if only.is_some_and(|only| only != record.thread) {
                continue;
            }
            let mut resolver = self.resolver(record.process);
            let (process, thread) = (record.process, record.thread);
            let mut at =
                Moment { resolver: &mut resolver, process, thread, order: 0, places: &[], cfas: &[] };
            let mut cursor = self.trace().shard(thread).events(filter);
            while let Some(batch) = cursor.next_batch()? {
                match batch {
                    Batch::Accesses(accesses) => tool.accesses(&mut at, accesses)?,
                    Batch::Event(event) => tool.event(&mut at, &event)?,
                }
            }
        }
        Ok(())
    }

    /// Fails where a part names a thread that the trace does not have.
    fn has_threads(&self, part: &TracePart) -> Result<(), Error> {
        part.threads().into_iter().flatten().try_for_each(|thread| self.has_thread(Some(thread)))
    }

    /// Fails where the trace has no thread of that number.
    fn has_thread(&self, only: Option<ThreadId>) -> Result<(), Error> {
        let threads = self.trace().threads();
        match only {
            Some(thread) if !threads.iter().any(|record| record.thread == thread) => {
                Err(Error::NoThread { thread: thread.0, last: threads.len().saturating_sub(1) as u32 })
            }
            _ => Ok(()),
        }
    }

    /// When forked processes begin. A child has what its parent had then, also where nothing of the parent is replayed, or not that.
    fn forks(&self) -> Result<Vec<Turn>, Error> {
        let births = self.births()?;
        let is_forked = |process| self.trace().process(process).is_some_and(|record| record.parent.is_some());
        let threads = self.trace().threads().iter().filter(|record| is_forked(record.process));
        threads
            .map(|record| {
                let order = births.first_order(self, record.thread)?;
                Ok(Turn { order, thread: record.thread, place: None })
            })
            .collect()
    }

    fn births(&self) -> Result<Arc<Births>, Error> {
        self.kept(|| Births::of(self))
    }

    fn changes(&self) -> Result<Arc<Changes>, Error> {
        Changes::of(self).map(Arc::new)
    }

    fn threads(
        &self,
        chosen: &dyn Fn(ThreadId) -> Option<Filter>,
        events: fn(&Shard, &Filter) -> EventCursor,
        by_execution: bool,
    ) -> Result<Vec<ReplayedThread>, Error> {
        let mut threads = Vec::new();
        let births = self.births()?;
        for record in self.trace().threads() {
            let Some(filter) = chosen(record.thread) else { continue };
            // Where nothing is wanted nothing is named.
            let ordered = if filter.kinds == KindSet::NONE { KindSet::ORDERS } else { ORDERED };
            let wanted = Filter { kinds: filter.kinds | ordered, ..filter.clone() };
            let shard = self.trace().shard(record.thread);
            let mut order = births.first_order(self, record.thread)?;
            if let Some(cycles) = filter.cycles.as_ref().filter(|cycles| cycles.start > 0) {
                // The mark that holds where the filter begins.
                let kinds = KindSet(KindSet::ORDERS.0 | KindSet::ALLOCATIONS.0);
                let before = Filter { kinds, cycles: Some(0..cycles.start), ..Default::default() };
                let mut cursor = shard.events(&before);
                while let Some(batch) = cursor.next_batch()? {
                    match batch {
                        Batch::Event(Event::Order(mark)) => order = order.max(mark.order),
                        Batch::Event(Event::Allocation(event)) => order = order.max(event.order),
                        _ => {}
                    }
                }
            }
            let executions = if by_execution { shard.executions(&wanted) } else { None };
            threads.push(ReplayedThread {
                thread: record.thread,
                process: record.process,
                events: match executions {
                    Some(cursor) => ThreadEvents::Executions(Box::new(cursor)),
                    None => ThreadEvents::Accesses(Box::new(events(&shard, &wanted))),
                },
                order,
                pending: None,
            });
        }
        Ok(threads)
    }
}

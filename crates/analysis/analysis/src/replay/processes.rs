//! The processes of a replay, each with its current position in the changes to the meaning of its addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use memref::{Allocation, Event, Order, ProcessId};
use symbols::Resolver;
use trace_format::{Batch, Filter, KindSet};

use crate::{Error, Session, Tool};

/// A change of what addresses mean in one process.
#[derive(Debug)]
enum Change {
    Region(usize),
    Allocation(Allocation),
}

/// Those of one process, in their order.
type ChangesOfProcess = Arc<[(Order, Change)]>;

/// The changes of each process.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<ProcessId, ChangesOfProcess>);

impl Changes {
    /// Those of regions.
    pub(super) fn of_regions(session: &Session) -> Self {
        Self::in_order(region_changes(session))
    }

    /// All.
    pub(super) fn of(session: &Session) -> Result<Self, Error> {
        let mut changes = region_changes(session);
        let filter = Filter { kinds: KindSet::ALLOCATIONS, ..Default::default() };
        for record in session.trace().threads() {
            let mut cursor = session.trace().shard(record.thread).events(&filter);
            let list = changes.entry(record.process).or_default();
            while let Some(batch) = cursor.next_batch()? {
                if let Batch::Event(Event::Allocation(event)) = batch {
                    list.push((event.order, Change::Allocation(event)));
                }
            }
        }
        Ok(Self::in_order(changes))
    }

    fn in_order(lists: BTreeMap<ProcessId, Vec<(Order, Change)>>) -> Self {
        let sorted = |mut list: Vec<(Order, Change)>| {
            list.sort_by_key(|(order, _)| *order);
            list.into()
        };
        Self(lists.into_iter().map(|(process, list)| (process, sorted(list))).collect())
    }

    fn of_process(&self, process: ProcessId) -> ChangesOfProcess {
        self.0.get(&process).cloned().unwrap_or_default()
    }
}

fn region_changes(session: &Session) -> BTreeMap<ProcessId, Vec<(Order, Change)>> {
    let mut changes: BTreeMap<ProcessId, Vec<(Order, Change)>> = BTreeMap::new();
    for (index, event) in session.region_events().iter().enumerate() {
        changes.entry(event.process).or_default().push((event.order, Change::Region(index)));
    }
    changes
}

/// A process on its way.
#[derive(Debug)]
struct ReplayedProcess {
    resolver: Resolver,
    changes: ChangesOfProcess,
    /// The next of them.
    next: usize,
}

/// All that have begun.
#[derive(Debug)]
pub(super) struct Processes {
    session: Session,
    changes: Arc<Changes>,
    all: BTreeMap<ProcessId, ReplayedProcess>,
}

impl Processes {
    pub(super) fn new(session: &Session, changes: Arc<Changes>) -> Self {
        Self { session: session.clone(), changes, all: BTreeMap::new() }
    }

    /// Whether a process has begun.
    pub(super) fn have(&self, process: ProcessId) -> bool {
        self.all.contains_key(&process)
    }

    /// A process after its changes up to that order, which do not fall from call to call. It begins where it has not: a forked one from its
    /// parent as it is now.
    pub(super) fn at<T: Tool + ?Sized>(
        &mut self,
        id: ProcessId,
        order: Order,
        tool: &mut T,
    ) -> &mut Resolver {
        self.enter(id, order, tool);
        self.advance(id, order, tool).expect("it was entered")
    }

    /// Makes a process at its first event.
    pub(super) fn enter<T: Tool + ?Sized>(&mut self, id: ProcessId, order: Order, tool: &mut T) {
        if self.have(id) {
            return;
        }
        let record = self.session.trace().process(id);
        // A process number is given after that of the parent, so this ends.
        let parent = record.and_then(|record| record.parent).filter(|parent| *parent < id);
        let changes = self.changes.of_process(id);
        let forked = parent.and_then(|parent| {
            let born = changes.first().map_or(order, |(first, _)| (*first).min(order));
            self.enter(parent, born, tool);
            self.advance(parent, born, tool).map(|parent| parent.fork(id))
        });
        let resolver = forked.unwrap_or_else(|| self.session.resolver(id));
        self.all.insert(id, ReplayedProcess { resolver, changes, next: 0 });
        tool.process(id, order);
    }

    /// Applies the changes of a process that has begun up to that order.
    fn advance<T: Tool + ?Sized>(
        &mut self,
        id: ProcessId,
        order: Order,
        tool: &mut T,
    ) -> Option<&mut Resolver> {
        let ReplayedProcess { resolver, changes, next } = self.all.get_mut(&id)?;
        while let Some((_, change)) = changes.get(*next).filter(|(at, _)| *at <= order) {
            match change {
                Change::Region(index) => {
                    if let Some(event) = self.session.region_events().get(*index) {
                        resolver.apply_region(event);
                    }
                }
                Change::Allocation(event) => {
                    let change = resolver.apply_allocation(event);
                    tool.change(resolver, event, change);
                }
            }
            *next += 1;
        }
        Some(resolver)
    }

    /// What happened after the last event still made regions. The resolvers of all processes of the trace.
    pub(super) fn finish<T: Tool + ?Sized>(mut self, tool: &mut T) -> Vec<Resolver> {
        let trace = self.session.trace().clone();
        for record in trace.processes() {
            self.enter(record.process, Order::MAX, tool);
        }
        let all: Vec<ProcessId> = self.all.keys().copied().collect();
        for process in all {
            self.advance(process, Order::MAX, tool);
        }
        self.all.into_values().map(|process| process.resolver).collect()
    }
}

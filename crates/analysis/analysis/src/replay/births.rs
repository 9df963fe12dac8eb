//! When the processes of a trace were created.

use std::collections::BTreeMap;

use memref::{Event, Order, ProcessId, Sync, SyncKind, ThreadId};
use trace_format::{Batch, Filter, KindSet, Shard};

use super::{ORDERED, order_of};
use crate::{Error, Session};

/// The first event of these kinds, of those that a thread begins with.
fn first_event(shard: &Shard, kinds: KindSet) -> Result<Option<Event<String>>, Error> {
    let filter = Filter { kinds, cycles: Some(0..1), ..Default::default() };
    match shard.events(&filter).next_batch()? {
        Some(Batch::Event(event)) => Ok(Some(event)),
        _ => Ok(None),
    }
}

/// When forked processes were made, by their first threads. What they inherit is as it was then.
#[derive(Debug, Default)]
pub(super) struct Births(BTreeMap<ThreadId, Order>);

impl Births {
    pub(super) fn of(session: &Session) -> Result<Self, Error> {
        let trace = session.trace();
        let parents: BTreeMap<ProcessId, ProcessId> =
            trace.processes().iter().filter_map(|record| Some((record.process, record.parent?))).collect();
        // Who makes a process names a number, under which that one begins.
        let mut begun = BTreeMap::new();
        for record in trace.threads().iter().filter(|record| parents.contains_key(&record.process)) {
            if let Some(Event::Sync(start)) = first_event(&trace.shard(record.thread), KindSet::SYNCS)?
                && start.kind == SyncKind::Start
            {
                begun.insert((parents[&record.process], start.object), record.thread);
            }
        }
        let mut births = BTreeMap::new();
        let filter = Filter { kinds: KindSet::SYNCS, ..Default::default() };
        for record in
            trace.threads().iter().filter(|record| begun.keys().any(|(by, _)| *by == record.process))
        {
            let mut cursor = trace.shard(record.thread).events(&filter);
            while let Some(batch) = cursor.next_batch()? {
                if let Batch::Event(Event::Sync(Sync { kind: SyncKind::Create, object, order, .. })) = batch
                    && let Some(thread) = begun.get(&(record.process, object))
                {
                    births.insert(*thread, order);
                }
            }
        }
        Ok(Self(births))
    }

    /// The order that a thread's first event came after, or drew itself; of a forked process's, when that was made.
    pub(super) fn first_order(&self, session: &Session, thread: ThreadId) -> Result<Order, Error> {
        match self.0.get(&thread) {
            Some(order) => Ok(*order),
            None => {
                let first = first_event(&session.trace().shard(thread), ORDERED)?;
                Ok(first.as_ref().and_then(order_of).unwrap_or(0))
            }
        }
    }
}

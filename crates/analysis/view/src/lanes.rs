//! Lanes: what each thread does over time. Its accesses are tiles that are one row high. Allocations,
//! releases and synchronisation are separate events, which are read for the requested part. When it holds
//! a lock is told by `held_locks`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use analysis::{ReadProgress, needs_synchronisation};
use memref::{Event, Sync, ThreadId};
use serde_json::{Value, json};
use trace_format::{Batch, Filter, KindSet};

use crate::divided::Divided;
use crate::error::Refusal;
use crate::held_locks::HeldLocks;
use crate::map::TraceMap;
use crate::part::{MapPart, TimeAxis};
use crate::pending_requests::PendingRequests;
use crate::table::superseded;
use crate::tile::{CountedKinds, MOST_DECODED, TileRequest};

/// Threads that have a lane at most: those with most accesses.
const MOST_LANES: usize = 64;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LanesRequest {
    pub(crate) part: MapPart,
    pub(crate) what: CountedKinds,
    /// Columns of time.
    pub(crate) width: u32,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// Events of one kind: how many in which column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LaneEvents {
    counts: Vec<u32>,
}

impl LaneEvents {
    fn add(&mut self, column: usize, width: u32) {
        self.counts.resize(width as usize, 0);
        if let Some(count) = self.counts.get_mut(column) {
            *count = count.saturating_add(1);
        }
    }

    /// Those columns that have any.
    fn json(&self) -> Value {
        let any = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        json!(any.map(|(column, count)| [column as u64, u64::from(*count)]).collect::<Vec<_>>())
    }
}

impl TraceMap {
    /// The lanes of a part.
    pub(crate) fn lanes(&self, request: &LanesRequest, pending: &PendingRequests) -> Result<Value, Refusal> {
        let waiting = pending.begin(request.asker);
        let lanes = self.counted_lanes(request, &waiting);
        pending.end(request.asker, &waiting);
        superseded(lanes, &waiting)
    }

    fn counted_lanes(&self, request: &LanesRequest, waiting: &ReadProgress) -> Result<Value, Refusal> {
        let LanesRequest { part, .. } = request;
        let records = self.session.trace().threads().iter();
        let mut threads: Vec<_> = records
            .filter(|record| record.process == part.process)
            .filter(|record| part.thread.is_none_or(|thread| thread == record.thread))
            .collect();
        let accesses = |thread| std::cmp::Reverse(self.accesses_of(thread));
        threads.sort_by_key(|record| (accesses(record.thread), record.thread));
        let more = threads.len().saturating_sub(MOST_LANES);
        threads.truncate(MOST_LANES);
        threads.sort_by_key(|record| record.thread);
        let decoded = MOST_DECODED / threads.len().max(1);
        let (mut lanes, mut estimated) = (Vec::new(), 0);
        for record in threads {
            if waiting.is_cancelled() {
                break;
            }
            let tile = TileRequest {
                part: MapPart { thread: Some(record.thread), ..part.clone() },
                width: request.width,
                height: 1,
                what: request.what,
                hides_tracer: false,
                by_thread: false,
            };
            let tile = self.tile_with(&tile, decoded)?;
            estimated += tile.estimated;
            let locked = self.held(part.axis, record.thread)?;
            let columns = u64::from(request.width).min(part.span.end - part.span.start);
            let [allocations, releases, syncs] = self.lane_events(request, record.thread, waiting)?;
            lanes.push(json!({
                "thread": record.thread.0,
                "tid": record.tid,
                "accesses": tile.grid.counts,
                "allocations": allocations.json(),
                "releases": releases.json(),
                "syncs": syncs.json(),
                // Whatever addresses are meant: it holds it wherever it goes.
                "locked": locked.map(|locked| json!({
                    "held": locked.count(&part.span),
                    "columns": columns,
                    "counts": locked.columns(&part.span, columns),
                })),
            }));
        }
        Ok(json!({"lanes": lanes, "width": request.width, "more": more, "estimated": estimated}))
    }

    /// Allocations, releases and synchronisation of a thread.
    fn lane_events(
        &self,
        request: &LanesRequest,
        thread: ThreadId,
        waiting: &ReadProgress,
    ) -> Result<[LaneEvents; 3], Refusal> {
        let LanesRequest { part, width, .. } = request;
        let filter = Filter {
            kinds: KindSet(KindSet::ALLOCATIONS.0 | KindSet::SYNCS.0),
            cycles: Some(self.cycles_of(part, thread)),
            addresses: self.addresses_of(part),
            ..Filter::default()
        };
        let columns = Divided { range: part.span.clone(), parts: u64::from(*width) };
        let mut events: [LaneEvents; 3] = Default::default();
        let mut moments = self.moments(part.axis, thread);
        let mut cursor = self.session.trace().shard(thread).events(&filter);
        while let Some(batch) = cursor.next_batch()? {
            if waiting.is_cancelled() {
                break;
            }
            let (number, cycle) = match batch {
                Batch::Event(Event::Allocation(event)) => (usize::from(!event.kind.allocates()), event.cycle),
                Batch::Event(Event::Sync(event)) => (2, event.cycle),
                _ => continue,
            };
            let when = moments.when(cycle);
            if part.span.contains(&when) {
                events[number].add(columns.part(when) as usize, *width);
            }
        }
        Ok(events)
    }

    /// When a thread holds a lock, on an axis; `None` where calls that synchronise were not recorded. They are read once.
    fn held(&self, axis: TimeAxis, thread: ThreadId) -> Result<Option<Arc<HeldLocks>>, Refusal> {
        if needs_synchronisation(&self.session).is_err() {
            return Ok(None);
        }
        let known = |all: &HashMap<(TimeAxis, ThreadId), Arc<HeldLocks>>| all.get(&(axis, thread)).cloned();
        if let Some(held) = known(&self.held.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(Some(held));
        }
        let filter = Filter { kinds: KindSet::SYNCS, ..Filter::default() };
        let mut cursor = self.session.trace().shard(thread).events(&filter);
        let mut syncs = Vec::new();
        while let Some(batch) = cursor.next_batch()? {
            if let Batch::Event(Event::Sync(sync)) = batch {
                syncs.push(Sync { cycle: self.when(axis, thread, sync.cycle), ..sync });
            }
        }
        let held = Arc::new(HeldLocks::of(syncs.into_iter()));
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert((axis, thread), held.clone());
        Ok(Some(held))
    }
}

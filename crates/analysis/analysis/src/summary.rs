//! The totals of a trace (MadT, Table III).

use std::collections::BTreeMap;

use memref::{Access, AccessKind, AllocationKind, BlockKind, Event, GapReason};
use trace_format::{AccessCounts, Filter, KindSet};

use crate::indexed::threads;
use crate::{Count, Error, Moment, Session, Tool};

/// Totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Single accesses.
    pub count: Count,
    /// Prefetches, which access nothing.
    pub prefetches: u64,
    /// Copies.
    pub copies: BlockOpCount,
    /// Fills.
    pub fills: BlockOpCount,
    /// Fetches.
    pub fetches: BlockOpCount,
    /// Allocation events by kind.
    pub allocations: BTreeMap<&'static str, u64>,
    /// Events that are known to be missing, by reason.
    pub gaps: BTreeMap<&'static str, u64>,
    /// Named points.
    pub markers: u64,
    /// Synchronisation events.
    pub syncs: u64,
}

/// Block operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockOpCount {
    /// How many there were.
    pub operations: u64,
    /// How many bytes they were told to access, together.
    pub bytes: u64,
}

impl Summary {
    /// Counts a whole trace, without naming anything. Accesses are counted by the headers of their frames, where these have counts,
    /// and no access is read there: their bytes are not summed up.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn of(session: &Session) -> Result<Self, Error> {
        let mut summary = Self::default();
        // Order marks are counted nowhere.
        let kinds = KindSet(!(KindSet::ACCESSES | KindSet::ORDERS).0);
        let others = Filter { kinds, ..Filter::default() };
        for record in session.trace().threads() {
            let shard = session.trace().shard(record.thread);
            let accesses = shard.count_accesses(threads())?;
            summary.add_counts(accesses.counts);
            accesses.lost.iter().for_each(|gap| summary.add_gap(gap.reason, gap.count));
            let mut cursor = shard.events(&others);
            while let Some(batch) = cursor.next_batch()? {
                match batch {
                    trace_format::Batch::Accesses(accesses) => summary.add_accesses(accesses),
                    trace_format::Batch::Event(event) => summary.add_event(&event),
                }
            }
        }
        Ok(summary)
    }

    /// Allocation events of a kind.
    pub fn allocations_of(&self, kind: AllocationKind) -> u64 {
        self.allocations.get(kind.name()).copied().unwrap_or(0)
    }

    /// Events that are known to be missing.
    pub fn missing(&self) -> u64 {
        self.gaps.values().sum()
    }

    fn add_counts(&mut self, counts: AccessCounts) {
        self.count.loads += counts.loads;
        self.count.stores += counts.stores;
        self.count.modifies += counts.modifies;
        self.prefetches += counts.prefetches;
    }

    fn add_accesses(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.count.add(access);
            self.prefetches += u64::from(access.kind == AccessKind::Prefetch);
        }
    }

    fn add_event(&mut self, event: &Event<String>) {
        match event {
            Event::Access(access) => self.add_accesses(std::slice::from_ref(access)),
            Event::Block(block) => {
                let total = match block.kind {
                    BlockKind::Copy => &mut self.copies,
                    BlockKind::Fill => &mut self.fills,
                    BlockKind::Fetch => &mut self.fetches,
                };
                total.operations += 1;
                total.bytes += block.len;
            }
            Event::Allocation(event) => *self.allocations.entry(event.kind.name()).or_default() += 1,
            Event::Gap(gap) => self.add_gap(gap.reason, gap.count),
            Event::Marker(_) => self.markers += 1,
            Event::Sync(_) => self.syncs += 1,
            Event::Order(_) => {}
        }
    }

    fn add_gap(&mut self, reason: GapReason, count: u64) {
        *self.gaps.entry(reason.name()).or_default() += count;
    }
}

impl Tool for Summary {
    fn accesses(&mut self, _: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.add_accesses(accesses);
        Ok(())
    }

    fn event(&mut self, _: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.add_event(event);
        Ok(())
    }
}

//! All kinds of events of a shard, merged by cycle.

use std::ops::Range;

use memref::{Access, Allocation, BlockOp, Event, Gap, GapReason, Marker, OrderMark, Sync, VirtAddr};

use super::{
    cursor::{CursorStep, StreamCursor},
    filter::{Filter, Filtered},
    session::NameReader,
    shard::Shard,
};
use crate::{Error, KindSet, entry::MarkerEntry};

/// The position of an event in the merged order: by cycle, at equal cycles by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MergePosition {
    cycle: u64,
    rank: u8,
}

/// One stream of the merge.
#[derive(Debug)]
struct MergedStream<E> {
    cursor: StreamCursor<E>,
    rank: u8,
    at: usize,
    gap: Option<Gap>,
    started: bool,
}

/// Gaps come before everything but order marks.
const GAP_RANK: u8 = 1;

enum Head<E> {
    Entry(E),
    Gap(Gap),
}

impl<E: Filtered> MergedStream<E> {
    fn new(shard: &Shard, filter: &Filter, rank: u8) -> Self {
        Self { cursor: StreamCursor::new(shard, filter), rank, at: 0, gap: None, started: false }
    }

    /// Where the next event of this stream belongs; `None` at its end.
    fn key(&mut self) -> Result<Option<MergePosition>, Error> {
        while self.gap.is_none() && self.at >= self.cursor.block().len() {
            if self.started && self.cursor.block().is_empty() {
                return Ok(None);
            }
            self.started = true;
            self.at = 0;
            if let Some(CursorStep::Gap(gap)) = self.cursor.step()? {
                self.gap = Some(gap);
                self.at = self.cursor.block().len();
                self.started = false;
            }
        }
        Ok(match (&self.gap, self.cursor.block().get(self.at)) {
            (Some(gap), _) => Some(MergePosition { cycle: gap.cycle, rank: GAP_RANK }),
            (None, entry) => entry.map(|entry| MergePosition { cycle: entry.cycle(), rank: self.rank }),
        })
    }

    /// Takes the event that `key` spoke of.
    fn take(&mut self) -> Option<Head<E>> {
        if let Some(gap) = self.gap.take() {
            return Some(Head::Gap(gap));
        }
        let entry = self.cursor.block().get(self.at).cloned()?;
        self.at += 1;
        Some(Head::Entry(entry))
    }
}

/// Some events of a shard.
#[derive(Debug, PartialEq)]
pub enum Batch<'a> {
    /// Accesses without any other event between them.
    Accesses(&'a [Access]),
    /// One event that is no access.
    Event(Event<String>),
}

enum Next {
    Run(Range<usize>),
    Event(Event<String>),
}

impl Shard {
    /// All kinds of events that match, merged by cycle. At equal cycles: order marks, gaps, markers, allocations, block
    /// operations, accesses.
    pub fn events(&self, filter: &Filter) -> EventCursor {
        EventCursor::new(self, filter, filter)
    }

    /// The accesses that match, and between them all that tells an order in the filter's cycles: order marks, allocations and
    /// synchronisation, whatever addresses, instructions and kinds the filter asks for. What accesses mean depends on these.
    pub fn accesses_in_order(&self, filter: &Filter) -> EventCursor {
        let kinds = KindSet::ORDERS | KindSet::ALLOCATIONS | KindSet::SYNCS;
        let others = Filter { kinds, cycles: filter.cycles.clone(), ..Filter::default() };
        let kinds = KindSet(filter.kinds.0 & KindSet::ACCESSES.0);
        EventCursor::new(self, &others, &Filter { kinds, ..filter.clone() })
    }
}

/// Goes through all matching events of a shard in order: as batches with [`Self::next_batch`], which is the fast path, or
/// one by one as an iterator.
#[derive(Debug)]
pub struct EventCursor {
    orders: MergedStream<OrderMark>,
    gaps: MergedStream<Gap>,
    markers: MergedStream<MarkerEntry>,
    syncs: MergedStream<Sync>,
    allocations: MergedStream<Allocation>,
    blocks: MergedStream<BlockOp>,
    accesses: MergedStream<Access>,
    names: NameReader,
    /// Keys of the sources, in the order of the fields; those at `stale` must be asked again.
    keys: [Option<MergePosition>; 7],
    stale: [bool; 7],
    /// Accesses of the current block that the iterator has yet to give.
    run: Range<usize>,
    failed: bool,
    /// Of a thread that had not ended when the trace ended early: that something may be missing, after all events.
    cut_off: Option<Gap>,
}

const ACCESSES: usize = 6;

impl EventCursor {
    fn new(shard: &Shard, filter: &Filter, of_accesses: &Filter) -> Self {
        Self {
            orders: MergedStream::new(shard, filter, 0),
            gaps: MergedStream::new(shard, filter, GAP_RANK),
            markers: MergedStream::new(shard, filter, 2),
            syncs: MergedStream::new(shard, filter, 3),
            allocations: MergedStream::new(shard, filter, 4),
            blocks: MergedStream::new(shard, filter, 5),
            accesses: MergedStream::new(shard, of_accesses, 6),
            names: NameReader::new(&shard.inner),
            keys: [None; 7],
            stale: [true; 7],
            run: 0..0,
            failed: false,
            cut_off: cut_off(shard, filter),
        }
    }

    fn refresh(&mut self) -> Result<(), Error> {
        for index in 0..self.keys.len() {
            if std::mem::take(&mut self.stale[index]) {
                self.keys[index] = match index {
                    0 => self.orders.key(),
                    1 => self.gaps.key(),
                    2 => self.markers.key(),
                    3 => self.syncs.key(),
                    4 => self.allocations.key(),
                    5 => self.blocks.key(),
                    _ => self.accesses.key(),
                }?;
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<Next>, Error> {
        self.refresh()?;
        let keys = self.keys.iter().enumerate();
        let first = keys.filter_map(|(index, key)| key.map(|key| (key, index))).min();
        let Some((_, index)) = first else {
            return Ok(self.cut_off.take().map(|gap| Next::Event(Event::Gap(gap))));
        };
        self.stale[index] = true;
        if index == ACCESSES && self.accesses.gap.is_none() {
            return Ok(Some(Next::Run(self.run_of_accesses())));
        }
        let event = match index {
            0 => self.orders.take().map(|head| head.event(Event::Order)),
            1 => self.gaps.take().map(|head| head.event(Event::Gap)),
            2 => match self.markers.take() {
                Some(Head::Entry(MarkerEntry { cycle, order, ip, kind, name })) => {
                    let name = self.names.get(&self.markers.cursor.inner, name)?;
                    Some(Event::Marker(Marker { cycle, order, ip, kind, name }))
                }
                Some(Head::Gap(gap)) => Some(Event::Gap(gap)),
                None => None,
            },
            3 => self.syncs.take().map(|head| head.event(Event::Sync)),
            4 => self.allocations.take().map(|head| head.event(Event::Allocation)),
            5 => self.blocks.take().map(|head| head.event(Event::Block)),
            _ => self.accesses.take().map(|head| head.event(Event::Access)),
        };
        Ok(event.map(Next::Event))
    }

    /// The accesses from the current one up to the next event of another kind, inside the current block.
    fn run_of_accesses(&mut self) -> Range<usize> {
        let others = self.keys[..ACCESSES].iter().flatten().min();
        let rest = &self.accesses.cursor.block()[self.accesses.at..];
        let len = match others {
            Some(position) => before(rest, position.cycle),
            None => rest.len(),
        };
        // The first one is due, or this would not have been called.
        let run = self.accesses.at..self.accesses.at + len.max(1);
        self.accesses.at = run.end;
        run
    }

    /// The next events; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, Error> {
        let run = std::mem::take(&mut self.run);
        let next = if run.is_empty() { self.advance()? } else { Some(Next::Run(run)) };
        Ok(next.map(|next| match next {
            Next::Run(run) => Batch::Accesses(&self.accesses.cursor.block()[run]),
            Next::Event(event) => Batch::Event(event),
        }))
    }
}

/// The gap with which a thread's events end where it may have gone on, if the filter asks for it.
fn cut_off(shard: &Shard, filter: &Filter) -> Option<Gap> {
    let cycle = *shard.inner.cut_off.get(&shard.thread)?;
    let gap = Gap {
        process: shard.process,
        thread: shard.thread,
        cycle,
        count: 1,
        reason: GapReason::Killed,
        addr: VirtAddr(0),
    };
    (filter.kinds.intersects(KindSet::GAPS) && filter.index.is_none() && gap.matches(filter)).then_some(gap)
}

/// How many of the accesses, whose cycles don't decrease, come before a cycle. The next event is mostly near: looked for in steps
/// that double, it is found without touching the rest of the block.
fn before(accesses: &[Access], cycle: u64) -> usize {
    let earlier = |access: &Access| access.cycle < cycle;
    let mut end = 1;
    while accesses.get(end - 1).is_some_and(earlier) {
        end *= 2;
    }
    let (start, end) = (end / 2, end.min(accesses.len()));
    start + accesses[start..end].partition_point(earlier)
}

impl<E> Head<E> {
    fn event(self, make: impl FnOnce(E) -> Event<String>) -> Event<String> {
        match self {
            Self::Entry(entry) => make(entry),
            Self::Gap(gap) => Event::Gap(gap),
        }
    }
}

impl Iterator for EventCursor {
    type Item = Result<Event<String>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.run.is_empty() {
            if self.failed {
                return None;
            }
            match self.advance() {
                Ok(Some(Next::Run(run))) => self.run = run,
                Ok(Some(Next::Event(event))) => return Some(Ok(event)),
                Ok(None) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let access = self.accesses.cursor.block()[self.run.next()?];
        Some(Ok(Event::Access(access)))
    }
}

#[cfg(test)]
mod tests {
    use memref::AccessKind;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn accesses_before_a_cycle_are_counted(mut cycles in prop::collection::vec(0u64..40, 0..70), cycle in 0u64..42) {
            cycles.sort_unstable();
            let access = |&cycle: &u64| Access {
                cycle, ip: VirtAddr(0), addr: VirtAddr(0), size: 1, kind: AccessKind::Load,
            };
            let accesses: Vec<Access> = cycles.iter().map(access).collect();
            let expected = cycles.iter().filter(|&&other| other < cycle).count();
            prop_assert_eq!(before(&accesses, cycle), expected);
        }
    }
}

//! The streams of a shard other than its accesses, merged by cycle.
//!
//! A call that releases something draws its order before it does its work, and what is recorded afterwards may
//! have the same cycle. An order mark is therefore sorted after events that have the same cycle and a lower order.

use memref::{Allocation, BlockOp, Event, Gap, GapReason, Marker, OrderMark, Sync, VirtAddr};

use super::{
    content::FrameContent,
    cursor::{CursorStep, StreamCursor},
    filter::{Filter, Filtered},
    session::NameReader,
    shard::Shard,
};
use crate::{Error, KindSet, entry::MarkerEntry};

/// The position of an event in the merged order: by cycle, at equal cycles by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergePosition {
    pub(super) cycle: u64,
    rank: u8,
}

/// One stream of the merge.
#[derive(Debug)]
pub(super) struct MergedStream<C: FrameContent> {
    pub(super) cursor: StreamCursor<C>,
    rank: u8,
    /// The next item of what the cursor came to.
    pub(super) at: usize,
    pub(super) gap: Option<Gap>,
    started: bool,
}

/// Gaps come before everything but order marks.
const GAP_RANK: u8 = 1;
/// The first of four streams that have orders.
const MARKERS: usize = 2;
/// Accesses come last.
pub(super) const ACCESS_RANK: u8 = 6;

enum Head<E> {
    Entry(E),
    Gap(Gap),
}

impl<C: FrameContent> MergedStream<C> {
    pub(super) fn new(shard: &Shard, filter: &Filter, rank: u8) -> Self {
        Self { cursor: StreamCursor::new(shard, filter), rank, at: 0, gap: None, started: false }
    }

    /// Where the next event of this stream belongs; `None` at its end.
    pub(super) fn key(&mut self) -> Result<Option<MergePosition>, Error> {
        while self.gap.is_none() && self.at >= self.cursor.chosen().end {
            if self.started && self.cursor.chosen().is_empty() {
                return Ok(None);
            }
            self.started = true;
            let step = self.cursor.step()?;
            self.at = self.cursor.chosen().start;
            if let Some(CursorStep::Gap(gap)) = step {
                self.gap = Some(gap);
                self.at = self.cursor.chosen().end;
                self.started = false;
            }
        }
        Ok(Some(match &self.gap {
            Some(gap) => MergePosition { cycle: gap.cycle, rank: GAP_RANK },
            None => MergePosition { cycle: self.cursor.content().cycle(self.at), rank: self.rank },
        }))
    }
}

impl<E: Filtered> MergedStream<Vec<E>> {
    /// Whether the event that `key` spoke of has an order of its own, and that is a lower one.
    fn is_before(&self, order: u64) -> bool {
        let own = self.cursor.content().get(self.at).and_then(Filtered::order);
        self.gap.is_none() && own.is_some_and(|own| own < order)
    }

    /// Takes the event that `key` spoke of.
    fn next(&mut self) -> Option<Head<E>> {
        if let Some(gap) = self.gap.take() {
            return Some(Head::Gap(gap));
        }
        let entry = self.cursor.content().get(self.at).cloned()?;
        self.at += 1;
        Some(Head::Entry(entry))
    }

    fn take(&mut self, make: impl FnOnce(E) -> Event<String>) -> Option<Event<String>> {
        Some(match self.next()? {
            Head::Entry(entry) => make(entry),
            Head::Gap(gap) => Event::Gap(gap),
        })
    }
}

/// All events of a shard but its accesses.
#[derive(Debug)]
pub(super) struct OtherEvents {
    orders: MergedStream<Vec<OrderMark>>,
    gaps: MergedStream<Vec<Gap>>,
    markers: MergedStream<Vec<MarkerEntry>>,
    syncs: MergedStream<Vec<Sync>>,
    allocations: MergedStream<Vec<Allocation>>,
    blocks: MergedStream<Vec<BlockOp>>,
    names: NameReader,
    /// Keys of the sources, in the order of the fields; those at `stale` must be asked again.
    keys: [Option<MergePosition>; 6],
    stale: [bool; 6],
    /// Of a thread that had not ended when the trace ended early: that something may be missing, after all events.
    cut_off: Option<Gap>,
}

impl OtherEvents {
    pub(super) fn new(shard: &Shard, filter: &Filter) -> Self {
        Self {
            orders: MergedStream::new(shard, filter, 0),
            gaps: MergedStream::new(shard, filter, GAP_RANK),
            markers: MergedStream::new(shard, filter, 2),
            syncs: MergedStream::new(shard, filter, 3),
            allocations: MergedStream::new(shard, filter, 4),
            blocks: MergedStream::new(shard, filter, 5),
            names: NameReader::new(&shard.inner),
            keys: [None; 6],
            stale: [true; 6],
            cut_off: cut_off(shard, filter),
        }
    }

    /// The position of the first of them; `None` where there is no more, but for [`Self::take_last`].
    pub(super) fn position(&mut self) -> Result<Option<MergePosition>, Error> {
        for index in 0..self.keys.len() {
            if std::mem::take(&mut self.stale[index]) {
                self.keys[index] = match index {
                    0 => self.orders.key(),
                    1 => self.gaps.key(),
                    2 => self.markers.key(),
                    3 => self.syncs.key(),
                    4 => self.allocations.key(),
                    _ => self.blocks.key(),
                }?;
            }
        }
        Ok(self.keys.iter().flatten().min().copied())
    }

    /// Takes the one whose position was told.
    pub(super) fn take(&mut self) -> Result<Option<Event<String>>, Error> {
        let keys = self.keys.iter().enumerate();
        let first = keys.filter_map(|(index, key)| key.map(|key| (key, index))).min();
        let Some((position, mut index)) = first else { return Ok(None) };
        if let (0, Some(mark)) = (index, self.orders.cursor.content().get(self.orders.at)) {
            let before = [
                self.markers.is_before(mark.order),
                self.syncs.is_before(mark.order),
                self.allocations.is_before(mark.order),
                self.blocks.is_before(mark.order),
            ];
            let is_due = |index: usize| self.keys[index].is_some_and(|key| key.cycle == position.cycle);
            index = (MARKERS..)
                .zip(before)
                .find(|&(index, before)| before && is_due(index))
                .map_or(0, |due| due.0);
        }
        self.stale[index] = true;
        Ok(match index {
            0 => self.orders.take(Event::Order),
            1 => self.gaps.take(Event::Gap),
            2 => match self.markers.next() {
                Some(Head::Entry(MarkerEntry { cycle, order, ip, kind, name })) => {
                    let name = self.names.get(&self.markers.cursor.inner, name)?;
                    Some(Event::Marker(Marker { cycle, order, ip, kind, name }))
                }
                Some(Head::Gap(gap)) => Some(Event::Gap(gap)),
                None => None,
            },
            3 => self.syncs.take(Event::Sync),
            4 => self.allocations.take(Event::Allocation),
            _ => self.blocks.take(Event::Block),
        })
    }

    /// What comes after all events of the shard.
    pub(super) fn take_last(&mut self) -> Option<Event<String>> {
        self.cut_off.take().map(Event::Gap)
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

/// How many of so many items, the first of which are due, come before something that has a position: `is_before` says it of one. The
/// next event is mostly near: looked for in steps that double, it is found without touching the rest.
pub(super) fn how_many_before(items: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let mut end = 1;
    while end <= items && is_before(end - 1) {
        end *= 2;
    }
    let (mut start, mut end) = (end / 2, end.min(items));
    while start < end {
        let middle = start + (end - start) / 2;
        match is_before(middle) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::how_many_before;

    proptest! {
        #[test]
        fn items_before_a_cycle_are_counted(mut cycles in prop::collection::vec(0u64..40, 0..70), cycle in 0u64..42) {
            cycles.sort_unstable();
            let expected = cycles.iter().filter(|&&other| other < cycle).count();
            prop_assert_eq!(how_many_before(cycles.len(), |item| cycles[item] < cycle), expected);
        }
    }
}

//! Events of all kinds of a shard, merged by cycle.

use std::ops::Range;

use memref::{Access, Event};

use super::{
    filter::Filter,
    merged::{ACCESS_RANK, MergePosition, MergedStream, OtherEvents, how_many_before},
    shard::Shard,
};
use crate::{Error, KindSet};

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
    /// All kinds of events that match, merged by cycle. At equal cycles: order marks, gaps, markers, synchronisation, allocations,
    /// block operations, accesses; but before an order mark those that have a lower order.
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
    others: OtherEvents,
    accesses: MergedStream<Vec<Access>>,
    /// Where the next access belongs; to be asked again where it is `stale`.
    key: Option<MergePosition>,
    stale: bool,
    /// Accesses of the current block that the iterator has yet to give.
    run: Range<usize>,
    failed: bool,
}

impl EventCursor {
    fn new(shard: &Shard, filter: &Filter, of_accesses: &Filter) -> Self {
        Self {
            others: OtherEvents::new(shard, filter),
            accesses: MergedStream::new(shard, of_accesses, ACCESS_RANK),
            key: None,
            stale: true,
            run: 0..0,
            failed: false,
        }
    }

    fn advance(&mut self) -> Result<Option<Next>, Error> {
        if std::mem::take(&mut self.stale) {
            self.key = self.accesses.key()?;
        }
        let others = self.others.position()?;
        let is_due = self.key.is_some_and(|key| others.is_none_or(|others| key < others));
        if !is_due {
            let event = match others {
                Some(_) => self.others.take()?,
                None => self.others.take_last(),
            };
            return Ok(event.map(Next::Event));
        }
        self.stale = true;
        Ok(Some(match self.accesses.gap.take() {
            Some(gap) => Next::Event(Event::Gap(gap)),
            None => Next::Run(self.run_of_accesses(others)),
        }))
    }

    /// The accesses from the current one up to the next event of another kind, inside the current block.
    fn run_of_accesses(&mut self, others: Option<MergePosition>) -> Range<usize> {
        let accesses = &mut self.accesses;
        let rest = &accesses.cursor.content()[accesses.at..accesses.cursor.chosen().end];
        let len = match others {
            Some(position) => how_many_before(rest.len(), |item| rest[item].cycle < position.cycle),
            None => rest.len(),
        };
        // The first one is due, or this would not have been called.
        let run = accesses.at..accesses.at + len.max(1);
        accesses.at = run.end;
        run
    }

    /// The next events; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, Error> {
        let run = std::mem::take(&mut self.run);
        let next = if run.is_empty() { self.advance()? } else { Some(Next::Run(run)) };
        Ok(next.map(|next| match next {
            Next::Run(run) => Batch::Accesses(&self.accesses.cursor.content()[run]),
            Next::Event(event) => Batch::Event(event),
        }))
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
        let access = self.accesses.cursor.content()[self.run.next()?];
        Some(Ok(Event::Access(access)))
    }
}

//! All events of a shard in order, with its accesses as executions of blocks.
//!
//! An event that happened while a block was executed (a signal, an order relevant
//! to other threads) cuts that execution: its accesses are returned one by one.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event};

use super::{
    filter::Filter,
    merged::{ACCESS_RANK, MergePosition, MergedStream, OtherEvents, how_many_before},
    shard::Shard,
    stream::Stream,
};
use crate::{Error, ExecutedFrame, KindSet, StreamKind, encoder::number};

/// Some events of a shard.
#[derive(Debug)]
pub enum ExecutionBatch<'a> {
    /// A part of a frame's executions, without any other event between them. Who keeps the frame can look at them later.
    Executions(&'a Arc<ExecutedFrame>, Range<usize>),
    /// Accesses of an execution that is cut by what comes after them.
    Accesses(&'a [Access]),
    /// One event that is no access.
    Event(Event<String>),
}

enum Next {
    Executions(Range<usize>),
    Accesses(Range<usize>),
    Event(Event<String>),
}

impl Shard {
    /// As [`Self::events`], with the accesses as executions. `None` where the filter chooses among accesses, or where they were not
    /// recorded as executions: then the accesses themselves have to be read.
    pub fn executions(&self, filter: &Filter) -> Option<ExecutionCursor> {
        let is_executed = |stream: &Stream| stream.description.encoder == number::BLOCKS;
        let stream = self.inner.stream(StreamKind::Accesses, Some(self.thread));
        let takes_all = filter.index.is_none()
            && filter.cycles.is_none()
            && filter.kinds.contains(KindSet::ACCESSES)
            && filter.addresses.is_empty()
            && filter.ips.is_empty();
        (takes_all && stream.is_some_and(|stream| is_executed(&stream))).then(|| ExecutionCursor {
            others: OtherEvents::new(self, filter),
            executions: MergedStream::new(self, filter, ACCESS_RANK),
            cut: Vec::new(),
            cut_at: 0,
        })
    }
}

/// Goes through all events of a shard in order.
#[derive(Debug)]
pub struct ExecutionCursor {
    others: OtherEvents,
    executions: MergedStream<Arc<ExecutedFrame>>,
    /// The accesses of an execution that is cut, and the next of them.
    cut: Vec<Access>,
    cut_at: usize,
}

impl ExecutionCursor {
    /// The next events; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<ExecutionBatch<'_>>, Error> {
        let next = self.advance()?;
        Ok(next.map(|next| match next {
            Next::Executions(part) => ExecutionBatch::Executions(self.executions.cursor.content(), part),
            Next::Accesses(part) => ExecutionBatch::Accesses(&self.cut[part]),
            Next::Event(event) => ExecutionBatch::Event(event),
        }))
    }

    fn advance(&mut self) -> Result<Option<Next>, Error> {
        let others = self.others.position()?;
        if self.cut_at < self.cut.len() {
            return self.advance_in_cut(others);
        }
        let key = self.executions.key()?;
        let is_due = key.is_some_and(|key| others.is_none_or(|others| key < others));
        if !is_due {
            return self.event(others);
        }
        if let Some(gap) = self.executions.gap.take() {
            return Ok(Some(Next::Event(Event::Gap(gap))));
        }
        let (frame, at) = (self.executions.cursor.content(), self.executions.at);
        let rest = frame.len() - at;
        let len = match others {
            Some(others) => how_many_before(rest, |item| frame.last_cycle(at + item) < others.cycle),
            None => rest,
        };
        if len > 0 {
            self.executions.at += len;
            return Ok(Some(Next::Executions(at..at + len)));
        }
        self.cut.clear();
        self.cut_at = 0;
        frame.expand_part(at..at + 1, &mut self.cut);
        self.executions.at += 1;
        self.advance_in_cut(others)
    }

    /// Goes on in an execution that has accesses before the next of the other events, or after it.
    fn advance_in_cut(&mut self, others: Option<MergePosition>) -> Result<Option<Next>, Error> {
        let (rest, at) = (&self.cut[self.cut_at..], self.cut_at);
        let len = match others {
            Some(others) => how_many_before(rest.len(), |item| rest[item].cycle < others.cycle),
            None => rest.len(),
        };
        if len == 0 {
            return self.event(others);
        }
        self.cut_at += len;
        Ok(Some(Next::Accesses(at..self.cut_at)))
    }

    fn event(&mut self, others: Option<MergePosition>) -> Result<Option<Next>, Error> {
        let event = match others {
            Some(_) => self.others.take()?,
            None => self.others.take_last(),
        };
        Ok(event.map(Next::Event))
    }
}

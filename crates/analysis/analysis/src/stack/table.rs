//! Counts by stack of functions, in memory that does not grow with the trace.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event};
use symbols::Names;
use trace_format::ExecutedFrame;

use super::names::functions_at;
use super::rows::CountedStacks;
use super::sums::{StackLimits, StackSums};
use super::tally::StackTally;
use crate::selection::{self, CountsPart, Selection};
use crate::{Error, Moment, Session, Tool, TracePart};

/// Counts what happened in each stack of functions. A [`StackTally`] counts by context and instruction for a while; then that is
/// added to the sums by function, and contexts that no thread is in are forgotten. `sums` says which stacks are rows.
#[derive(Debug)]
pub struct StackTable {
    tally: StackTally,
    sums: StackSums,
}

impl StackTable {
    /// Counts a part of a trace. Stacks with less than such a share of the accesses that are counted
    /// are summed, and so are more where there is no room for all that have it. Reads the trace once or twice, and debug information.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn count(session: &Session, part: &TracePart, min_share: f64) -> Result<CountedStacks, Error> {
        let mut sums = pass(session, part, StackSums::new(StackLimits::default()))?;
        if sums.is_incomplete() {
            sums.count_frequent(min_share);
            sums = pass(session, part, sums)?;
        }
        Ok(sums.counted(min_share))
    }

    /// Adds what was counted, where that is much.
    fn relieve(&mut self, at: &Moment<'_>) {
        if self.sums.is_due(self.tally.held(), self.tally.contexts()) {
            self.sum(at.resolver.names());
        }
    }

    fn sum(&mut self, names: &Names) {
        let Self { tally, sums } = self;
        let functions = |code| functions_at(names, code);
        sums.place(tally.contexts(), &functions);
        tally.drain(|tallied| sums.add(&tallied, &functions));
        if sums.is_full(tally.contexts()) {
            sums.renumber(&tally.keep_live());
        }
    }
}

impl CountedStacks {
    /// What a tally has counted, which holds all of it. Reads debug information.
    pub fn of_tally(tally: &StackTally, names: &Names) -> Self {
        let mut sums = StackSums::new(StackLimits::default());
        let functions = |code| functions_at(names, code);
        sums.place(tally.contexts(), &functions);
        for tallied in tally.tallied() {
            sums.add(tallied, &functions);
        }
        sums.counted(0.0)
    }
}

/// Replays once.
fn pass(session: &Session, part: &TracePart, sums: StackSums) -> Result<StackSums, Error> {
    let tally = StackTally::drained(session, part.is_whole());
    let mut table = StackTable { tally, sums };
    selection::replay(&mut table, session, part)?;
    table.sum(session.names());
    Ok(table.sums)
}

impl CountsPart for StackTable {
    fn follows_all(&self) -> bool {
        self.tally.follows_all()
    }

    fn selection(&mut self) -> &mut Selection {
        self.tally.selection()
    }
}

impl Tool for StackTable {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.tally.accesses(at, accesses)?;
        self.relieve(at);
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        self.tally.takes_executions()
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        self.tally.executions(at, frame, part)?;
        self.relieve(at);
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.tally.event(at, event)?;
        self.relieve(at);
        Ok(())
    }
}

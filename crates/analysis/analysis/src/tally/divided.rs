//! Counting on several cores: workers count slices of a replay, and their counts are added up.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event};
use symbols::Resolver;
use trace_format::ExecutedFrame;

use super::numbering::Numbering;
use super::slot::slot;
use super::{Counted, PairTally, Tally};
use crate::replay::{SliceMarks, SliceWorker};
use crate::stack::Stacks;
use crate::{Error, Moment, Session, Tool, TracePart};

/// Counts by numbers, which workers can do slice by slice.
trait DividedTally: Tool + Send + Sized {
    /// What accesses are counted to.
    fn numberings(&mut self) -> Vec<&mut Numbering>;

    /// The same, with nothing counted and these numberings.
    fn empty(&self, numberings: Vec<Numbering>) -> Self;

    /// Adds what another one counted. Of each of its numberings the numbers here are given, nothing where they are the session's.
    fn add(&mut self, other: Self, numbers: &[Option<Vec<u32>>]);
}

/// Counts slices.
struct TallyWorker<T> {
    tally: T,
    /// Of each numbering.
    marks: Vec<SliceMarks>,
}

impl<T: DividedTally> Tool for TallyWorker<T> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        self.tally.accesses(at, accesses)
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
        self.tally.executions(at, frame, part)
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        self.tally.event(at, event)
    }
}

impl<T: DividedTally> SliceWorker for TallyWorker<T> {
    fn stacks(&mut self) -> Vec<&mut Stacks> {
        self.tally.numberings().into_iter().filter_map(Numbering::stacks_mut).collect()
    }

    fn end_slice(&mut self, number: usize) {
        for (marks, numbering) in self.marks.iter_mut().zip(self.tally.numberings()) {
            marks.end_slice(number, numbering.things());
        }
    }
}

/// Has everything counted by several; `None`, and nothing is counted, where one does it better, or only one can.
fn replay<T: DividedTally>(
    tally: &mut T,
    session: &Session,
    part: &TracePart,
) -> Result<Option<Vec<Resolver>>, Error> {
    // Who follows stacks counts a part of what it has to be told.
    if !part.is_all() && tally.numberings().iter().any(|numbering| numbering.follows()) {
        return Ok(None);
    }
    let count = session.workers();
    if count < 2 {
        return Ok(None);
    }
    let mut workers = Vec::new();
    for _ in 0..count {
        let own = tally.numberings().into_iter().map(|numbering| numbering.of_worker(session));
        let Some(numberings) = own.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let marks = numberings.iter().map(|_| SliceMarks::default()).collect();
        workers.push(TallyWorker { tally: tally.empty(numberings), marks });
    }
    let stacks = tally.numberings().into_iter().filter_map(Numbering::stacks_mut).collect();
    let (resolvers, mut workers) = session.replay_divided_part(part, workers, stacks)?;
    let mut numbers: Vec<Vec<Option<Vec<u32>>>> = vec![Vec::new(); count];
    for (side, own) in tally.numberings().into_iter().enumerate() {
        let marks: Vec<SliceMarks> =
            workers.iter_mut().map(|worker| std::mem::take(&mut worker.marks[side])).collect();
        for numbers in &mut numbers {
            numbers.push((!own.are_of_session()).then(Vec::new));
        }
        for (worker, things) in SliceMarks::in_order(&marks) {
            let others = workers[worker].tally.numberings();
            if let Some(numbers) = &mut numbers[worker][side] {
                numbers.extend(own.join(others[side], things));
            }
        }
    }
    for (worker, numbers) in workers.into_iter().zip(numbers) {
        tally.add(worker.tally, &numbers);
    }
    Ok(Some(resolvers))
}

/// A worker's number here.
fn number_here(numbers: Option<&Option<Vec<u32>>>, number: u32) -> Option<u32> {
    match numbers? {
        Some(numbers) => numbers.get(number as usize).copied(),
        None => Some(number),
    }
}

impl DividedTally for Tally {
    fn numberings(&mut self) -> Vec<&mut Numbering> {
        self.counted.iter_mut().map(|counted| &mut counted.numbering).collect()
    }

    fn empty(&self, numberings: Vec<Numbering>) -> Self {
        let counted = numberings.into_iter().map(Counted::new).collect();
        Self { counted, pages: self.pages.as_ref().map(|_| Default::default()), ..Self::of_nothing() }
    }

    fn add(&mut self, other: Self, numbers: &[Option<Vec<u32>>]) {
        for ((own, mut other), numbers) in self.counted.iter_mut().zip(other.counted).zip(numbers) {
            other.add_up();
            own.sums.again += other.sums.again;
            for (number, count) in (0..).zip(other.sums.counts) {
                if count.accesses() > 0
                    && let Some(number) = number_here(Some(numbers), number)
                {
                    *slot(&mut own.sums.counts, number) += count;
                }
            }
        }
        if let (Some(own), Some(other)) = (&mut self.pages, other.pages) {
            own.join(other);
        }
    }
}

impl DividedTally for PairTally {
    fn numberings(&mut self) -> Vec<&mut Numbering> {
        self.numberings.iter_mut().collect()
    }

    fn empty(&self, numberings: Vec<Numbering>) -> Self {
        let numberings = numberings.try_into().expect("as many as there are here");
        Self::of(self.by, numberings)
    }

    fn add(&mut self, other: Self, numbers: &[Option<Vec<u32>>]) {
        for ([first, second], count) in other.counts {
            let here = |side: usize, number| number_here(numbers.get(side), number);
            if let (Some(first), Some(second)) = (here(0, first), here(1, second)) {
                *self.count([first, second]) += count;
            }
        }
        for (number, again) in (0..).zip(other.again) {
            if let Some(number) = number_here(numbers.first(), number) {
                *slot(&mut self.again, number) += again;
            }
        }
        self.shared += other.shared;
    }
}

impl Tally {
    /// As [`replay`].
    pub(super) fn replay_divided(
        &mut self,
        session: &Session,
        part: &TracePart,
    ) -> Result<Option<Vec<Resolver>>, Error> {
        // The instruction of a function that is met first tells the row's line, and which one that is workers would decide. Rows of pairs
        // have none.
        if self.counted.iter().any(|counted| matches!(counted.numbering, Numbering::Code)) {
            return Ok(None);
        }
        replay(self, session, part)
    }
}

impl PairTally {
    /// As [`replay`].
    pub(super) fn replay_divided(
        &mut self,
        session: &Session,
        part: &TracePart,
    ) -> Result<Option<Vec<Resolver>>, Error> {
        replay(self, session, part)
    }
}

//! Counts by calling context. All contexts and their counts are kept;
//! [`StackTable`](super::StackTable) drains them when memory must be bounded.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};
use trace_format::ExecutedFrame;

use super::context::{ContextId, Contexts};
use super::place::CallPlace;
use super::shadow::Stacks;
use super::steps::{BlockSteps, StepCount, StepFollower, TakenStep, ToldSteps};
use crate::selection::{self, CountsPart, Selection};
use crate::{Count, Error, Moment, Session, Tool, TracePart};

/// What one instruction did in one context.
#[derive(Clone, Copy, Debug)]
pub struct Tallied {
    /// The context.
    pub context: ContextId,
    /// The instruction.
    pub code: CodeId,
    /// Its accesses.
    pub count: Count,
    /// Its calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

/// Where a pair of a context and an instruction, or a step of a block, is counted.
#[derive(Clone, Copy, Debug)]
struct PairPlace {
    context: ContextId,
    number: u32,
    place: u32,
}

/// How often a step of a block was taken in a context.
#[derive(Clone, Copy, Debug)]
struct TalliedStep {
    context: ContextId,
    step: u32,
    times: u64,
}

/// So many pairs are found without the hash table. They fit into the second cache of a processor.
const NEAR_BITS: u32 = 15;
const NO_CONTEXT: ContextId = ContextId(u32::MAX);

/// The pairs that were counted lately, each in the one place where it can be.
#[derive(Debug)]
struct NearPairs(Box<[PairPlace]>);

impl Default for NearPairs {
    fn default() -> Self {
        let none = PairPlace { context: NO_CONTEXT, number: 0, place: 0 };
        Self(vec![none; 1 << NEAR_BITS].into_boxed_slice())
    }
}

impl NearPairs {
    #[inline]
    fn slot(&mut self, context: ContextId, number: u32) -> &mut PairPlace {
        let pair = u64::from(context.0) << 32 | u64::from(number);
        // Fibonacci hashing: the upper bits depend on all of them.
        let index = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NEAR_BITS);
        &mut self.0[index as usize]
    }
}

/// Counts the accesses and allocations of each instruction in each context.
#[derive(Debug)]
pub struct StackTally {
    stacks: Stacks,
    tallied: Vec<Tallied>,
    place_of: FxHashMap<(ContextId, CodeId), usize>,
    near: NearPairs,
    blocks: BlockSteps,
    steps: TalliedSteps,
    /// Whether executions are counted, which [`StackTally::replay`] adds in the end.
    by_execution: bool,
    selection: Selection,
}

/// How often each step of a block was taken in each context.
#[derive(Debug, Default)]
struct TalliedSteps {
    tallied: Vec<TalliedStep>,
    place_of: FxHashMap<(ContextId, u32), u32>,
    near: NearPairs,
}

impl TalliedSteps {
    #[inline]
    fn add(&mut self, context: ContextId, step: u32) {
        let near = *self.near.slot(context, step);
        let place = match near.context == context && near.number == step {
            true => near.place,
            false => self.find(context, step),
        };
        self.tallied[place as usize].times += 1;
    }

    fn find(&mut self, context: ContextId, step: u32) -> u32 {
        let place = *self.place_of.entry((context, step)).or_insert_with(|| {
            self.tallied.push(TalliedStep { context, step, times: 0 });
            self.tallied.len() as u32 - 1
        });
        *self.near.slot(context, step) = PairPlace { context, number: step, place };
        place
    }
}

impl StackTally {
    /// Counts for that session.
    pub fn new(session: &Session) -> Self {
        Self::of(Stacks::new(session), false)
    }

    /// Counts for a tool that [drains](Self::drain) it; executions where it is told of all accesses.
    pub(super) fn drained(session: &Session, by_execution: bool) -> Self {
        Self::of(Stacks::without_blocks(session), by_execution)
    }

    fn of(stacks: Stacks, by_execution: bool) -> Self {
        Self {
            stacks,
            tallied: Vec::new(),
            place_of: FxHashMap::default(),
            near: NearPairs::default(),
            blocks: BlockSteps::default(),
            steps: TalliedSteps::default(),
            by_execution,
            selection: Selection::default(),
        }
    }

    /// Counts a part of a trace. All events of each thread are followed.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn replay(&mut self, session: &Session, part: &TracePart) -> Result<Vec<Resolver>, Error> {
        self.by_execution = part.is_whole();
        let resolvers = selection::replay(self, session, part);
        self.by_execution = false;
        for step in std::mem::take(&mut self.steps.tallied) {
            for index in 0..self.blocks.counts(step.step).len() {
                let StepCount { code, count } = self.blocks.counts(step.step)[index];
                self.at(step.context, code).count += count.times(step.times);
            }
        }
        self.steps = TalliedSteps::default();
        resolvers
    }

    /// Each instruction in each context, in the order in which they were met. Nothing is named yet.
    pub fn tallied(&self) -> &[Tallied] {
        &self.tallied
    }

    /// The contexts that these were met in.
    pub fn contexts(&self) -> &Contexts {
        self.stacks.contexts()
    }

    #[inline]
    fn at(&mut self, context: ContextId, code: CodeId) -> &mut Tallied {
        let near = *self.near.slot(context, code.0);
        let place = match near.context == context && near.number == code.0 {
            true => near.place,
            false => self.find(context, code),
        };
        &mut self.tallied[place as usize]
    }

    fn find(&mut self, context: ContextId, code: CodeId) -> u32 {
        let place = *self.place_of.entry((context, code)).or_insert_with(|| {
            let count = Count::default();
            self.tallied.push(Tallied { context, code, count, allocations: 0, allocated_bytes: 0 });
            self.tallied.len() - 1
        });
        let place = place as u32;
        *self.near.slot(context, code.0) = PairPlace { context, number: code.0, place };
        place
    }

    /// Pairs that are held.
    pub(super) fn held(&self) -> usize {
        self.tallied.len().max(self.steps.tallied.len())
    }

    /// Gives what was counted since the last time, and forgets it; some pairs come more than once.
    pub(super) fn drain(&mut self, mut act: impl FnMut(Tallied)) {
        for TalliedStep { context, step, times } in self.steps.tallied.drain(..) {
            for StepCount { code, count } in self.blocks.counts(step) {
                let (code, count) = (*code, count.times(times));
                act(Tallied { context, code, count, allocations: 0, allocated_bytes: 0 });
            }
        }
        self.tallied.drain(..).for_each(act);
        self.steps.place_of.clear();
        self.place_of.clear();
        // Near pairs are places in what was drained.
        self.steps.near = NearPairs::default();
        self.near = NearPairs::default();
    }

    /// Forgets the contexts that no thread is in, once all was drained. The new number of each that is kept.
    pub(super) fn keep_live(&mut self) -> Vec<Option<ContextId>> {
        self.stacks.keep_live()
    }
}

/// Counts steps; single accesses are left for later.
struct TallyFollower<'a> {
    steps: &'a mut TalliedSteps,
    single: Vec<(CallPlace, Access)>,
}

impl StepFollower for TallyFollower<'_> {
    #[inline]
    fn step(&mut self, _: &Stacks, _: &mut Moment<'_>, context: ContextId, step: &TakenStep<'_>) {
        self.steps.add(context, step.number);
    }

    fn access(&mut self, _: &Stacks, _: &mut Moment<'_>, place: CallPlace, access: &Access) {
        self.single.push((place, *access));
    }
}

impl CountsPart for StackTally {
    fn follows_all(&self) -> bool {
        true
    }

    fn selection(&mut self) -> &mut Selection {
        &mut self.selection
    }
}

impl Tool for StackTally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        if self.selection.is_all() {
            for access in accesses {
                let CallPlace { context, code } = self.stacks.access(at, access);
                self.at(context, code).count.add(access);
            }
            return Ok(());
        }
        let begin = self.selection.tell(at.thread, accesses.len());
        for (index, access) in (begin..).zip(accesses) {
            let CallPlace { context, code } = self.stacks.access(at, access);
            if self.selection.has(at.thread, index, access) {
                self.at(context, code).count.add(access);
            }
        }
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        self.by_execution && self.selection.is_all()
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        let Self { stacks, blocks, steps, .. } = self;
        let mut follower = TallyFollower { steps, single: Vec::new() };
        blocks.follow(stacks, at, (frame, part), ToldSteps::All, &mut follower);
        for (CallPlace { context, code }, access) in follower.single {
            self.at(context, code).count.add(&access);
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        let place = self.stacks.event(at, event);
        if let (Event::Allocation(allocation), Some(place)) = (event, place)
            && allocation.kind.allocates()
            && self.selection.has_event(at.thread, event)
        {
            let tallied = self.at(place.context, place.code);
            tallied.allocations += 1;
            tallied.allocated_bytes += allocation.len;
        }
        Ok(())
    }
}

//! Following stacks block by block: what a block does to a stack is found out once, not at each of its accesses.
//!
//! A block is cut into *steps*: accesses that are made in one context, whichever that is. A call that writes its return address is one,
//! so is a return that reads it; what lies between is cut where the function changes.

use std::ops::Range;

use blocks::{BasicBlock, BlockAccess};
use memref::{Access, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, FunctionId};
use trace_format::{ExecutedFrame, ExecutedItem};

use super::context::ContextId;
use super::place::CallPlace;
use super::shadow::Stacks;
use super::transfer::CallEdge;
use crate::executed_blocks::ExecutedBlocks;
use crate::{Count, Moment};

/// Accesses of a block, one after the other, that are made in one context.
#[derive(Clone, Debug)]
pub(super) struct BlockStep {
    /// The first instruction of them.
    pub(super) ip: VirtAddr,
    pub(super) code: CodeId,
    /// The function of all of them.
    pub(super) function: FunctionId,
    /// What they do to the stack.
    pub(super) edge: CallEdge,
    /// The first access.
    first: BlockAccess,
    /// What they are counted as, in the list of all steps' counts.
    counts: Range<usize>,
}

/// The accesses of one instruction in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepCount {
    pub(super) code: CodeId,
    pub(super) count: Count,
}

/// The steps of a block, where code is what it was in a version of the resolver's.
#[derive(Clone, Debug)]
struct KnownSteps {
    version: u32,
    steps: Range<u32>,
}

/// A block, and the resolver's version of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockCode {
    block: u32,
    version: u32,
}

/// What an execution did.
pub(super) enum Followed<'a> {
    /// All accesses of a step, by its number among all.
    Step(ContextId, u32),
    /// An access.
    Access(CallPlace, &'a Access),
}

/// Follows executions.
#[derive(Debug, Default)]
pub(super) struct BlockSteps {
    known: ExecutedBlocks,
    steps: Vec<BlockStep>,
    counts: Vec<StepCount>,
    /// Of each block, those that it had last.
    last: Vec<Option<KnownSteps>>,
    all: FxHashMap<BlockCode, Range<u32>>,
    expanded: Vec<Access>,
}

impl BlockSteps {
    /// What a step is counted as.
    pub(super) fn counts(&self, step: u32) -> &[StepCount] {
        self.steps.get(step as usize).map_or(&[], |step| &self.counts[step.counts.clone()])
    }

    /// Tells stacks of executions, which are their thread's next events, and `act` what these did.
    pub(super) fn follow(
        &mut self,
        stacks: &mut Stacks,
        at: &mut Moment<'_>,
        frame: &ExecutedFrame,
        part: Range<usize>,
        mut act: impl FnMut(Followed<'_>),
    ) {
        let numbers = self.known.enter(at.thread, frame);
        self.last.resize(self.known.all().len(), None);
        let version = at.resolver.code_version();
        for item in frame.items(part) {
            if let ExecutedItem::Block { number, block, values, .. } = item
                && block.is_fixed()
            {
                let number = numbers[number as usize];
                let steps = match &self.last[number as usize] {
                    Some(known) if known.version == version => known.steps.clone(),
                    _ => self.find(stacks, at, number, version),
                };
                for number in steps {
                    let step = &self.steps[number as usize];
                    let addr = || step.first.address(values, frame.fs_base());
                    act(Followed::Step(stacks.step(at, step, addr), number));
                }
                continue;
            }
            self.expanded.clear();
            frame.expand(&item, &mut self.expanded);
            for access in &self.expanded {
                act(Followed::Access(stacks.access(at, access), access));
            }
        }
    }

    #[cold]
    fn find(&mut self, stacks: &mut Stacks, at: &mut Moment<'_>, number: u32, version: u32) -> Range<u32> {
        let of = BlockCode { block: number, version };
        let steps = match self.all.get(&of) {
            Some(steps) => steps.clone(),
            None => {
                let begin = self.steps.len() as u32;
                self.cut(stacks, at, number);
                let steps = begin..self.steps.len() as u32;
                self.all.insert(of, steps.clone());
                steps
            }
        };
        self.last[number as usize] = Some(KnownSteps { version, steps: steps.clone() });
        steps
    }

    /// Cuts a block into steps.
    fn cut(&mut self, stacks: &mut Stacks, at: &mut Moment<'_>, number: u32) {
        let Self { known, steps, counts, .. } = self;
        let block: &BasicBlock = &known.all()[number as usize];
        let first_step = steps.len();
        for &first in block.accesses() {
            let ip = block.ip(&first);
            let access =
                Access { cycle: 0, ip, addr: VirtAddr(0), size: first.size.into(), kind: first.kind };
            let seen = stacks.look(at, ip);
            let (code, function, edge) = (seen.code, seen.function, seen.edge.of_access(&access));
            let goes_on = |step: &BlockStep| {
                (step.function, step.edge, edge) == (function, CallEdge::None, CallEdge::None)
            };
            if !steps[first_step..].last().is_some_and(goes_on) {
                let counts = counts.len()..counts.len();
                steps.push(BlockStep { ip, code, function, edge, first, counts });
            }
            let Some(step) = steps.last_mut() else { continue };
            let is_same = |last: &&mut StepCount| last.code == code && !step.counts.is_empty();
            match counts.last_mut().filter(is_same) {
                Some(last) => last.count.add(&access),
                None => {
                    let mut count = Count::default();
                    count.add(&access);
                    counts.push(StepCount { code, count });
                }
            }
            step.counts.end = counts.len();
        }
    }
}

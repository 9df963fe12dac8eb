//! Follows stacks basic block by basic block: the effect of a block on a stack is computed once, not at each of its accesses.
//!
//! A block is divided into *steps*: accesses made in one context, whichever it is. A call that writes its return
//! address is a step, and so is a return that reads it. What lies between them is divided where the function changes.

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
    /// Which accesses of the block they are.
    accesses: Range<usize>,
    /// Their instructions, in the list of all steps' codes.
    codes: Range<usize>,
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
    /// The function of all steps, where none is a call or a return.
    plain: Option<FunctionId>,
}

/// A block, and the resolver's version of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockCode {
    block: u32,
    version: u32,
}

/// A step that an execution took.
#[derive(Clone, Copy)]
pub(crate) struct TakenStep<'a> {
    /// Its number among all.
    pub(crate) number: u32,
    /// Its block, and which of its accesses are made.
    pub(crate) block: &'a BasicBlock,
    pub(crate) accesses: &'a [BlockAccess],
    /// The instruction of each of these.
    pub(crate) codes: &'a [CodeId],
    /// When the block was executed.
    pub(crate) cycle: u64,
    /// What their addresses follow from.
    pub(crate) values: &'a [u64],
    pub(crate) fs_base: u64,
    /// The canonical frame address of their function, where it is known and [wanted](StepFollower::WANTS_FRAMES).
    pub(crate) cfa: Option<VirtAddr>,
}

/// Looks at what executions did, after each thing that they did.
pub(crate) trait StepFollower {
    /// Whether it looks at all.
    const LOOKS: bool = true;
    /// Whether it wants to know where the frame of each step is.
    const WANTS_FRAMES: bool = false;

    /// All accesses of a step were made.
    fn step(&mut self, stacks: &Stacks, at: &mut Moment<'_>, context: ContextId, step: &TakenStep<'_>);

    /// An access was made.
    fn access(&mut self, stacks: &Stacks, at: &mut Moment<'_>, place: CallPlace, access: &Access);
}

/// Looks at nothing: stacks alone are followed.
impl StepFollower for () {
    const LOOKS: bool = false;

    fn step(&mut self, _: &Stacks, _: &mut Moment<'_>, _: ContextId, _: &TakenStep<'_>) {}

    fn access(&mut self, _: &Stacks, _: &mut Moment<'_>, _: CallPlace, _: &Access) {}
}

/// Which steps are told as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToldSteps {
    /// Each that has a context.
    All,
    /// Those in the frame of a call that was seen: where the frame of another function begins, one of its accesses tells. They may
    /// have accesses under a mask, of which none or several are made.
    InFrames,
}

/// Follows executions.
#[derive(Debug, Default)]
pub(crate) struct BlockSteps {
    known: ExecutedBlocks,
    steps: Vec<BlockStep>,
    counts: Vec<StepCount>,
    codes: Vec<CodeId>,
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

    /// Tells stacks of executions, which are their thread's next events, and a follower what these did.
    pub(crate) fn follow<F: StepFollower>(
        &mut self,
        stacks: &mut Stacks,
        at: &mut Moment<'_>,
        (frame, part): (&ExecutedFrame, Range<usize>),
        told: ToldSteps,
        follower: &mut F,
    ) {
        let numbers = self.known.enter(at.thread, frame);
        self.last.resize(self.known.all().len(), None);
        let version = at.resolver.code_version();
        for item in frame.items(part) {
            if let ExecutedItem::Block { number, block, cycle, values } = item
                && (block.is_fixed() || told == ToldSteps::InFrames && !block.is_repeated())
            {
                let number = numbers[number as usize];
                let known = match &self.last[number as usize] {
                    Some(known) if known.version == version => known,
                    _ => self.find(stacks, at, number, version),
                };
                if !F::LOOKS && known.plain.is_some_and(|function| stacks.runs(at.thread, function)) {
                    continue;
                }
                for number in known.steps.clone() {
                    let step = &self.steps[number as usize];
                    let accesses = &block.accesses()[step.accesses.clone()];
                    let begun = stacks.begin_step(at, step);
                    if told == ToldSteps::InFrames && !begun.is_in_frame {
                        for made in accesses {
                            block.for_each_element(made, cycle, values, frame.fs_base(), |access| {
                                let place = stacks.access(at, &access);
                                follower.access(stacks, at, place, &access);
                            });
                        }
                        continue;
                    }
                    let fs_base = frame.fs_base();
                    let cfa = if F::WANTS_FRAMES { stacks.frame_address(at.thread) } else { None };
                    let slot = || accesses[0].address(values, fs_base);
                    let context = match step.edge {
                        CallEdge::None => begun.context,
                        CallEdge::Call => stacks.call(at, step.ip, slot(), step.code),
                        CallEdge::Return => stacks.ret(at, slot()),
                    };
                    let codes = &self.codes[step.codes.clone()];
                    let taken = TakenStep { number, block, accesses, codes, cycle, values, fs_base, cfa };
                    follower.step(stacks, at, context, &taken);
                }
                continue;
            }
            self.expanded.clear();
            frame.expand(&item, &mut self.expanded);
            for access in &self.expanded {
                let place = stacks.access(at, access);
                follower.access(stacks, at, place, access);
            }
        }
    }

    #[cold]
    fn find(&mut self, stacks: &mut Stacks, at: &mut Moment<'_>, number: u32, version: u32) -> &KnownSteps {
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
        let of_block = &self.steps[steps.start as usize..steps.end as usize];
        let plain = match of_block {
            [step] if step.edge == CallEdge::None => Some(step.function),
            _ => None,
        };
        self.last[number as usize].insert(KnownSteps { version, steps, plain })
    }

    /// Cuts a block into steps.
    fn cut(&mut self, stacks: &mut Stacks, at: &mut Moment<'_>, number: u32) {
        let Self { known, steps, counts, codes, .. } = self;
        let block: &BasicBlock = &known.all()[number as usize];
        let first_step = steps.len();
        for (index, made) in block.accesses().iter().enumerate() {
            let ip = block.ip(made);
            let access = Access { cycle: 0, ip, addr: VirtAddr(0), size: made.size.into(), kind: made.kind };
            let seen = stacks.look(at, ip);
            let (code, function, edge) = (seen.code, seen.function, seen.edge.of_access(&access));
            let goes_on = |step: &BlockStep| {
                (step.function, step.edge, edge) == (function, CallEdge::None, CallEdge::None)
            };
            if !steps[first_step..].last().is_some_and(goes_on) {
                let counts = counts.len()..counts.len();
                let codes = codes.len()..codes.len();
                steps.push(BlockStep { ip, code, function, edge, accesses: index..index, codes, counts });
            }
            let Some(step) = steps.last_mut() else { continue };
            step.accesses.end = index + 1;
            codes.push(code);
            step.codes.end = codes.len();
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

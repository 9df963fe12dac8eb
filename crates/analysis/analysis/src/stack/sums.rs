//! Sums by stack of functions in bounded memory. What instructions did in contexts goes into a tree
//! of stacks; when the tree becomes too large, the stacks that were rarest so far are dropped.
//!
//! Stacks are dropped by lossy counting (Manku and Motwani 2002). A stack that is not in the tree has at
//! most `missed` accesses, and a stack that returns to it may lack as many. So after one pass it is known
//! which stacks may have enough accesses to be rows. If any stack was dropped, a second pass counts these
//! alone from the beginning; the figures shown are exact. One pass is enough if the tree had room for all.

use rustc_hash::FxHashMap;
use symbols::CodeId;

use super::context::{ContextId, Contexts, EnteredBy};
use super::distinct::Distinct;
use super::names::CalledFunction;
use super::rows::{CountedStacks, LeftOutStacks, least};
use super::tally::Tallied;
use super::tree::{StackFigures, StackFunction, StackId, StackTree};

/// How much is held, besides what threads are in and its callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackLimits {
    /// Pairs of a context and an instruction or step: 40 bytes each.
    pub(super) pairs: usize,
    /// Contexts and calls from them: 50 bytes each.
    pub(super) contexts: usize,
    /// Stacks, before those of as many pairs and contexts are added: 100 bytes each.
    pub(super) stacks: usize,
}

impl Default for StackLimits {
    fn default() -> Self {
        Self { pairs: 1 << 17, contexts: 1 << 18, stacks: 1 << 19 }
    }
}

/// What was left out.
#[derive(Debug, Default)]
struct LeftOut {
    figures: StackFigures,
    /// All stacks of the first pass.
    all: Distinct,
}

/// The sums.
#[derive(Debug)]
pub(super) struct StackSums {
    tree: StackTree,
    functions_at: FxHashMap<CodeId, Box<[StackFunction]>>,
    /// Of each context; `None` where it is left out.
    stack_of: Vec<Option<StackId>>,
    left_out: Option<Box<LeftOut>>,
    /// In the second pass: stacks with fewer accesses are not of interest.
    least: Option<u64>,
    limits: StackLimits,
}

impl StackSums {
    pub(super) fn new(limits: StackLimits) -> Self {
        Self {
            tree: StackTree::default(),
            functions_at: FxHashMap::default(),
            stack_of: Vec::new(),
            left_out: None,
            least: None,
            limits,
        }
    }

    /// Whether contexts have to be forgotten.
    pub(super) fn is_full(&self, contexts: &Contexts) -> bool {
        contexts.held() > self.limits.contexts || self.is_tree_full()
    }

    /// Whether stacks have to be left out. In the second pass none come.
    fn is_tree_full(&self) -> bool {
        self.least.is_none() && self.tree.len() > self.limits.stacks
    }

    /// Whether so much was counted that it has to be added.
    pub(super) fn is_due(&self, pairs: usize, contexts: &Contexts) -> bool {
        pairs > self.limits.pairs || contexts.held() > self.limits.contexts
    }

    /// Names the contexts that are new. Reads debug information.
    pub(super) fn place(&mut self, contexts: &Contexts, functions: &impl Fn(CodeId) -> Vec<CalledFunction>) {
        for number in self.stack_of.len() as u32..contexts.len() as u32 {
            let Some(context) = contexts.get(ContextId(number)) else { break };
            // A caller's context has a lower number.
            let caller = self.stack_of.get(context.parent.0 as usize).copied();
            let stack = match context.entry {
                EnteredBy::Call(code) => self.at(caller.flatten(), code, functions),
                EnteredBy::Begin => Some(StackId::BEGIN),
                root => {
                    let function = self.tree.function(&root.to_string().into(), None);
                    self.enter(StackId::BEGIN, function)
                }
            };
            self.stack_of.push(stack);
        }
        // Whenever that is found: which rows say so is not to depend on when counts are added.
        for id in contexts.with_folded() {
            if let Some(caller) = self.stack_of.get(id.0 as usize).copied().flatten() {
                self.tree.set_folds(caller);
            }
        }
    }

    /// Adds what an instruction did in a context that has its place.
    pub(super) fn add(&mut self, tallied: &Tallied, functions: &impl Fn(CodeId) -> Vec<CalledFunction>) {
        let Tallied { context, code, count, allocations, allocated_bytes } = *tallied;
        let figures = StackFigures { count, allocations, allocated_bytes };
        if figures.is_nothing() {
            return;
        }
        let context = self.stack_of.get(context.0 as usize).copied().flatten();
        match (self.at(context, code, functions), &mut self.left_out) {
            (Some(stack), _) => self.tree.add(stack, figures),
            (None, Some(left_out)) => left_out.figures += figures,
            (None, None) => unreachable!("every stack has a place until some are left out"),
        }
    }

    /// Contexts have other numbers from now on. Leaves out stacks where there are too many.
    pub(super) fn renumber(&mut self, contexts: &[Option<ContextId>]) {
        let kept = contexts.iter().zip(&self.stack_of).filter(|(context, _)| context.is_some());
        self.stack_of = kept.map(|(_, stack)| *stack).collect();
        // What is live may be more than the limits have room for; then they are not reached at once again.
        self.limits.contexts = self.limits.contexts.max(2 * self.stack_of.len());
        if self.is_tree_full() {
            self.leave_out();
            self.limits.stacks = self.limits.stacks.max(2 * self.tree.len());
        }
    }

    /// Whether stacks were left out, so that others may lack accesses that they had before they came back.
    pub(super) fn is_incomplete(&self) -> bool {
        self.left_out.is_some() && self.least.is_none()
    }

    /// Begins the second pass, in which stacks are counted that may have such a share of all accesses, and the others are summed.
    pub(super) fn count_frequent(&mut self, min_share: f64) {
        let least = least(min_share, self.all()).max(self.tree.missed() + 1);
        let left_out = self.left_out.get_or_insert_default();
        let hashes = self.tree.hashes();
        let mut is_kept = vec![false; self.tree.len()];
        for (id, node) in self.tree.nodes() {
            is_kept[id.0 as usize] = node.most() >= least;
            if !node.own.is_nothing() {
                left_out.all.add(hashes[id.0 as usize]);
            }
        }
        left_out.figures = StackFigures::default();
        self.tree.mark_callers(&mut is_kept);
        self.tree.keep(&is_kept, 0);
        self.tree.clear_figures();
        self.stack_of.clear();
        self.least = Some(least);
    }

    /// All that was counted.
    pub(super) fn counted(self, min_share: f64) -> CountedStacks {
        let least = self.least.unwrap_or_else(|| least(min_share, self.all()));
        let held = self.tree.nodes().filter(|(_, node)| !node.own.is_nothing()).count() as u64;
        let left_out = self.left_out.map(|left_out| LeftOutStacks {
            stacks: left_out.all.estimate().saturating_sub(held).max(1),
            figures: left_out.figures,
        });
        CountedStacks { tree: self.tree, least, left_out }
    }

    fn all(&self) -> StackFigures {
        let mut all = self.left_out.as_ref().map_or_else(StackFigures::default, |left_out| left_out.figures);
        self.tree.nodes().for_each(|(_, node)| all += node.own);
        all
    }

    /// The stack of the functions at an instruction, in that of a context.
    fn at(
        &mut self,
        context: Option<StackId>,
        code: CodeId,
        functions: &impl Fn(CodeId) -> Vec<CalledFunction>,
    ) -> Option<StackId> {
        if !self.functions_at.contains_key(&code) {
            let numbered =
                |called: CalledFunction| self.tree.function(&called.function, called.module.as_ref());
            let numbers = functions(code).into_iter().map(numbered).collect();
            self.functions_at.insert(code, numbers);
        }
        let mut stack = context?;
        for index in 0..self.functions_at[&code].len() {
            stack = self.enter(stack, self.functions_at[&code][index])?;
        }
        Some(stack)
    }

    fn enter(&mut self, caller: StackId, function: StackFunction) -> Option<StackId> {
        match self.least {
            None => Some(self.tree.enter(caller, function)),
            Some(_) => self.tree.entered(caller, function),
        }
    }

    /// Leaves out the rarest stacks, so that less than half of what there may be is kept.
    fn leave_out(&mut self) {
        let mut most: Vec<u64> = self.tree.nodes().map(|(_, node)| node.most()).collect();
        most.sort_unstable();
        let mut room = self.limits.stacks / 4;
        let (is_kept, missed) = loop {
            let missed = most[most.len() - 1 - room.min(most.len() - 1)].max(self.tree.missed());
            let mut is_kept: Vec<bool> = self.tree.nodes().map(|(_, node)| node.most() > missed).collect();
            self.stack_of.iter().flatten().for_each(|live| is_kept[live.0 as usize] = true);
            let kept = self.tree.mark_callers(&mut is_kept);
            if kept <= self.limits.stacks / 2 || room == 0 {
                break (is_kept, missed);
            }
            room /= 4;
        };
        let left_out = self.left_out.get_or_insert_default();
        let hashes = self.tree.hashes();
        for (id, node) in self.tree.nodes() {
            if !is_kept[id.0 as usize] && !node.own.is_nothing() {
                left_out.figures += node.own;
                left_out.all.add(hashes[id.0 as usize]);
            }
        }
        let numbers = self.tree.keep(&is_kept, missed);
        for live in self.stack_of.iter_mut().flatten() {
            *live = numbers[live.0 as usize].expect("what is live is kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::Count;

    /// What a thread does next.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Call(u32),
        Return,
        Load(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0..5u32).prop_map(Step::Call),
            2 => Just(Step::Return),
            3 => (0..9u32).prop_map(Step::Load),
        ];
        proptest::collection::vec(step, 0..800)
    }

    /// Several instructions are of one function, and some have another one inlined.
    fn names(code: CodeId) -> Vec<&'static str> {
        let own = ["walk", "look", "count"][code.0 as usize % 3];
        if code.0.is_multiple_of(4) { vec![own, "inner"] } else { vec![own] }
    }

    fn functions(code: CodeId) -> Vec<CalledFunction> {
        let named = |name: &str| CalledFunction {
            function: name.into(),
            file: None,
            line: None,
            module: None,
            is_inlined: false,
        };
        names(code).into_iter().map(named).collect()
    }

    /// Accesses of a stack, and whether there are any of deeper recursion.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Expected {
        loads: u64,
        is_folded: bool,
    }

    /// Sites that were called, outermost first, and whether more were that are folded into these.
    #[derive(Clone, Default)]
    struct Frame {
        sites: Vec<u32>,
        is_folded: bool,
    }

    /// All stacks, whole: a site that stands eight times in one is not entered again.
    fn model(steps: &[Step]) -> HashMap<Vec<Arc<str>>, Expected> {
        let mut frames = vec![Frame::default()];
        let mut counts: HashMap<Vec<Arc<str>>, Expected> = HashMap::new();
        for step in steps {
            let frame = frames.last().expect("the outermost stays");
            match *step {
                Step::Call(site) => {
                    let mut called = frame.clone();
                    if frame.sites.iter().filter(|other| **other == site).count() < 8 {
                        called.sites.push(site);
                    } else {
                        let last = frame.sites.iter().rposition(|other| *other == site);
                        called.sites.truncate(last.expect("it stands there") + 1);
                        called.is_folded = true;
                    }
                    frames.push(called);
                }
                Step::Return if frames.len() > 1 => drop(frames.pop()),
                Step::Return => {}
                Step::Load(code) => {
                    let codes = frame.sites.iter().chain([&code]);
                    let stack = codes.flat_map(|code| names(CodeId(*code))).map(Arc::from).collect();
                    let expected = counts.entry(stack).or_default();
                    expected.loads += 1;
                    expected.is_folded |= frame.is_folded;
                }
            }
        }
        counts
    }

    fn sum(sums: &mut StackSums, contexts: &mut Contexts, stack: &mut [ContextId], held: &mut Vec<Tallied>) {
        sums.place(contexts, &functions);
        for tallied in held.drain(..) {
            sums.add(&tallied, &functions);
        }
        if sums.is_full(contexts) {
            let numbers = contexts.keep(stack.iter().copied());
            for live in stack {
                *live = numbers[live.0 as usize].expect("it is live");
            }
            sums.renumber(&numbers);
        }
    }

    fn pass(steps: &[Step], sums: &mut StackSums) {
        let mut contexts = Contexts::default();
        let mut stack = vec![contexts.root(EnteredBy::Begin)];
        let mut held = Vec::new();
        for step in steps {
            let context = *stack.last().expect("the outermost stays");
            match *step {
                Step::Call(site) => stack.push(contexts.child(context, CodeId(site))),
                Step::Return if stack.len() > 1 => drop(stack.pop()),
                Step::Return => {}
                Step::Load(code) => {
                    let count = Count { loads: 1, bytes: 8, ..Count::default() };
                    let code = CodeId(code);
                    held.push(Tallied { context, code, count, allocations: 0, allocated_bytes: 0 });
                }
            }
            if sums.is_due(held.len(), &contexts) {
                sum(sums, &mut contexts, &mut stack, &mut held);
            }
        }
        sum(sums, &mut contexts, &mut stack, &mut held);
    }

    fn check(steps: &[Step], limits: StackLimits, min_share: f64) {
        let mut sums = StackSums::new(limits);
        pass(steps, &mut sums);
        let was_left_out = sums.is_incomplete();
        if was_left_out {
            sums.count_frequent(min_share);
            pass(steps, &mut sums);
        }
        let counted = sums.counted(min_share);
        let least = counted.least;
        let rows = counted.all_rows();
        let mut expected = model(steps);
        let all: u64 = expected.values().map(|expected| expected.loads).sum();
        assert!(was_left_out || least <= (min_share * all as f64).ceil() as u64);
        let mut shown = 0;
        for row in &rows.rows {
            let mut stack: Vec<Arc<str>> = rows.functions(row).cloned().collect();
            stack.reverse();
            let expected = expected.remove(&stack).expect("there is such a stack, once");
            let count = row.figures.count;
            assert_eq!((count.loads, count.bytes), (expected.loads, 8 * expected.loads), "{stack:?}");
            assert!(row.is_folded || !expected.is_folded, "{stack:?}");
            shown += count.loads;
        }
        // What is left is rare, and its sum is told.
        assert!(expected.values().all(|rare| rare.loads < least), "{least}: {expected:?}");
        let summed = rows.summed.unwrap_or_default();
        assert_eq!(shown + summed.figures.count.loads, all);
        if was_left_out {
            // Stacks that share a register are what an estimate of so few misses: five times its standard error.
            let error = summed.stacks.abs_diff(expected.len() as u64);
            assert!(error <= 6 + expected.len() as u64 / 40, "{} of {}", summed.stacks, expected.len());
        } else {
            assert_eq!((summed.stacks, summed.is_estimated), (expected.len() as u64, false));
        }
    }

    proptest! {
        #[test]
        fn rows_are_those_of_whole_stacks(steps in steps(), room in 1..400usize, share in 0..40u32) {
            let limits = StackLimits { pairs: room / 2, contexts: room, stacks: room };
            check(&steps, limits, f64::from(share) / 1000.0);
            check(&steps, StackLimits::default(), f64::from(share) / 1000.0);
        }
    }

    #[test]
    fn the_tree_does_not_grow_with_the_trace() {
        // Always other stacks of three calls: some thousands.
        let turn = |turn: u32| {
            let calls = [turn % 97, turn % 89, turn % 83].map(Step::Call);
            calls.into_iter().chain([Step::Load(turn % 9)]).chain([Step::Return; 3])
        };
        let steps: Vec<Step> = (0..5000).flat_map(turn).collect();
        let limits = StackLimits { pairs: 50, contexts: 40, stacks: 100 };
        let mut sums = StackSums::new(limits);
        pass(&steps, &mut sums);
        // And what is added at once: of each pair and each context as many as an instruction has functions.
        assert!(sums.tree.len() <= 100 + 2 * (50 + 40) + 10, "{}", sums.tree.len());
        assert!(sums.is_incomplete());
        check(&steps, limits, 0.001);
    }

    #[test]
    fn a_stack_that_was_left_out_and_comes_back_is_counted_from_the_beginning() {
        let once = |site: u32| [Step::Call(site), Step::Load(1), Step::Return];
        let mut steps: Vec<Step> = once(1).into_iter().collect();
        for turn in 0..200 {
            steps.extend([
                Step::Call(turn % 5),
                Step::Call(turn % 3),
                Step::Call(turn % 2),
                Step::Load(turn % 9),
            ]);
            steps.extend([Step::Return; 3]);
        }
        steps.extend((0..100).flat_map(|_| once(1)));
        check(&steps, StackLimits { pairs: 1, contexts: 4, stacks: 4 }, 0.1);
    }
}

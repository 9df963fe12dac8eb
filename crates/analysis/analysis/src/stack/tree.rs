//! Stacks of functions as a tree: a stack is the stack of its caller plus a function. Calls from one caller to functions of the
//! same name are one node, however many call instructions there are. Functions and modules are numbers until they are shown.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Count;

/// A stack of functions: a number in a [`StackTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(super) u32);

impl StackId {
    /// Where all stacks begin: no function yet.
    pub const BEGIN: Self = Self(0);
}

/// What happened in a stack, not counting what happened in functions that these called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackFigures {
    /// Accesses.
    pub count: Count,
    /// Calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

impl StackFigures {
    /// Whether nothing happened.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for StackFigures {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
    }
}

/// A function as a stack shows it, and its module: numbers of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackFunction {
    name: u32,
    module: u32,
}

/// A function in its callers.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackNode {
    parent: StackId,
    function: StackFunction,
    /// Whether deeper recursion was folded into a call that it makes.
    folds: bool,
    /// Accesses that it had at most before it came, where stacks were left out by then.
    pub(super) missed: u64,
    pub(super) own: StackFigures,
}

impl StackNode {
    /// Accesses that it had at most.
    pub(super) fn most(&self) -> u64 {
        self.missed + self.own.count.accesses()
    }
}

/// What tells the callees of a stack apart: functions of several modules may have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Callee {
    parent: StackId,
    name: u32,
}

/// Texts, each a number.
#[derive(Clone, Debug, Default)]
struct Texts {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Texts {
    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        self.all.push(Arc::clone(text));
        let number = self.all.len() as u32 - 1;
        self.numbers.insert(Arc::clone(text), number);
        number
    }
}

/// Of functions that lie in no module.
const NO_MODULE: u32 = u32::MAX;

/// All stacks, a caller's before its callees'.
#[derive(Clone, Debug)]
pub struct StackTree {
    names: Texts,
    modules: Texts,
    nodes: Vec<StackNode>,
    callees: FxHashMap<Callee, StackId>,
    /// Of functions that lie in several modules, all but the first.
    more_modules: FxHashMap<StackId, BTreeSet<u32>>,
    /// What a stack that comes now may have missed.
    missed: u64,
}

impl Default for StackTree {
    fn default() -> Self {
        let function = StackFunction { name: u32::MAX, module: NO_MODULE };
        let own = StackFigures::default();
        let begin = StackNode { parent: StackId::BEGIN, function, folds: false, missed: 0, own };
        Self {
            names: Texts::default(),
            modules: Texts::default(),
            nodes: vec![begin],
            callees: FxHashMap::default(),
            more_modules: FxHashMap::default(),
            missed: 0,
        }
    }
}

impl StackTree {
    /// The stack of a function that another stack calls.
    pub fn callee(&mut self, caller: StackId, name: &Arc<str>, module: Option<&Arc<str>>) -> StackId {
        let function = self.function(name, module);
        self.enter(caller, function)
    }

    /// Adds what happened in a stack.
    pub fn add(&mut self, stack: StackId, figures: StackFigures) {
        self.nodes[stack.0 as usize].own += figures;
    }

    pub(super) fn function(&mut self, name: &Arc<str>, module: Option<&Arc<str>>) -> StackFunction {
        let module = module.map_or(NO_MODULE, |module| self.modules.number(module));
        StackFunction { name: self.names.number(name), module }
    }

    pub(super) fn enter(&mut self, parent: StackId, function: StackFunction) -> StackId {
        let StackFunction { name, module } = function;
        let id = *self.callees.entry(Callee { parent, name }).or_insert_with(|| {
            let own = StackFigures::default();
            self.nodes.push(StackNode { parent, function, folds: false, missed: self.missed, own });
            StackId(self.nodes.len() as u32 - 1)
        });
        if self.nodes[id.0 as usize].function.module != module && module != NO_MODULE {
            self.more_modules.entry(id).or_default().insert(module);
        }
        id
    }

    /// The same, where there is that stack.
    pub(super) fn entered(&self, parent: StackId, function: StackFunction) -> Option<StackId> {
        self.callees.get(&Callee { parent, name: function.name }).copied()
    }

    /// Deeper recursion was folded into a call that is made there.
    pub(super) fn set_folds(&mut self, caller: StackId) {
        self.nodes[caller.0 as usize].folds = true;
    }

    /// Whether accesses of deeper recursion may be counted in each: in whatever is called where recursion was folded.
    pub(super) fn may_hold_folded(&self) -> Vec<bool> {
        let mut may_hold: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for (id, node) in self.nodes() {
            // A caller has a lower number; all begin is its own.
            let caller = node.parent.0 as usize;
            may_hold.push(node.parent != id && (may_hold[caller] || self.nodes[caller].folds));
        }
        may_hold
    }

    /// How many there are, where all begin included.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All stacks with what happened in them.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (StackId, &StackNode)> {
        (0..).map(StackId).zip(&self.nodes)
    }

    /// The functions of a stack, innermost first.
    fn inwards(&self, stack: StackId) -> impl Iterator<Item = (StackId, StackFunction)> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            let node = &self.nodes[at.0 as usize];
            let found = (at != StackId::BEGIN).then_some((at, node.function));
            at = node.parent;
            found
        })
    }

    /// The functions of a stack, innermost first.
    pub(super) fn names(&self, stack: StackId) -> impl Iterator<Item = &Arc<str>> {
        self.inwards(stack).map(|(_, function)| &self.names.all[function.name as usize])
    }

    /// The file names of the modules of these, some more than once.
    pub(super) fn modules(&self, stack: StackId) -> impl Iterator<Item = &Arc<str>> {
        let more = |id| self.more_modules.get(&id).into_iter().flatten().copied();
        let numbers = self.inwards(stack).flat_map(move |(id, function)| more(id).chain([function.module]));
        numbers.filter_map(|number| self.modules.all.get(number as usize))
    }

    /// A hash of each stack, which depends on the numbers of its functions.
    pub(super) fn hashes(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let caller = hashes.get(node.parent.0 as usize).copied().unwrap_or_default();
            hashes.push(mixed(caller, node.function.name));
        }
        hashes
    }

    /// The place of each stack in alphabetical order, by the outermost function first.
    pub(super) fn alphabetical(&self) -> Vec<u32> {
        let mut by_text: Vec<u32> = (0..self.names.all.len() as u32).collect();
        by_text.sort_by_key(|&name| &self.names.all[name as usize]);
        let mut place_of_name = vec![0; by_text.len()];
        (0..).zip(by_text).for_each(|(place, name)| place_of_name[name as usize] = place);
        let mut callees: Vec<StackId> = (1..self.nodes.len() as u32).map(StackId).collect();
        callees.sort_unstable_by_key(|id| {
            let node = &self.nodes[id.0 as usize];
            (node.parent, place_of_name[node.function.name as usize])
        });
        let mut places = vec![0; self.nodes.len()];
        let mut open = vec![StackId::BEGIN];
        let mut next = 0;
        while let Some(stack) = open.pop() {
            places[stack.0 as usize] = next;
            next += 1;
            let parent = |id: &StackId| self.nodes[id.0 as usize].parent;
            let begin = callees.partition_point(|id| parent(id) < stack);
            let own = callees[begin..].iter().take_while(|id| parent(id) == stack);
            let first = open.len();
            open.extend(own);
            open[first..].reverse();
        }
        places
    }

    /// What a stack that comes now may have missed.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Marks the callers of what is marked, too. How many are marked then.
    pub(super) fn mark_callers(&self, marks: &mut [bool]) -> usize {
        marks[0] = true;
        for number in (1..self.nodes.len()).rev() {
            marks[self.nodes[number].parent.0 as usize] |= marks[number];
        }
        marks.iter().filter(|is_marked| **is_marked).count()
    }

    /// Leaves out what is not kept; callers of what is kept are. What comes later may have missed so many accesses. The new number of
    /// each that is kept.
    pub(super) fn keep(&mut self, is_kept: &[bool], missed: u64) -> Vec<Option<StackId>> {
        self.missed = missed;
        let mut numbers: Vec<Option<StackId>> = vec![None; self.nodes.len()];
        let mut next = 0;
        self.callees.clear();
        for number in (0..self.nodes.len()).filter(|&number| is_kept[number]) {
            let mut node = self.nodes[number];
            let id = StackId(next as u32);
            numbers[number] = Some(id);
            node.parent = numbers[node.parent.0 as usize].unwrap_or(StackId::BEGIN);
            if id != StackId::BEGIN {
                self.callees.insert(Callee { parent: node.parent, name: node.function.name }, id);
            }
            self.nodes[next] = node;
            next += 1;
        }
        self.nodes.truncate(next);
        let more = std::mem::take(&mut self.more_modules);
        let renumbered = |(id, modules): (StackId, _)| Some((numbers[id.0 as usize]?, modules));
        self.more_modules = more.into_iter().filter_map(renumbered).collect();
        numbers
    }

    /// Forgets what happened, and keeps the stacks.
    pub(super) fn clear_figures(&mut self) {
        self.missed = 0;
        for node in &mut self.nodes {
            (node.own, node.missed) = (StackFigures::default(), 0);
        }
    }
}

/// A hash of a stack from its caller's (the end of MurmurHash3, whose bits all depend on all).
pub(super) fn mixed(caller: u64, function: u32) -> u64 {
    let mut hash = caller.rotate_left(23) ^ (u64::from(function) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

//! Which stacks become rows of a table, and the sum of all others.

use std::cmp::Reverse;
use std::sync::Arc;

use super::tree::{StackFigures, StackId, StackTree};
use crate::Count;

/// What happened in one stack of functions, not counting what happened in functions that these called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCount {
    /// The functions, outermost first. Functions that were inlined are functions.
    pub stack: Vec<Arc<str>>,
    /// Accesses.
    pub count: Count,
    /// Calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
}

/// All that was counted of stacks.
#[derive(Clone, Debug)]
pub struct CountedStacks {
    pub(super) tree: StackTree,
    /// Stacks with fewer accesses are summed.
    pub(super) least: u64,
    /// What happened in stacks that are not in the tree.
    pub(super) left_out: Option<LeftOutStacks>,
}

/// Stacks that were left out while counting, for want of memory. Each had too few accesses to be a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOutStacks {
    /// How many they are, about.
    pub stacks: u64,
    /// What happened in all of them.
    pub figures: StackFigures,
}

/// A stack, and what happened in it.
#[derive(Clone, Copy, Debug)]
pub struct StackRow {
    stack: StackId,
    /// In alphabetical order.
    place: u32,
    /// What happened, all of it.
    pub figures: StackFigures,
    /// Whether what deeper recursion did may be counted here, too.
    pub is_folded: bool,
}

/// Stacks each of which had too few accesses to be a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SummedStacks {
    /// How many.
    pub stacks: u64,
    /// Whether that is known to one or two percent only. All else is exact.
    pub is_estimated: bool,
    /// Each of them has fewer accesses.
    pub below: u64,
    /// What happened in all of them.
    pub figures: StackFigures,
}

/// The rows of a table of stacks.
#[derive(Clone, Debug)]
pub struct StackRows {
    tree: StackTree,
    /// Those with most accesses first, of equals in alphabetical order.
    pub rows: Vec<StackRow>,
    /// The other stacks, where there are any.
    pub summed: Option<SummedStacks>,
    /// Stacks of which nobody knows whether they were wanted.
    pub unknown: Option<LeftOutStacks>,
}

impl CountedStacks {
    /// What was counted of a tree; all stacks with at least such a share of the accesses are rows.
    pub fn of(tree: StackTree, min_share: f64) -> Self {
        let mut all = StackFigures::default();
        tree.nodes().for_each(|(_, node)| all += node.own);
        Self { tree, least: least(min_share, all), left_out: None }
    }

    /// The stacks in which something happened, but for those that were left out.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> {
        self.tree.nodes().filter(|(_, node)| !node.own.is_nothing()).map(|(id, _)| id)
    }

    /// The functions of a stack, innermost first.
    pub fn functions(&self, stack: StackId) -> impl Iterator<Item = &Arc<str>> {
        self.tree.names(stack)
    }

    /// The file names of their modules, some more than once.
    pub fn modules(&self, stack: StackId) -> impl Iterator<Item = &Arc<str>> {
        self.tree.modules(stack)
    }

    /// Rows of all stacks.
    pub fn all_rows(self) -> StackRows {
        let below = self.least;
        let mut rows = self.rows(|_, _| true);
        if let Some(left_out) = rows.unknown.take() {
            let summed = rows.summed.get_or_insert(SummedStacks { below, ..SummedStacks::default() });
            summed.stacks += left_out.stacks;
            summed.is_estimated = true;
            summed.figures += left_out.figures;
        }
        rows
    }

    /// Rows of the stacks that are wanted, and the sum of the rare ones of them.
    pub fn rows(self, is_wanted: impl Fn(&Self, StackId) -> bool) -> StackRows {
        let places = self.tree.alphabetical();
        let folded = self.tree.may_hold_folded();
        let mut rows = Vec::new();
        let mut summed = SummedStacks { below: self.least, ..SummedStacks::default() };
        for (stack, node) in self.tree.nodes() {
            if node.own.is_nothing() || !is_wanted(&self, stack) {
                continue;
            }
            if node.own.count.accesses() < self.least {
                summed.stacks += 1;
                summed.figures += node.own;
                continue;
            }
            let place = places[stack.0 as usize];
            rows.push(StackRow { stack, place, figures: node.own, is_folded: folded[stack.0 as usize] });
        }
        rows.sort_unstable_by_key(|row| (Reverse(row.figures.count.accesses()), row.place));
        let summed = (summed.stacks > 0).then_some(summed);
        StackRows { rows, summed, unknown: self.left_out, tree: self.tree }
    }
}

impl StackRows {
    /// The functions of a row, innermost first.
    pub fn functions(&self, row: &StackRow) -> impl Iterator<Item = &Arc<str>> {
        self.tree.names(row.stack)
    }

    /// Sorts by the functions, the outermost first.
    pub fn sort_by_name(&mut self) {
        self.rows.sort_unstable_by_key(|row| row.place);
    }

    /// All of it with names. The rare ones are a row, too.
    pub fn named(&self) -> Vec<StackCount> {
        let named = |figures: &StackFigures, stack| {
            let StackFigures { count, allocations, allocated_bytes } = *figures;
            StackCount { stack, count, allocations, allocated_bytes }
        };
        let rows = self.rows.iter().map(|row| {
            let mut stack: Vec<Arc<str>> = self.functions(row).cloned().collect();
            stack.reverse();
            named(&row.figures, stack)
        });
        let summed = self.summed.iter().map(|summed| named(&summed.figures, vec![SummedStacks::NAME.into()]));
        rows.chain(summed).collect()
    }
}

impl SummedStacks {
    /// What stands for their functions where a stack is a list of names.
    pub const NAME: &'static str = "[rare stacks]";
}

/// The accesses that such a share of all is, at least. Where that is one access, nothing is rare.
pub(super) fn least(min_share: f64, all: StackFigures) -> u64 {
    let least = (min_share * all.count.accesses() as f64).ceil() as u64;
    if least <= 1 { 0 } else { least }
}

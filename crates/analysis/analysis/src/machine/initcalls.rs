//! What the parts of the kernel did to initialise themselves: Linux calls one function of each by `do_one_initcall`.

use std::collections::BTreeMap;

use super::calls::{GuestCallTree, GuestTotal};
use super::symbols::GuestSymbols;

/// Linux's function that calls them.
const CALLER: &str = "do_one_initcall";
/// Beginnings of the names of what else runs in it: whether one is not to be called, what tells of them, interrupts.
const OTHERS: [&str; 4] = ["initcall_blacklisted", "trace_initcall_", "do_trace_initcall_", "asm_"];

/// One of them, with all that it called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initcall {
    /// Its name. Of those that access nothing before they jump to another function, that one's: they have one row together.
    pub name: String,
    /// Whether it may be another function's, which jumped to this one.
    pub may_jump: bool,
    /// What it did, interrupts meanwhile included.
    pub total: GuestTotal,
}

/// Those that a tree of calls has, the one with most instructions first.
pub fn initcalls(tree: &GuestCallTree, symbols: &GuestSymbols) -> Vec<Initcall> {
    let totals = tree.totals();
    let mut by_name: BTreeMap<&str, GuestTotal> = BTreeMap::new();
    for (node, total) in tree.nodes.iter().zip(&totals).skip(1) {
        // One that is called inside of another, by loading a module, is part of it.
        let is_other = OTHERS.iter().any(|other| node.name.starts_with(other));
        if &*tree.nodes[node.caller as usize].name == CALLER && !is_other && !is_inside(tree, node.caller) {
            *by_name.entry(&node.name).or_default() += *total;
        }
    }
    // They themselves are needed only once, and stand where they can be thrown away.
    let of_start = symbols.names_of_start();
    let is_of_start = |name: &str| of_start.as_ref().is_none_or(|names| names.contains(name));
    let row = |(name, total): (&str, GuestTotal)| Initcall {
        name: name.to_owned(),
        // A module's is told from the others by the module's name.
        may_jump: !name.ends_with(']') && !is_of_start(name),
        total,
    };
    let mut rows: Vec<Initcall> = by_name.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total.instructions));
    rows
}

/// Whether a call was made, farther out, by the function that calls all of them.
fn is_inside(tree: &GuestCallTree, mut node: u32) -> bool {
    while node != 0 {
        node = tree.nodes[node as usize].caller;
        if &*tree.nodes[node as usize].name == CALLER {
            return true;
        }
    }
    false
}

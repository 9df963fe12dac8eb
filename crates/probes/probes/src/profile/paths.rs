//! A thread's tree of call paths: who called whom, where both were measured.
//!
//! It is a hash table of (parent, function), small at first, so that it stays in the processor's caches, and doubled
//! when half full. At a fixed number of nodes, further paths are merged into their parent and counted as such.

use super::strata::{Factors, LONG_TICKS};
use patch::arena;

const NODES: usize = 1 << 16;
const FIRST_SLOTS: usize = 1 << 11;

/// A node. Node 0 is the root.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node {
    /// The caller's node.
    pub parent: u32,
    /// The function.
    pub function: u32,
    /// Measured calls.
    pub calls: u64,
    /// Their ticks.
    pub total_ticks: u64,
    /// Those of them that are of long calls ([`super::strata::LONG_TICKS`]).
    pub long_ticks: u64,
    /// Their ticks outside measured callees.
    pub self_ticks: u64,
    /// What `scaled_ticks` stands for of `total_ticks` and `long_ticks`. Written by the epoch thread, as the next.
    settled_ticks: u64,
    settled_long_ticks: u64,
    /// The latencies of all calls.
    scaled_ticks: f64,
}

impl Node {
    /// The latencies of all calls, if those that were measured since the last stratum stand for as many as `factors` say.
    #[must_use]
    pub fn scaled_ticks(&self, factors: Factors) -> f64 {
        let total = self.total_ticks.saturating_sub(self.settled_ticks);
        let long = self.long_ticks.saturating_sub(self.settled_long_ticks);
        self.scaled_ticks + factors.scale(total, long)
    }
}

fn place(parent: u32, function: u32) -> usize {
    let key = u64::from(parent) << 32 | u64::from(function);
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

/// The tree.
pub struct Paths {
    nodes: *mut Node,
    /// Node numbers by hash; 0: free.
    slots: *mut u32,
    /// How many slots, less one; a power of two less one.
    mask: usize,
    count: usize,
    /// Calls whose path had no room.
    pub overflowed: u64,
}

impl Paths {
    pub(crate) fn new() -> Option<Self> {
        let nodes = arena::map_anonymous(NODES * size_of::<Node>())? as *mut Node;
        let slots = arena::map_anonymous(FIRST_SLOTS * 4)? as *mut u32;
        Some(Self { nodes, slots, mask: FIRST_SLOTS - 1, count: 1, overflowed: 0 })
    }

    /// The nodes, the root first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        // SAFETY: `count` nodes were written, inside the mapping.
        unsafe { std::slice::from_raw_parts(self.nodes, self.count) }
    }

    /// The node of `function` below `parent`.
    #[inline]
    pub fn child(&mut self, parent: u32, function: u32) -> u32 {
        let mut at = place(parent, function);
        loop {
            // SAFETY: the index is at most the mask; node numbers in slots are below `count`.
            let (slot, node) = unsafe {
                let slot = self.slots.add(at & self.mask);
                (slot, &*self.nodes.add(*slot as usize))
            };
            // SAFETY: the index is at most the mask.
            let number = unsafe { *slot };
            if number == 0 {
                break self.add_node(slot, parent, function);
            }
            if (node.parent, node.function) == (parent, function) {
                break number;
            }
            at += 1;
        }
    }

    /// Twice the slots, unless memory is out. The old ones stay mapped: half of the new ones' size in all.
    fn grow(&mut self) {
        let count = 2 * (self.mask + 1);
        let Some(slots) = arena::map_anonymous(count * 4) else { return };
        (self.slots, self.mask) = (slots as *mut u32, count - 1);
        for number in 1..self.count {
            let node = self.nodes()[number];
            let mut at = place(node.parent, node.function);
            // SAFETY: the index is at most the mask, and a slot is free: there are twice as many as nodes.
            unsafe {
                while *self.slots.add(at & self.mask) != 0 {
                    at += 1;
                }
                *self.slots.add(at & self.mask) = number as u32;
            }
        }
    }

    #[cold]
    fn add_node(&mut self, slot: *mut u32, parent: u32, function: u32) -> u32 {
        // Where it could not grow, half of its slots are free all the same.
        if self.count == NODES || 2 * self.count > self.mask {
            self.overflowed += 1;
            return parent;
        }
        let number = self.count as u32;
        let node = Node {
            parent,
            function,
            calls: 0,
            total_ticks: 0,
            long_ticks: 0,
            self_ticks: 0,
            settled_ticks: 0,
            settled_long_ticks: 0,
            scaled_ticks: 0.0,
        };
        // SAFETY: `count` is below NODES; the slot is one of ours.
        unsafe {
            self.nodes.add(self.count).write(node);
            *slot = number;
        }
        self.count += 1;
        if 2 * self.count > self.mask && self.count < NODES {
            self.grow();
        }
        number
    }

    /// Adds a measured call.
    #[inline]
    pub fn add(&mut self, node: u32, total_ticks: u64, self_ticks: u64) {
        // SAFETY: node numbers come from `child` and stay below `count`.
        let node = unsafe { &mut *self.nodes.add(node as usize) };
        node.calls += 1;
        node.total_ticks += total_ticks;
        node.long_ticks += if total_ticks >= LONG_TICKS { total_ticks } else { 0 };
        node.self_ticks += self_ticks;
    }

    /// Scales what was measured since the last time, each node by its function's factors. To be called by the epoch thread.
    pub(super) fn settle(&self, factors: impl Fn(u32) -> Option<Factors>) {
        for number in 1..self.count {
            // SAFETY: below `count`. Its thread writes other words of the node meanwhile.
            unsafe {
                let node = self.nodes.add(number);
                if let Some(factors) = factors((*node).function) {
                    let now = node.read_volatile();
                    (*node).scaled_ticks = now.scaled_ticks(factors);
                    ((*node).settled_ticks, (*node).settled_long_ticks) = (now.total_ticks, now.long_ticks);
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        for number in 1..self.count {
            // SAFETY: below `count`. The tree stays: frames under way refer to it.
            let node = unsafe { &mut *self.nodes.add(number) };
            *node = Node { calls: 0, total_ticks: 0, long_ticks: 0, self_ticks: 0, ..*node };
            *node = Node { settled_ticks: 0, settled_long_ticks: 0, scaled_ticks: 0.0, ..*node };
        }
        self.overflowed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn nodes_are_found_again_through_all_sizes() {
        let mut paths = Paths::new().unwrap();
        let mut model: HashMap<(u32, u32), u32> = HashMap::new();
        let mut parents = vec![0];
        for step in 0..20_000u32 {
            let parent = parents[step as usize * 7 % parents.len()];
            let function = step % 13;
            let number = paths.child(parent, function);
            let expect = *model.entry((parent, function)).or_insert(number);
            assert_eq!(number, expect, "step {step}");
            parents.push(number);
        }
        assert_eq!(paths.nodes().len(), model.len() + 1);
        for ((parent, function), number) in &model {
            assert_eq!(paths.child(*parent, *function), *number);
        }
        assert_eq!(paths.overflowed, 0);
    }

    #[test]
    fn paths_beyond_the_most_are_joined_to_their_parent() {
        let mut paths = Paths::new().unwrap();
        let mut parent = 0;
        for _ in 0..NODES + 10 {
            parent = paths.child(parent, 1);
        }
        assert_eq!(paths.nodes().len(), NODES);
        assert!(paths.overflowed > 0);
    }
}

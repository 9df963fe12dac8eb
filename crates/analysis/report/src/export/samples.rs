//! What profiles have that say with numbers what each sample is: its values, its stack of places, and texts.

use std::collections::HashMap;

use super::{CallTree, TreeCount, TreeLine};

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The function's number in the tree.
    pub(super) function: u32,
    pub(super) line: TreeLine,
}

/// Places, each with a number, from 1 on.
#[derive(Default)]
pub(super) struct Places {
    all: Vec<Place>,
    number_of: HashMap<Place, u64>,
}

impl Places {
    fn number(&mut self, place: Place) -> u64 {
        *self.number_of.entry(place).or_insert_with(|| {
            self.all.push(place);
            self.all.len() as u64
        })
    }

    /// All of them, in the order of their numbers.
    pub(super) fn all(&self) -> &[Place] {
        &self.all
    }
}

/// What happened in one stack.
pub(super) struct Sample<'a> {
    /// The numbers of the places, innermost first: the line there, then the line of each call.
    pub(super) stack: Vec<u64>,
    pub(super) count: &'a TreeCount,
}

/// The samples of a tree: one for each stack and line.
pub(super) fn samples<'a>(tree: &'a CallTree, places: &mut Places) -> Vec<Sample<'a>> {
    let mut all = Vec::new();
    for (index, node) in tree.nodes.iter().enumerate() {
        for (line, count) in &node.lines {
            let mut stack = vec![places.number(Place { function: node.function, line: *line })];
            let mut at = index;
            while at != 0 {
                let (parent, call) = (tree.nodes[at].parent as usize, tree.nodes[at].call);
                if parent != 0 {
                    let function = tree.nodes[parent].function;
                    stack.push(places.number(Place { function, line: call }));
                }
                at = parent;
            }
            all.push(Sample { stack, count });
        }
    }
    all
}

/// What the values of a sample are: name and unit.
pub(super) const VALUES: [(&str, &str); 8] = [
    ("accesses", "count"),
    ("loads", "count"),
    ("stores", "count"),
    ("modifies", "count"),
    ("accessed", "bytes"),
    ("allocations", "count"),
    ("allocated", "bytes"),
    ("inuse_space", "bytes"),
];

pub(super) fn values(count: &TreeCount) -> [u64; 8] {
    let accesses = &count.count;
    [
        accesses.accesses(),
        accesses.loads,
        accesses.stores,
        accesses.modifies,
        accesses.bytes,
        count.allocations,
        count.allocated_bytes,
        count.live_bytes,
    ]
}

/// Texts, each written once; the first is empty.
pub(super) struct Texts {
    all: Vec<String>,
    number_of: HashMap<String, u64>,
}

impl Texts {
    pub(super) fn new() -> Self {
        let mut texts = Self { all: Vec::new(), number_of: HashMap::new() };
        texts.number("");
        texts
    }

    /// All of them, in the order of their numbers.
    pub(super) fn all(&self) -> &[String] {
        &self.all
    }

    pub(super) fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.number_of.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.number_of.insert(text.to_owned(), number);
        number
    }
}

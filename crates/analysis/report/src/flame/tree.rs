//! The tree of a flame graph for one figure. Calls of one function by another are merged, wherever they were made.

use std::collections::HashMap;
use std::sync::Arc;

use analysis::Session;
use analysis::machine::Machine;

use crate::export::{CallTree, Measure};

/// More nodes than these are joined, the smallest first: a file for a browser must not hold millions.
const MAX_NODES: usize = 40_000;

const LEGEND: &str = "Orange: the program's own functions; blue: of libraries; grey: no function.";
const MACHINE_LEGEND: &str = "Orange: the kernel's functions; blue: programs; grey: no function.";

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The program's.
    Program,
    /// A library's.
    Library,
    /// No function: all, a signal, another stack, what is not known.
    Other,
}

/// A function below its callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameNode {
    /// Its name, whole.
    pub name: Arc<str>,
    /// Whose code it is.
    pub kind: FrameKind,
    /// What happened in it itself.
    pub own: u64,
    /// What happened in it and in what it called.
    pub total: u64,
    /// What it called, most first.
    pub children: Vec<FlameNode>,
}

/// A flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameGraph {
    /// The program with its arguments.
    pub title: String,
    /// What the widths are: `accesses`.
    pub unit: &'static str,
    /// What the colours mean.
    pub legend: &'static str,
    /// What stands for the whole.
    pub root: FlameNode,
}

/// A node while its children are looked for by name.
struct Merged {
    function: u32,
    parent: usize,
    own: u64,
    total: u64,
}

impl FlameGraph {
    /// Takes one figure of a tree of calls.
    pub fn of(session: &Session, tree: &CallTree, measure: Measure) -> Self {
        let kind = |function: u32| match &tree.functions[function as usize] {
            function if function.module.is_none() => FrameKind::Other,
            function if function.is_library() => FrameKind::Library,
            _ => FrameKind::Program,
        };
        let merged = merge(tree, measure);
        let mut graph = Self {
            title: crate::title(session).to_owned(),
            unit: measure.unit(),
            legend: if Machine::of(session).is_some() { MACHINE_LEGEND } else { LEGEND },
            root: FlameNode {
                name: "all".into(),
                kind: FrameKind::Other,
                own: 0,
                total: 0,
                children: Vec::new(),
            },
        };
        // A node comes after its parent: built from the last one, each has its children when it is put into its own parent.
        let mut nodes: Vec<Option<FlameNode>> = merged
            .iter()
            .map(|node| {
                let name = Arc::clone(&tree.functions[node.function as usize].name);
                let (own, total) = (node.own, node.total);
                Some(FlameNode { name, kind: kind(node.function), own, total, children: Vec::new() })
            })
            .collect();
        for index in (1..nodes.len()).rev() {
            let Some(mut node) = nodes[index].take().filter(|node| node.total > 0) else { continue };
            node.arrange();
            if let Some(parent) = &mut nodes[merged[index].parent] {
                parent.children.push(node);
            }
        }
        if let Some(Some(root)) = nodes.into_iter().next() {
            graph.root = FlameNode { name: "all".into(), ..root };
            graph.root.arrange();
        }
        graph
    }

    /// Each stack of functions in which something happened itself, outermost function first, with how much.
    pub fn stacks(&self) -> Vec<(Vec<Arc<str>>, u64)> {
        let mut stacks = Vec::new();
        // What is at the root itself has no function.
        let mut open: Vec<(&FlameNode, Vec<Arc<str>>)> =
            self.root.children.iter().rev().map(|node| (node, vec![Arc::clone(&node.name)])).collect();
        if self.root.own > 0 {
            stacks.push((vec![Arc::clone(&self.root.name)], self.root.own));
        }
        while let Some((node, stack)) = open.pop() {
            for child in node.children.iter().rev() {
                let mut below = stack.clone();
                below.push(Arc::clone(&child.name));
                open.push((child, below));
            }
            if node.own > 0 {
                stacks.push((stack, node.own));
            }
        }
        stacks
    }

    /// The same with at most so many nodes that a browser can hold them: the smallest callees of a function are one node.
    pub(super) fn simplified(&self) -> Self {
        let mut totals = Vec::new();
        self.root.visit(&mut |node| totals.push(node.total));
        let mut graph = self.clone();
        if totals.len() > MAX_NODES {
            totals.sort_unstable_by(|a, b| b.cmp(a));
            graph.root.join_below(totals[MAX_NODES]);
        }
        graph
    }
}

impl FlameNode {
    /// Most first; of equals in alphabetical order.
    fn arrange(&mut self) {
        self.children.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    }

    /// This node and all below it, a node before what it called.
    pub fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a FlameNode)) {
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            see(node);
            open.extend(node.children.iter().rev());
        }
    }

    fn join_below(&mut self, least: u64) {
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            let first = node.children.partition_point(|child| child.total > least);
            let small = node.children.split_off(first);
            let total = small.iter().map(|child| child.total).sum();
            if total > 0 {
                let name = format!("[{} smaller]", crate::grouped(small.len() as u64)).into();
                node.children.push(FlameNode {
                    name,
                    kind: FrameKind::Other,
                    own: total,
                    total,
                    children: Vec::new(),
                });
                node.arrange();
            }
            open.extend(node.children.iter_mut());
        }
    }
}

/// Joins nodes of one function below the same callers.
fn merge(tree: &CallTree, measure: Measure) -> Vec<Merged> {
    let mut merged = vec![Merged { function: 0, parent: 0, own: 0, total: 0 }];
    let mut of: HashMap<(usize, u32), usize> = HashMap::new();
    let mut place = vec![0; tree.nodes.len()];
    for (index, node) in tree.nodes.iter().enumerate() {
        if index > 0 {
            let parent = place[node.parent as usize];
            place[index] = *of.entry((parent, node.function)).or_insert_with(|| {
                merged.push(Merged { function: node.function, parent, own: 0, total: 0 });
                merged.len() - 1
            });
        }
        merged[place[index]].own += measure.of(&node.own());
    }
    for index in (0..merged.len()).rev() {
        merged[index].total += merged[index].own;
        if index > 0 {
            let (parent, total) = (merged[index].parent, merged[index].total);
            merged[parent].total += total;
        }
    }
    merged
}

//! Contexts by the names of their functions: what is called alike in the same caller is one node, however many instructions call it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use symbols::{CodeId, Names};

use super::context::{ContextId, Contexts, EnteredBy};
use super::names::{CalledFunction, StackNames};
use super::place::CallPlace;

/// A function as a stack shows it, and its module.
type NamedFunction = (Arc<str>, Option<Arc<str>>);

/// A function in its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NamedNode {
    parent: u32,
    function: u32,
}

/// Node 0 is where all stacks begin.
const BEGIN: u32 = 0;

/// The tree of all contexts, by names.
#[derive(Debug)]
pub(super) struct NamedTree<'a> {
    names: StackNames<'a>,
    functions: Vec<NamedFunction>,
    numbers: HashMap<NamedFunction, u32>,
    /// The functions at each instruction, outermost first.
    of_code: FxHashMap<CodeId, Box<[u32]>>,
    nodes: Vec<NamedNode>,
    children: FxHashMap<NamedNode, u32>,
    of_context: Vec<u32>,
}

impl<'a> NamedTree<'a> {
    /// Names contexts. Reads debug information.
    pub(super) fn new(names: &'a Names, contexts: &'a Contexts) -> Self {
        let mut tree = Self {
            names: StackNames::new(names, contexts),
            functions: Vec::new(),
            numbers: HashMap::new(),
            of_code: FxHashMap::default(),
            nodes: vec![NamedNode { parent: BEGIN, function: 0 }],
            children: FxHashMap::default(),
            of_context: Vec::with_capacity(contexts.len()),
        };
        // A caller's context has a lower number.
        for number in 0..contexts.len() as u32 {
            let Some(context) = contexts.get(ContextId(number)) else { break };
            let parent = tree.of_context.get(context.parent.0 as usize).copied().unwrap_or(BEGIN);
            let node = match context.entry {
                EnteredBy::Call(code) => tree.enter(parent, code),
                EnteredBy::Begin => BEGIN,
                root => {
                    let function = tree.number((root.to_string().into(), None));
                    tree.child(BEGIN, function)
                }
            };
            tree.of_context.push(node);
        }
        tree
    }

    /// The node of the functions at an instruction, in a context.
    pub(super) fn node(&mut self, place: CallPlace) -> u32 {
        let context = self.of_context.get(place.context.0 as usize).copied().unwrap_or(BEGIN);
        self.enter(context, place.code)
    }

    /// The functions of a node, outermost first, and their modules.
    pub(super) fn stack(&self, node: u32) -> (Vec<Arc<str>>, BTreeSet<Arc<str>>) {
        let (mut stack, mut modules) = (Vec::new(), BTreeSet::new());
        let mut at = node;
        while at != BEGIN {
            let NamedNode { parent, function } = self.nodes[at as usize];
            let (function, module) = &self.functions[function as usize];
            stack.push(Arc::clone(function));
            modules.extend(module.clone());
            at = parent;
        }
        stack.reverse();
        (stack, modules)
    }

    fn enter(&mut self, parent: u32, code: CodeId) -> u32 {
        if !self.of_code.contains_key(&code) {
            let functions = self.names.functions(code);
            let numbers = functions.iter().map(|CalledFunction { function, module, .. }| {
                self.number((Arc::clone(function), module.clone()))
            });
            let numbers = numbers.collect();
            self.of_code.insert(code, numbers);
        }
        let mut node = parent;
        for index in 0..self.of_code[&code].len() {
            node = self.child(node, self.of_code[&code][index]);
        }
        node
    }

    fn number(&mut self, function: NamedFunction) -> u32 {
        if let Some(&number) = self.numbers.get(&function) {
            return number;
        }
        let number = self.functions.len() as u32;
        self.functions.push(function.clone());
        self.numbers.insert(function, number);
        number
    }

    fn child(&mut self, parent: u32, function: u32) -> u32 {
        let node = NamedNode { parent, function };
        *self.children.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        })
    }
}

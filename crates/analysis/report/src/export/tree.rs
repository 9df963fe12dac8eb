//! The call tree that profiles are written from: who called whom, from which line, and what was accessed
//! there. Flame graphs, folded stacks, callgrind and pprof all take their figures from it, so they agree.
//!
//! Counting is left to [`StackTally`]; here its contexts get names. An
//! inlined function is a child of the function that it was inlined into.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use analysis::machine::{GuestCallTree, GuestCode};
use analysis::stack::{ContextId, Contexts, EnteredBy, StackTally};
use analysis::{BlockUses, Count};
use symbols::{CodeId, Names};

/// A function as profiles show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFunction {
    /// Its name; in brackets what is no function.
    pub name: Arc<str>,
    /// The file name of the module that it lies in.
    pub module: Option<Arc<str>>,
    /// Its source file: a number in [`CallTree::files`].
    pub file: u32,
}

impl TreeFunction {
    /// Whether it is a shared library's, by the name of its file: `libc.so.6`, `_json.cpython-311-x86_64-linux-gnu.so`.
    pub fn is_library(&self) -> bool {
        let is_library = |name: &str| name.ends_with(".so") || name.contains(".so.") || name.starts_with('[');
        self.module.as_deref().is_some_and(is_library)
    }
}

/// What happened at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCount {
    /// Accesses.
    pub count: Count,
    /// Calls that allocated.
    pub allocations: u64,
    /// Bytes that they asked for.
    pub allocated_bytes: u64,
    /// Blocks of these that were never released.
    pub live_blocks: u64,
    /// Bytes of these.
    pub live_bytes: u64,
    /// Instructions, of a machine.
    pub instructions: u64,
}

impl std::ops::AddAssign for TreeCount {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.live_blocks += other.live_blocks;
        self.live_bytes += other.live_bytes;
        self.instructions += other.instructions;
    }
}

/// A line of source; 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeLine {
    /// A number in [`CallTree::files`].
    pub file: u32,
    /// Its number, from 1.
    pub line: u32,
}

/// A function below a chain of callers.
#[derive(Clone, Debug, Default)]
pub struct TreeNode {
    /// Its caller's node; the root's is its own. A node comes after its parent.
    pub parent: u32,
    /// A number in [`CallTree::functions`].
    pub function: u32,
    /// The line of the call, in the caller.
    pub call: TreeLine,
    /// How often it was called. A function that was inlined is not called.
    pub calls: u64,
    /// What happened in it, by line, without what it called.
    pub lines: BTreeMap<TreeLine, TreeCount>,
}

impl TreeNode {
    /// What happened in it, without what it called.
    pub fn own(&self) -> TreeCount {
        let mut sum = TreeCount::default();
        self.lines.values().for_each(|count| sum += *count);
        sum
    }
}

/// The tree of calls of a session.
#[derive(Clone, Debug)]
pub struct CallTree {
    /// All functions; the first stands for the whole program.
    pub functions: Vec<TreeFunction>,
    /// Source files; the first is the unknown one.
    pub files: Vec<Arc<str>>,
    /// The nodes; the first is the root.
    pub nodes: Vec<TreeNode>,
    function_of: HashMap<(Arc<str>, Option<Arc<str>>), u32>,
    file_of: HashMap<Arc<str>, u32>,
    child_of: HashMap<(u32, u32, TreeLine), u32>,
    frames_of: HashMap<CodeId, Arc<[TreeFrame]>>,
    /// Where each context was called.
    entries: Vec<TreePlace>,
}

/// A function at an instruction, and the line there.
#[derive(Clone, Copy, Debug)]
struct TreeFrame {
    function: u32,
    line: TreeLine,
}

/// A line of a node.
#[derive(Clone, Copy, Debug, Default)]
struct TreePlace {
    node: u32,
    line: TreeLine,
}

/// The root.
const ROOT: TreePlace = TreePlace { node: 0, line: TreeLine { file: 0, line: 0 } };

impl Default for CallTree {
    fn default() -> Self {
        Self::new()
    }
}

impl CallTree {
    /// A tree of nothing.
    pub fn new() -> Self {
        let mut tree = Self {
            functions: Vec::new(),
            files: vec!["".into()],
            nodes: vec![TreeNode::default()],
            function_of: HashMap::new(),
            file_of: HashMap::new(),
            child_of: HashMap::new(),
            frames_of: HashMap::new(),
            entries: Vec::new(),
        };
        tree.function("all".into(), None, 0);
        tree
    }

    /// The tree of a machine.
    pub fn of_guest(guest: &GuestCallTree) -> Self {
        let mut tree = Self::new();
        let mut places = vec![0; guest.nodes.len()];
        for (number, call) in guest.nodes.iter().enumerate() {
            if number > 0 {
                let module = match call.code {
                    GuestCode::Kernel => Some("kernel".into()),
                    GuestCode::User => Some("[user]".into()),
                    GuestCode::Owner | GuestCode::Boot => None,
                };
                let function = tree.function(Arc::clone(&call.name), module, 0);
                let caller = TreePlace { node: places[call.caller as usize], line: TreeLine::default() };
                places[number] = tree.child(caller, function);
            }
            let node = &mut tree.nodes[places[number] as usize];
            node.calls += call.calls;
            *node.lines.entry(TreeLine::default()).or_default() +=
                TreeCount { count: call.count, instructions: call.instructions, ..TreeCount::default() };
        }
        tree
    }

    /// Adds what was counted. Reads debug information.
    pub fn count(&mut self, names: &Names, tally: &StackTally) {
        self.enter(names, tally.contexts());
        // How often each context was entered: a call stores its return address.
        let mut calls = vec![0; tally.contexts().len()];
        let mut entered: BTreeSet<(ContextId, u32)> = BTreeSet::new();
        for cell in tally.tallied() {
            if let Some(context) = tally.contexts().entered(cell.context, cell.code) {
                calls[context.0 as usize] += cell.count.stores;
            }
            let (outermost, place) = self.place(names, cell.context, cell.code);
            entered.insert((cell.context, outermost));
            *self.nodes[place.node as usize].lines.entry(place.line).or_default() += TreeCount {
                count: cell.count,
                allocations: cell.allocations,
                allocated_bytes: cell.allocated_bytes,
                ..TreeCount::default()
            };
        }
        for (context, node) in entered {
            self.nodes[node as usize].calls += calls[context.0 as usize];
        }
    }

    /// Adds what was never released. Reads debug information.
    pub fn add_live(&mut self, names: &Names, uses: &BlockUses) {
        self.enter(names, uses.contexts());
        for point in uses.points() {
            let (_, place) = self.place(names, point.context, point.code);
            let line = self.nodes[place.node as usize].lines.entry(place.line).or_default();
            line.live_blocks += point.live.blocks;
            line.live_bytes += point.live.bytes;
        }
    }

    /// From now on contexts are these. Reads debug information.
    fn enter(&mut self, names: &Names, contexts: &Contexts) {
        self.entries.clear();
        for number in 0..contexts.len() {
            let Some(context) = contexts.get(ContextId(number as u32)) else { break };
            let place = match context.entry {
                EnteredBy::Begin => ROOT,
                // A context comes after its caller's.
                EnteredBy::Call(site) => self.place(names, context.parent, site).1,
                root => self.outermost(&root.to_string()),
            };
            self.entries.push(place);
        }
    }

    /// What runs at an instruction in a context: the outermost function there that is no caller, and the place of the innermost.
    fn place(&mut self, names: &Names, context: ContextId, code: CodeId) -> (u32, TreePlace) {
        let mut place = self.entries.get(context.0 as usize).copied().unwrap_or(ROOT);
        let mut outermost = None;
        for frame in self.frames(names, code).iter() {
            let node = self.child(place, frame.function);
            outermost = outermost.or(Some(node));
            place = TreePlace { node, line: frame.line };
        }
        (outermost.unwrap_or(place.node), place)
    }

    /// The functions at an instruction, outermost first: the one with the symbol, then those that were inlined there.
    fn frames(&mut self, names: &Names, code: CodeId) -> Arc<[TreeFrame]> {
        if let Some(frames) = self.frames_of.get(&code) {
            return Arc::clone(frames);
        }
        let frames: Arc<[TreeFrame]> = match names.code(code) {
            None => {
                let function = self.function("[unknown]".into(), None, 0);
                [TreeFrame { function, line: TreeLine::default() }].into()
            }
            Some(name) => {
                let calls = name.calls();
                let frame = |call: symbols::Call| {
                    let file = call.file.map_or(0, |file| self.file(file));
                    let own = || {
                        name.module
                            .as_ref()
                            .map_or_else(|| name.to_string(), |m| format!("[{m}: no symbols]"))
                    };
                    let function = call.function.unwrap_or_else(|| own().into());
                    let function = self.function(function, name.module.clone(), file);
                    TreeFrame { function, line: TreeLine { file, line: call.line.unwrap_or(0) } }
                };
                calls.into_iter().rev().map(frame).collect()
            }
        };
        self.frames_of.insert(code, Arc::clone(&frames));
        frames
    }

    fn outermost(&mut self, name: &str) -> TreePlace {
        let function = self.function(name.into(), None, 0);
        TreePlace { node: self.child(ROOT, function), line: TreeLine::default() }
    }

    fn child(&mut self, caller: TreePlace, function: u32) -> u32 {
        *self.child_of.entry((caller.node, function, caller.line)).or_insert_with(|| {
            let node = TreeNode { parent: caller.node, function, call: caller.line, ..TreeNode::default() };
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        })
    }

    fn function(&mut self, name: Arc<str>, module: Option<Arc<str>>, file: u32) -> u32 {
        let key = (Arc::clone(&name), module.clone());
        let index = *self.function_of.entry(key).or_insert_with(|| {
            self.functions.push(TreeFunction { name, module, file });
            self.functions.len() as u32 - 1
        });
        let known = &mut self.functions[index as usize].file;
        if *known == 0 {
            *known = file;
        }
        index
    }

    fn file(&mut self, name: Arc<str>) -> u32 {
        *self.file_of.entry(Arc::clone(&name)).or_insert_with(|| {
            self.files.push(name);
            self.files.len() as u32 - 1
        })
    }

    /// The functions from the outermost to that node.
    pub fn stack(&self, node: u32) -> Vec<u32> {
        let mut stack = Vec::new();
        let mut at = node;
        while at != 0 {
            let node = &self.nodes[at as usize];
            stack.push(node.function);
            at = node.parent;
        }
        stack.reverse();
        stack
    }

    /// What happened in each node and in all below it.
    pub fn inclusive(&self) -> Vec<TreeCount> {
        let mut sums: Vec<TreeCount> = self.nodes.iter().map(TreeNode::own).collect();
        for index in (1..sums.len()).rev() {
            let sum = sums[index];
            sums[self.nodes[index].parent as usize] += sum;
        }
        sums
    }

    /// Whether a node's function is one of its own callers.
    pub fn is_recursive(&self, node: u32) -> bool {
        let function = self.nodes[node as usize].function;
        let mut at = node;
        while at != 0 {
            at = self.nodes[at as usize].parent;
            if at != 0 && self.nodes[at as usize].function == function {
                return true;
            }
        }
        false
    }

    /// The innermost function at an instruction that was counted, and the line there.
    pub fn at(&self, code: CodeId) -> Option<(u32, TreeLine)> {
        self.frames_of.get(&code)?.last().map(|frame| (frame.function, frame.line))
    }
}

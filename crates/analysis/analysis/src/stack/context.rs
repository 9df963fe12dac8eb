//! The tree of calling contexts of a session.

use std::fmt;

use rustc_hash::FxHashMap;
use symbols::CodeId;

/// A calling context of the session: a number in [`Contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// How a context was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EnteredBy {
    /// It is the outermost one of a thread that is known from its beginning.
    Begin,
    /// It is the outermost one that is known: the process was attached to, or is a child that was forked by a thread of which
    /// nothing is known.
    Unknown,
    /// Events are missing from the thread before it.
    AfterGap,
    /// The kernel called it: the handler of that signal; 0 where the number was not recorded.
    Signal(u8),
    /// It runs on another stack, which was not entered by a call: a coroutine, a goroutine.
    Stack,
    /// This instruction called it.
    Call(CodeId),
}

/// As stacks show it in place of a function; nothing for what is known from its beginning, and for calls.
impl fmt::Display for EnteredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin | Self::Call(_) => Ok(()),
            Self::Unknown => f.write_str("[unknown]"),
            Self::AfterGap => f.write_str("[after a gap]"),
            Self::Signal(0) => f.write_str("[signal]"),
            Self::Signal(number) => write!(f, "[signal {number}]"),
            Self::Stack => f.write_str("[another stack]"),
        }
    }
}

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallContext {
    /// The caller's context; a root's is its own.
    pub parent: ContextId,
    /// How it was entered from there.
    pub entry: EnteredBy,
}

/// A call site that stands so often in one context is not entered again: what it calls then counts to the context that it
/// entered last. Without it `fib(35)` would have as many contexts as calls.
const MAX_TURNS: usize = 8;
/// Beyond so many contexts, every call site stands at most once in one. Who keeps only those that threads are in
/// ([`Contexts::keep`]) does not come here.
const MAX_CONTEXTS: usize = 1 << 20;
/// Deeper ones are joined with their callers' in any case.
const MAX_DEPTH: u32 = 4096;

/// All contexts, numbered in the order in which they were met.
#[derive(Clone, Debug, Default)]
pub struct Contexts {
    nodes: Vec<CallContext>,
    depths: Vec<u32>,
    roots: FxHashMap<EnteredBy, ContextId>,
    children: FxHashMap<(ContextId, CodeId), ContextId>,
    folded: u64,
    /// Whether deeper calls were folded into each.
    folds: Vec<bool>,
    /// Nobody asks: all are one.
    are_left_out: bool,
}

impl Contexts {
    /// For who does not ask for contexts: all have one number.
    pub(super) fn left_out() -> Self {
        Self { are_left_out: true, ..Self::default() }
    }

    /// How many there are; their numbers are below it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// One of them.
    pub fn get(&self, id: ContextId) -> Option<CallContext> {
        self.nodes.get(id.0 as usize).copied()
    }

    /// The context that this call enters; `None` where it was never made there.
    pub fn entered(&self, parent: ContextId, site: CodeId) -> Option<ContextId> {
        self.children.get(&(parent, site)).copied()
    }

    /// How many pairs of a context and a call were folded into a context that had made the same call before: recursion.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Those that deeper calls were folded into.
    pub(super) fn with_folded(&self) -> impl Iterator<Item = ContextId> + '_ {
        (0..).map(ContextId).zip(&self.folds).filter_map(|(id, folds)| folds.then_some(id))
    }

    /// How many contexts and calls from them are remembered.
    pub(super) fn held(&self) -> usize {
        self.nodes.len().max(self.children.len())
    }

    /// Forgets all but these and their callers; what is met again gets another number. The new number of each that is kept.
    pub(super) fn keep(&mut self, kept: impl Iterator<Item = ContextId>) -> Vec<Option<ContextId>> {
        let mut is_kept = vec![false; self.nodes.len()];
        for id in kept.chain(self.roots.values().copied()) {
            is_kept[id.0 as usize] = true;
        }
        for (number, node) in self.nodes.iter().enumerate().rev() {
            is_kept[node.parent.0 as usize] |= is_kept[number];
        }
        let old = std::mem::take(self);
        let mut numbers: Vec<Option<ContextId>> = vec![None; old.nodes.len()];
        for number in (0..old.nodes.len()).filter(|&number| is_kept[number]) {
            let CallContext { parent, entry } = old.nodes[number];
            let id = ContextId(self.nodes.len() as u32);
            numbers[number] = Some(id);
            // A root is its own.
            let parent = numbers[parent.0 as usize].unwrap_or(id);
            self.push(CallContext { parent, entry }, old.depths[number]);
            self.folds[id.0 as usize] = old.folds[number];
            match entry {
                EnteredBy::Call(site) => self.children.insert((parent, site), id),
                root => self.roots.insert(root, id),
            };
        }
        self.folded = old.folded;
        numbers
    }

    /// The contexts from this one to its root, which comes last.
    pub fn outwards(&self, id: ContextId) -> impl Iterator<Item = (ContextId, CallContext)> + '_ {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let id = next?;
            let context = self.get(id)?;
            next = (context.parent != id).then_some(context.parent);
            Some((id, context))
        })
    }

    /// The root of that kind.
    pub(super) fn root(&mut self, entry: EnteredBy) -> ContextId {
        if self.are_left_out {
            return ContextId(0);
        }
        if let Some(&id) = self.roots.get(&entry) {
            return id;
        }
        let id = ContextId(self.nodes.len() as u32);
        self.push(CallContext { parent: id, entry }, 0);
        self.roots.insert(entry, id);
        id
    }

    /// The context that a call of `site` in `parent` enters.
    #[inline]
    pub(super) fn child(&mut self, parent: ContextId, site: CodeId) -> ContextId {
        if self.are_left_out {
            return ContextId(0);
        }
        match self.children.get(&(parent, site)) {
            Some(&id) => id,
            None => self.make_child(parent, site),
        }
    }

    fn make_child(&mut self, parent: ContextId, site: CodeId) -> ContextId {
        let most = if self.nodes.len() < MAX_CONTEXTS { MAX_TURNS } else { 1 };
        let depth = self.depths.get(parent.0 as usize).map_or(0, |depth| depth + 1);
        let same = |context: &CallContext| context.entry == EnteredBy::Call(site);
        let mut last = None;
        let mut turns = 0;
        for (id, _) in self.outwards(parent).filter(|(_, context)| same(context)) {
            last = last.or(Some(id));
            turns += 1;
        }
        let id = match last {
            Some(last) if turns >= most => self.fold(last),
            _ if depth > MAX_DEPTH => self.fold(parent),
            _ => self.push(CallContext { parent, entry: EnteredBy::Call(site) }, depth),
        };
        self.children.insert((parent, site), id);
        id
    }

    fn fold(&mut self, into: ContextId) -> ContextId {
        self.folded += 1;
        self.folds[into.0 as usize] = true;
        into
    }

    fn push(&mut self, context: CallContext, depth: u32) -> ContextId {
        self.nodes.push(context);
        self.depths.push(depth);
        self.folds.push(false);
        ContextId(self.nodes.len() as u32 - 1)
    }
}

//! Stacks split by function and local variable: an access to its thread's own stack belongs to the frame that it lies in,
//! whoever made it. All other accesses belong to their variable.

use std::collections::BTreeSet;

use memref::{Access, Event, RegionKind, ThreadId};
use rustc_hash::FxHashMap;
use symbols::{FunctionId, Resolver, VariableId, VariableKind};

use super::numbering::Numbered;
use super::slot::slot;
use crate::stack::Stacks;
use crate::{Moment, Session};

/// What an access is counted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LocalThing {
    /// No stack of the thread's own.
    Variable(VariableId),
    /// What has no name in a function's frame: return addresses, saved registers, values that the compiler put there.
    Frame(FunctionId),
    /// A local variable by where it begins, from the canonical frame address.
    Local(FunctionId, i64),
}

/// What an access is counted to, and how far behind its begin that is; nothing is known of what is no local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LocalPlace {
    number: u32,
    into: u64,
}

/// A local variable, and where in it an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessedLocal {
    pub(super) number: u32,
    pub(super) function: FunctionId,
    /// Where the variable begins, from the canonical frame address.
    pub(super) begin: i64,
    /// Where in it.
    pub(super) into: u64,
}

impl LocalPlace {
    fn whole(number: u32) -> Self {
        Self { number, into: 0 }
    }
}

/// Places of frames whose variable is kept; a large array has more elements than are worth it.
const MOST_PLACES: usize = 1 << 20;
const UNNUMBERED: u32 = u32::MAX;
/// A function whose first instruction after this many bytes pushes has done nothing to its stack before (`endbr64; push`).
const PROLOGUE_BYTES: u64 = 4;

#[derive(Debug)]
pub(crate) struct Locals {
    stacks: Stacks,
    things: Numbered<LocalThing>,
    /// Numbers of variables, by their own.
    of_variable: Vec<u32>,
    /// Whether a variable is the memory of a stack, by its number.
    is_stack: Vec<Option<bool>>,
    /// The threads that had frames in the memory of a stack.
    threads: FxHashMap<VariableId, BTreeSet<ThreadId>>,
    /// The last of these.
    last: Option<(VariableId, ThreadId)>,
    places: FxHashMap<(FunctionId, i64), LocalPlace>,
    /// The canonical frame address of the function with which a thread began, where it is known.
    outermost: FxHashMap<ThreadId, Option<u64>>,
}

impl Locals {
    pub(super) fn new(session: &Session) -> Self {
        Self {
            stacks: Stacks::new(session),
            things: Numbered::default(),
            of_variable: Vec::new(),
            is_stack: Vec::new(),
            threads: FxHashMap::default(),
            last: None,
            places: FxHashMap::default(),
            outermost: FxHashMap::default(),
        }
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    pub(super) fn get(&self, number: u32) -> Option<LocalThing> {
        self.things.get(number).copied()
    }

    /// The threads whose stack that memory is, or was one after the other.
    pub(super) fn threads(&self, stack: VariableId) -> Vec<u32> {
        self.threads.get(&stack).into_iter().flatten().map(|thread| thread.0).collect()
    }

    pub(super) fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) {
        self.stacks.event(at, event);
    }

    #[inline]
    pub(crate) fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        self.place(at, access).number
    }

    /// The local variable that an access is to, if it is to one.
    #[inline]
    pub(super) fn local(&mut self, at: &mut Moment<'_>, access: &Access) -> Option<AccessedLocal> {
        let LocalPlace { number, into } = self.place(at, access);
        match self.get(number)? {
            LocalThing::Local(function, begin) => Some(AccessedLocal { number, function, begin, into }),
            _ => None,
        }
    }

    #[inline]
    fn place(&mut self, at: &mut Moment<'_>, access: &Access) -> LocalPlace {
        let code = self.stacks.access(at, access).code;
        let variable = at.resolver.resolve_data(access.addr).variable;
        let is_stack = self.is_stack(at.resolver, variable);
        let Some(frame) = self.stacks.frame(at.thread, variable, is_stack, access.addr) else {
            return LocalPlace::whole(self.of_variable(variable));
        };
        if is_stack && self.last != Some((variable, at.thread)) {
            self.last = Some((variable, at.thread));
            self.threads.entry(variable).or_default().insert(at.thread);
        }
        let cfa = frame.cfa.map(|cfa| cfa.0).or_else(|| {
            *self.outermost.entry(at.thread).or_insert_with(|| {
                let pushes = access.kind == memref::AccessKind::Store && access.size == 8;
                let first = at.resolver.names().code(code).is_some_and(|code| code.offset <= PROLOGUE_BYTES);
                (pushes && first).then_some(access.addr.0.wrapping_add(16))
            })
        });
        let Some(cfa) = cfa else {
            return LocalPlace::whole(self.things.number(LocalThing::Frame(frame.function)));
        };
        let offset = access.addr.0.wrapping_sub(cfa) as i64;
        if offset >= 0 && frame.cfa.is_none() {
            // Above the outermost frame lie the arguments and the environment.
            return LocalPlace::whole(self.of_variable(variable));
        }
        if let Some(&place) = self.places.get(&(frame.function, offset)) {
            return place;
        }
        let (thing, into) = match at.resolver.names().local(frame.function, offset) {
            Some(local) => (LocalThing::Local(frame.function, local.offset), offset.abs_diff(local.offset)),
            None => (LocalThing::Frame(frame.function), 0),
        };
        let place = LocalPlace { number: self.things.number(thing), into };
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        self.places.insert((frame.function, offset), place);
        place
    }

    #[inline]
    fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool {
        let known = slot(&mut self.is_stack, variable.0);
        *known.get_or_insert_with(|| {
            let variable = resolver.names().variable(variable);
            variable.is_some_and(|variable| {
                variable.region == RegionKind::Stack && matches!(variable.kind, VariableKind::Region { .. })
            })
        })
    }

    #[inline]
    fn of_variable(&mut self, variable: VariableId) -> u32 {
        let index = variable.0 as usize;
        if index >= self.of_variable.len() {
            self.of_variable.resize(index + 1, UNNUMBERED);
        }
        if self.of_variable[index] == UNNUMBERED {
            self.of_variable[index] = self.things.number(LocalThing::Variable(variable));
        }
        self.of_variable[index]
    }
}

//! Stacks split by function and local variable. An access to its thread's own stack belongs to the
//! stack frame that it hits, whichever function made it. All other accesses belong to their variable.

use std::collections::BTreeSet;

use memref::{Access, Event, RegionKind, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, FunctionId, LocalId, Resolver, VariableId, VariableKind};

use super::numbering::Numbered;
use super::slot::slot;
use super::step_groups::StepNumbers;
use crate::machine::Machine;
use crate::stack::Stacks;
use crate::{Moment, Session, has_stacks};

/// What an access is counted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LocalThing {
    /// No stack of the thread's own.
    Variable(VariableId),
    /// What has no name in a function's frame: return addresses, saved registers, values that the compiler put there.
    Frame(FunctionId),
    Local(FunctionId, LocalId),
}

/// What an access is counted to, and how far behind its begin that is; nothing is known of what is no local variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LocalPlace {
    number: u32,
    into: u64,
}

/// A local variable, and where in it an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessedLocal {
    pub(crate) number: u32,
    pub(crate) function: FunctionId,
    pub(crate) id: LocalId,
    /// Where in it.
    pub(crate) into: u64,
}

impl LocalPlace {
    fn whole(number: u32) -> Self {
        Self { number, into: 0 }
    }
}

/// Places of frames whose variable is kept; a large array has more elements than are worth it.
const MOST_PLACES: usize = 1 << 20;
/// What lies at a place of a frame.
#[derive(Clone, Copy, Debug)]
enum FramePlace {
    Always(LocalPlace),
    /// Several variables of different blocks, or one that is not there in all of the function.
    ByCode,
}

const UNNUMBERED: u32 = u32::MAX;

/// The stacks of a replay, and what lies on them.
#[derive(Debug)]
pub(crate) struct Locals {
    pub(super) stacks: Stacks,
    pub(super) places: LocalPlaces,
}

/// What lies on stacks, as they are when it is asked.
#[derive(Debug, Default)]
pub(super) struct LocalPlaces {
    pub(super) things: Numbered<LocalThing>,
    /// Numbers of variables, by their own.
    of_variable: Vec<u32>,
    /// Whether a variable is the memory of a stack, by its number.
    is_stack: Vec<Option<bool>>,
    /// The threads that had frames in the memory of a stack.
    threads: FxHashMap<VariableId, BTreeSet<ThreadId>>,
    /// The last of these.
    last: Option<(VariableId, ThreadId)>,
    places: FxHashMap<(FunctionId, i64), FramePlace>,
    /// The same where that depends on the instruction.
    by_code: FxHashMap<(CodeId, FunctionId, i64), LocalPlace>,
}

impl Locals {
    /// Those of a session, where stacks were recorded.
    pub(crate) fn of(session: &Session) -> Option<Self> {
        (has_stacks(session) && Machine::of(session).is_none()).then(|| Self::new(session))
    }

    pub(super) fn new(session: &Session) -> Self {
        Self { stacks: Stacks::new(session), places: LocalPlaces::default() }
    }

    /// Those of one who counts slices of a replay.
    pub(super) fn of_worker(session: &Session) -> Self {
        Self { stacks: Stacks::of_worker(session), places: LocalPlaces::default() }
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    pub(super) fn get(&self, number: u32) -> Option<LocalThing> {
        self.places.get(number)
    }

    /// The threads whose stack that memory is, or was one after the other.
    pub(super) fn threads(&self, stack: VariableId) -> Vec<u32> {
        self.places.threads.get(&stack).into_iter().flatten().map(|thread| thread.0).collect()
    }

    pub(crate) fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) {
        self.stacks.event(at, event);
    }

    #[inline]
    pub(crate) fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        let code = self.follow(at, access);
        self.places.place_of(&self.stacks, at, code, access.addr).number
    }

    /// The local variable that an access is to, if it is to one.
    #[inline]
    pub(crate) fn local(&mut self, at: &mut Moment<'_>, access: &Access) -> Option<AccessedLocal> {
        let code = self.follow(at, access);
        self.local_at(at, code, access.addr)
    }

    /// An access, which frames follow. Returns its instruction.
    #[inline]
    pub(crate) fn follow(&mut self, at: &mut Moment<'_>, access: &Access) -> CodeId {
        self.stacks.access(at, access).code
    }

    /// The local variable that an address lies in which an instruction reaches, by the frames as the last access left them.
    #[inline]
    pub(crate) fn local_at(
        &mut self,
        at: &mut Moment<'_>,
        code: CodeId,
        addr: VirtAddr,
    ) -> Option<AccessedLocal> {
        self.places.local_at(&self.stacks, at, code, addr)
    }
}

impl LocalPlaces {
    fn get(&self, number: u32) -> Option<LocalThing> {
        self.things.get(number).copied()
    }

    /// As [`Locals::local_at`].
    #[inline]
    pub(super) fn local_at(
        &mut self,
        stacks: &Stacks,
        at: &mut Moment<'_>,
        code: CodeId,
        addr: VirtAddr,
    ) -> Option<AccessedLocal> {
        let place = self.place_of(stacks, at, code, addr);
        self.local_in(place)
    }

    /// A thread has frames in the memory of a stack.
    #[inline]
    pub(super) fn note_thread(&mut self, stack: VariableId, thread: ThreadId) {
        if self.last != Some((stack, thread)) {
            self.last = Some((stack, thread));
            self.threads.entry(stack).or_default().insert(thread);
        }
    }

    /// What another one noted of threads.
    pub(super) fn join_threads(&mut self, other: &Self) {
        for (stack, threads) in &other.threads {
            self.threads.entry(*stack).or_default().extend(threads);
        }
    }

    fn local_in(&self, LocalPlace { number, into }: LocalPlace) -> Option<AccessedLocal> {
        match self.get(number)? {
            LocalThing::Local(function, id) => Some(AccessedLocal { number, function, id, into }),
            _ => None,
        }
    }

    #[inline]
    fn place_of(&mut self, stacks: &Stacks, at: &mut Moment<'_>, code: CodeId, addr: VirtAddr) -> LocalPlace {
        let variable = at.resolver.resolve_data(addr).variable;
        let is_stack = self.is_stack(at.resolver, variable);
        let Some(frame) = stacks.frame(at.thread, variable, is_stack, addr) else {
            return LocalPlace::whole(self.of_variable(variable));
        };
        if is_stack {
            self.note_thread(variable, at.thread);
        }
        let Some(cfa) = frame.cfa else {
            return LocalPlace::whole(self.things.number(LocalThing::Frame(frame.function)));
        };
        let offset = addr.0.wrapping_sub(cfa.0) as i64;
        if offset >= 0 {
            // Above the outermost frame lie the arguments and the environment.
            return LocalPlace::whole(self.of_variable(variable));
        }
        match self.places.get(&(frame.function, offset)) {
            Some(FramePlace::Always(place)) => return *place,
            Some(FramePlace::ByCode) => {}
            None => {
                if let FramePlace::Always(place) = self.find_place(at.resolver, frame.function, offset) {
                    return place;
                }
            }
        }
        let code = frame.call.map_or(code, |call| at.resolver.resolve_code(call));
        let key = (code, frame.function, offset);
        if let Some(place) = self.by_code.get(&key) {
            return *place;
        }
        let found = at.resolver.names().local_there(frame.function, offset, code);
        let place = self.numbered(at.resolver, frame.function, offset, found);
        if self.by_code.len() >= MOST_PLACES {
            self.by_code.clear();
        }
        self.by_code.insert(key, place);
        place
    }

    /// What lies at a place of a function's frame, for the first time.
    #[cold]
    fn find_place(&mut self, resolver: &Resolver, function: FunctionId, offset: i64) -> FramePlace {
        let names = resolver.names();
        let first = names.locals_at(function, offset).into_iter().next();
        let place = match first {
            Some((_, local)) if !local.lives_everywhere() => FramePlace::ByCode,
            first => FramePlace::Always(self.numbered(resolver, function, offset, first.map(|(id, _)| id))),
        };
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        self.places.insert((function, offset), place);
        place
    }

    /// The number of a local variable, or of what has no name in a frame.
    fn numbered(
        &mut self,
        resolver: &Resolver,
        function: FunctionId,
        offset: i64,
        local: Option<LocalId>,
    ) -> LocalPlace {
        let variable = local.and_then(|id| Some((id, resolver.names().local(function, id)?)));
        match variable {
            Some((id, variable)) => LocalPlace {
                number: self.things.number(LocalThing::Local(function, id)),
                into: offset.abs_diff(variable.offset),
            },
            None => LocalPlace::whole(self.things.number(LocalThing::Frame(function))),
        }
    }

    #[inline]
    pub(super) fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool {
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

impl StepNumbers for LocalPlaces {
    const BY_STACK: bool = false;

    fn whole(&mut self, _: &mut Resolver, variable: VariableId, _: VirtAddr) -> Option<u32> {
        Some(self.of_variable(variable))
    }

    fn each(
        &mut self,
        stacks: &Stacks,
        at: &mut Moment<'_>,
        code: CodeId,
        access: &Access,
        numbers: &mut Vec<u32>,
    ) {
        numbers.push(self.place_of(stacks, at, code, access.addr).number);
    }

    fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool {
        self.is_stack(resolver, variable)
    }

    fn note_thread(&mut self, stack: VariableId, thread: ThreadId) {
        self.note_thread(stack, thread);
    }
}

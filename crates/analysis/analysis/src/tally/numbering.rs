//! Numbers for what an access is counted under, so that counting is adding to a list; names come at the end.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, Event, ProcessId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, FunctionId, LocalId, RegionId, Resolver, VariableId};
use trace_format::ExecutedFrame;

use super::By;
use super::group::any_element;
use super::locals::{AccessedLocal, LocalPlaces, LocalThing, Locals};
use super::slot::slot;
use super::step_groups::{StepGroups, StepNumbers, Sums};
use crate::layout::HeapTypes;
use crate::machine::Machine;
use crate::stack::Stacks;
use crate::{Error, Moment, Owner, Session, has_stacks};

/// Numbers for what the rows of a table are made of. Several kinds of rows are made of the same.
#[derive(Debug)]
pub(crate) enum Numbering {
    /// The session's numbers of variables.
    Variable,
    /// The same, with the stacks that blocks were allocated in.
    Block(Box<Stacks>),
    /// The session's numbers of instructions.
    Code,
    Field(Box<Fields>),
    Type(Box<Types>),
    Page(Numbered<(ProcessId, u64)>),
    Thread(Threads),
    Local(Box<Locals>),
}

/// Things with numbers.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    numbers: FxHashMap<T, u32>,
    things: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), things: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    pub(super) fn number(&mut self, thing: T) -> u32 {
        if let Some(&number) = self.numbers.get(&thing) {
            return number;
        }
        let number = self.things.len() as u32;
        self.things.push(thing.clone());
        self.numbers.insert(thing, number);
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    fn range(&self, numbers: Range<usize>) -> &[T] {
        self.things.get(numbers).unwrap_or_default()
    }

    /// Numbers things that somebody else met in that order. Their numbers here.
    fn join(&mut self, things: &[T]) -> impl Iterator<Item = u32> {
        things.iter().map(|thing| self.number(thing.clone()))
    }
}

/// What a row by field is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldThing {
    /// A variable and the path of a field in it; none where its type is not known.
    Of(VariableId, Arc<str>),
    /// A field of all heap blocks of a type.
    Typed { type_: u32, field: u16 },
    /// The same of a local variable.
    Local { function: FunctionId, id: LocalId, path: Arc<str> },
}

/// Where in a variable an access begins, and how long it is: whichever field that is, it stays that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FieldPlace {
    holder: FieldHolder,
    offset: u64,
    size: u32,
}

/// What has fields and is no heap block of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FieldHolder {
    Variable(VariableId),
    /// A local variable of a function.
    Local(FunctionId, LocalId),
}

/// Numbers of fields.
#[derive(Debug)]
pub(crate) struct Fields {
    numbers: FieldNumbers,
    /// Where stacks were recorded.
    locals: Option<Locals>,
    /// Of the access that was numbered last.
    last: Vec<u32>,
}

/// What is known of fields, without the stacks.
#[derive(Debug)]
pub(super) struct FieldNumbers {
    things: Numbered<FieldThing>,
    /// Of variables that have one number whichever byte of them is accessed.
    whole: Vec<WholeVariable>,
    places: FieldPlaces,
    /// Of the fields of heap blocks, by type.
    typed: Vec<Vec<Option<u32>>>,
    /// The fields of one access to a heap block.
    touched: Vec<u16>,
    types: Arc<HeapTypes>,
}

/// Whether a variable is counted as a whole.
#[derive(Clone, Copy, Debug, Default)]
enum WholeVariable {
    #[default]
    Unknown,
    No,
    Number(u32),
}

/// Numbers of types.
#[derive(Debug)]
pub(crate) struct Types {
    numbers: TypeNumbers,
    /// Where stacks were recorded.
    locals: Option<Locals>,
}

/// What is known of types, without the stacks.
#[derive(Debug)]
pub(super) struct TypeNumbers {
    things: Numbered<TypeThing>,
    of_variable: Vec<Option<u32>>,
    types: Arc<HeapTypes>,
    /// By the number of the local variable.
    of_local: Vec<Option<u32>>,
}

/// Numbers of the fields at places that were met, the one that an access begins in first, so that none is found by its name.
#[derive(Debug, Default)]
pub(crate) struct FieldPlaces {
    numbers: FxHashMap<FieldPlace, Box<[u32]>>,
}

/// Places that are kept; a large array has more elements than are worth it.
const MOST_PLACES: usize = 1 << 20;

impl FieldPlaces {
    #[inline]
    fn numbers(&mut self, place: FieldPlace, find: impl FnOnce() -> Box<[u32]>) -> &[u32] {
        if self.numbers.len() >= MOST_PLACES && !self.numbers.contains_key(&place) {
            self.numbers.clear();
        }
        self.numbers.entry(place).or_insert_with(find)
    }
}

/// Numbers of the fields of a variable that an access touches, of elements of an array one.
fn numbers_of_paths(
    resolver: &mut Resolver,
    fields: &mut Numbered<FieldThing>,
    variable: VariableId,
    access: &Access,
) -> Box<[u32]> {
    let paths = resolver.field_paths(access.addr, access.size);
    numbers_of(fields, paths, |path| FieldThing::Of(variable, path))
}

/// The same of a local variable.
fn numbers_in_local(
    resolver: &Resolver,
    fields: &mut Numbered<FieldThing>,
    (function, id): (FunctionId, LocalId),
    (into, size): (u64, u32),
) -> Box<[u32]> {
    let names = resolver.names();
    let layout = names.local_layout(function, id);
    let paths = layout.map_or_else(Vec::new, |layout| layout.paths(into, size));
    numbers_of(fields, paths, |path| FieldThing::Local { function, id, path })
}

fn numbers_of(
    fields: &mut Numbered<FieldThing>,
    paths: Vec<Arc<str>>,
    thing: impl Fn(Arc<str>) -> FieldThing,
) -> Box<[u32]> {
    let mut seen: Vec<String> = Vec::new();
    let mut numbers = Vec::new();
    for path in paths {
        let family = any_element(&path).unwrap_or_else(|| path.to_string());
        if !seen.contains(&family) {
            seen.push(family);
            numbers.push(fields.number(thing(path)));
        }
    }
    if numbers.is_empty() {
        numbers.push(fields.number(thing("".into())));
    }
    numbers.into()
}

/// What a row by type is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TypeThing {
    /// The blocks of the heap that have a type.
    Blocks(u32),
    /// A static variable, and its type.
    Static(VariableId, Arc<str>),
    /// A local variable of a function, and its type.
    Local(FunctionId, LocalId, Arc<str>),
    /// What has no type.
    Untyped(VariableId),
}

/// A thread that made accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningThread {
    pub(super) process: ProcessId,
    /// The first function that is the program's own: what the thread is for.
    pub(super) first: Option<FunctionId>,
}

/// Accesses of a thread that are looked through for its first function.
const MOST_BEFORE_FIRST: u32 = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct Threads {
    all: FxHashMap<ThreadId, (RunningThread, u32)>,
}

impl Threads {
    pub(super) fn get(&self, number: u32) -> Option<RunningThread> {
        self.all.get(&ThreadId(number)).map(|(thread, _)| *thread)
    }

    /// A thread whose accesses are not looked at.
    pub(super) fn add(&mut self, thread: ThreadId, process: ProcessId) {
        self.all.entry(thread).or_insert((RunningThread { process, first: None }, 0));
    }

    fn begin(&mut self, at: &mut Moment<'_>, access: &Access) {
        let new = RunningThread { process: at.process, first: None };
        let (thread, seen) = self.all.entry(at.thread).or_insert((new, 0));
        if thread.first.is_some() || *seen >= MOST_BEFORE_FIRST {
            return;
        }
        *seen += 1;
        let code = at.resolver.resolve_code(access.ip);
        let name = at.resolver.names().code(code);
        let own = |module: &str| Owner::of_module(module) == Owner::Program;
        if let Some(name) = name
            && name.function.as_deref().is_some_and(|function| !function.ends_with("@plt"))
            && name.module.as_deref().is_some_and(own)
        {
            thread.first = Some(name.function_id);
        }
    }
}

impl FieldNumbers {
    fn new(types: Arc<HeapTypes>) -> Self {
        Self {
            things: Numbered::default(),
            whole: Vec::new(),
            places: FieldPlaces::default(),
            typed: Vec::new(),
            touched: Vec::new(),
            types,
        }
    }

    /// The number of a variable that has no fields.
    #[inline]
    fn whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32> {
        match *slot(&mut self.whole, variable.0) {
            WholeVariable::Number(number) => Some(number),
            WholeVariable::No => None,
            WholeVariable::Unknown => {
                let number = self.find_whole(resolver, variable, addr);
                *slot(&mut self.whole, variable.0) = number.map_or(WholeVariable::No, WholeVariable::Number);
                number
            }
        }
    }

    #[cold]
    fn find_whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32> {
        // A block of numbers alone is best called by who allocated it.
        let has_fields = match self.types.type_of(variable) {
            Some(type_) => self.types.is_aggregate(type_),
            None => self.types.pool_of(variable).is_some(),
        };
        let is_whole = !has_fields && resolver.type_of(addr).is_none();
        is_whole.then(|| self.things.number(FieldThing::Of(variable, "".into())))
    }

    /// The fields that an access touches, the one that it begins in first.
    #[inline]
    fn touched(
        &mut self,
        at: &mut Moment<'_>,
        local: Option<AccessedLocal>,
        access: &Access,
        numbers: &mut Vec<u32>,
    ) {
        numbers.clear();
        let (offset, holder) = match local {
            Some(local) => (local.into, FieldHolder::Local(local.function, local.id)),
            None => {
                let name = at.resolver.resolve_data(access.addr);
                if let Some(number) = self.whole(at.resolver, name.variable, access.addr) {
                    numbers.push(number);
                    return;
                }
                let placed = self.types.place(at.resolver, name.variable, access);
                if let Some(placed) = placed.filter(|placed| self.types.is_aggregate(placed.type_)) {
                    self.types.touched(placed, access.size.into(), &mut self.touched);
                    let count = if access.size < 2 { 1 } else { self.touched.len() };
                    for index in 0..count {
                        numbers.push(self.typed(placed.type_, self.touched[index]));
                    }
                    return;
                }
                (name.offset, FieldHolder::Variable(name.variable))
            }
        };
        let place = FieldPlace { holder, offset, size: access.size };
        let Self { places, things, .. } = self;
        let all = places.numbers(place, || match holder {
            FieldHolder::Variable(variable) => numbers_of_paths(at.resolver, things, variable, access),
            FieldHolder::Local(function, id) => {
                numbers_in_local(at.resolver, things, (function, id), (offset, access.size))
            }
        });
        numbers.extend_from_slice(if access.size < 2 { &all[..1] } else { all });
    }

    /// The number of a field of a heap block, or of what lies between its fields.
    #[inline]
    fn typed(&mut self, type_: u32, field: u16) -> u32 {
        // The number of no field comes first.
        let known = slot(slot(&mut self.typed, type_), field.wrapping_add(1).into());
        *known.get_or_insert_with(|| self.things.number(FieldThing::Typed { type_, field }))
    }
}

impl StepNumbers for (&mut FieldNumbers, &mut LocalPlaces) {
    const BY_STACK: bool = true;

    fn whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32> {
        self.0.whole(resolver, variable, addr)
    }

    fn each(
        &mut self,
        stacks: &Stacks,
        at: &mut Moment<'_>,
        code: CodeId,
        access: &Access,
        numbers: &mut Vec<u32>,
    ) {
        let (fields, places) = self;
        let local = places.local_at(stacks, at, code, access.addr);
        fields.touched(at, local, access, numbers);
    }

    fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool {
        self.1.is_stack(resolver, variable)
    }

    fn note_thread(&mut self, stack: VariableId, thread: ThreadId) {
        self.1.note_thread(stack, thread);
    }
}

impl Fields {
    #[inline]
    fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        let local = self.locals.as_mut().and_then(|locals| locals.local(at, access));
        self.numbers.touched(at, local, access, &mut self.last);
        self.last[0]
    }
}

impl TypeNumbers {
    fn new(types: Arc<HeapTypes>) -> Self {
        Self { things: Numbered::default(), of_variable: Vec::new(), types, of_local: Vec::new() }
    }

    /// The number of a variable whose accesses all have its type; of a block that several types share they have not.
    #[inline]
    fn whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32> {
        if let Some(number) = *slot(&mut self.of_variable, variable.0) {
            return Some(number);
        }
        if self.types.pool_of(variable).is_some() {
            return None;
        }
        let thing = match self.types.type_of(variable) {
            Some(type_) => TypeThing::Blocks(type_),
            None => match resolver.type_of(addr) {
                Some(layout) if !layout.innermost().name.is_empty() => {
                    TypeThing::Static(variable, Arc::clone(&layout.innermost().name))
                }
                _ => TypeThing::Untyped(variable),
            },
        };
        let number = self.things.number(thing);
        *slot(&mut self.of_variable, variable.0) = Some(number);
        Some(number)
    }

    #[inline]
    fn number(&mut self, at: &mut Moment<'_>, local: Option<AccessedLocal>, access: &Access) -> u32 {
        if let Some(local) = local {
            let known = slot(&mut self.of_local, local.number);
            if let Some(number) = *known {
                return number;
            }
            let layout = at.resolver.names().local_layout(local.function, local.id);
            let name = layout.map(|layout| Arc::clone(&layout.innermost().name));
            let thing = match name.filter(|name| !name.is_empty()) {
                Some(name) => TypeThing::Local(local.function, local.id, name),
                None => TypeThing::Untyped(at.resolver.resolve_data(access.addr).variable),
            };
            return *known.insert(self.things.number(thing));
        }
        let variable = at.resolver.resolve_data(access.addr).variable;
        if let Some(number) = self.whole(at.resolver, variable, access.addr) {
            return number;
        }
        let place = self.types.place(at.resolver, variable, access);
        let thing = place.map_or(TypeThing::Untyped(variable), |place| TypeThing::Blocks(place.type_));
        self.things.number(thing)
    }

    /// Sorts numbers by what they stand for, whichever access was first: blocks, static and local variables, what has no type. The first
    /// one of a row is what its region and module are taken from.
    fn sort(&self, session: &Session, numbers: &mut Vec<u32>) {
        let names = session.names();
        let (mut blocks, mut locals) = (Vec::new(), Vec::new());
        let (mut statics, mut untyped) = (FxHashMap::default(), FxHashMap::default());
        for &number in &*numbers {
            match self.things.get(number) {
                Some(TypeThing::Static(variable, _)) => _ = statics.insert(variable.0, number),
                Some(TypeThing::Untyped(variable)) => _ = untyped.insert(variable.0, number),
                Some(TypeThing::Local(function, id, _)) => locals.push((*function, *id, number)),
                Some(TypeThing::Blocks(type_)) => blocks.push((*type_, number)),
                None => {}
            }
        }
        blocks.sort_unstable();
        locals.sort_by_cached_key(|(function, id, _)| {
            let local = names.local(*function, *id);
            let (name, offset) =
                local.map(|local| (local.name.to_string(), local.offset)).unwrap_or_default();
            (names.function_module(*function), names.function(*function), offset, name)
        });
        let in_order = |of_variable: FxHashMap<u32, u32>| {
            let mut variables: Vec<u32> = of_variable.keys().copied().collect();
            names.sort_variables(&mut variables);
            variables.into_iter().filter_map(move |variable| of_variable.get(&variable).copied())
        };
        *numbers = blocks.into_iter().map(|(_, number)| number).collect();
        numbers.extend(in_order(statics));
        numbers.extend(locals.into_iter().map(|(.., number)| number));
        numbers.extend(in_order(untyped));
    }
}

impl StepNumbers for (&mut TypeNumbers, &mut LocalPlaces) {
    const BY_STACK: bool = true;

    fn whole(&mut self, resolver: &mut Resolver, variable: VariableId, addr: VirtAddr) -> Option<u32> {
        self.0.whole(resolver, variable, addr)
    }

    fn each(
        &mut self,
        stacks: &Stacks,
        at: &mut Moment<'_>,
        code: CodeId,
        access: &Access,
        numbers: &mut Vec<u32>,
    ) {
        let (types, places) = self;
        let local = places.local_at(stacks, at, code, access.addr);
        numbers.push(types.number(at, local, access));
    }

    fn is_stack(&mut self, resolver: &Resolver, variable: VariableId) -> bool {
        self.1.is_stack(resolver, variable)
    }

    fn note_thread(&mut self, stack: VariableId, thread: ThreadId) {
        self.1.note_thread(stack, thread);
    }
}

impl Types {
    #[inline]
    fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        let local = self.locals.as_mut().and_then(|locals| locals.local(at, access));
        self.numbers.number(at, local, access)
    }
}

impl Numbering {
    /// # Errors
    /// Where the trace can't be read, which types of heap blocks take.
    pub(crate) fn new(by: By, session: &Session) -> Result<Self, Error> {
        Ok(match by {
            By::Allocation if has_stacks(session) && Machine::of(session).is_none() => {
                Self::Block(Box::new(Stacks::new(session)))
            }
            By::Variable | By::Allocation | By::Region => Self::Variable,
            By::Function | By::Line => Self::Code,
            By::Field => Self::Field(Box::new(Fields {
                numbers: FieldNumbers::new(session.heap_types()?),
                locals: Locals::of(session),
                last: Vec::new(),
            })),
            By::Type => Self::Type(Box::new(Types {
                numbers: TypeNumbers::new(session.heap_types()?),
                locals: Locals::of(session),
            })),
            By::Page => Self::Page(Numbered::default()),
            By::Thread => Self::Thread(Threads::default()),
            By::Local => Self::Local(Box::new(Locals::new(session))),
        })
    }

    /// Whether the rows of that table are made of these.
    pub(super) fn serves(&self, by: By) -> bool {
        match self {
            Self::Variable => matches!(by, By::Variable | By::Allocation | By::Region),
            Self::Block(_) => by == By::Allocation,
            Self::Code => matches!(by, By::Function | By::Line),
            Self::Field(..) => by == By::Field,
            Self::Type(..) => by == By::Type,
            Self::Page(_) => by == By::Page,
            Self::Thread(_) => by == By::Thread,
            Self::Local(_) => by == By::Local,
        }
    }

    /// What an access is counted to.
    #[inline]
    pub(crate) fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        match self {
            Self::Variable => at.resolver.resolve_data(access.addr).variable.0,
            Self::Block(stacks) => {
                stacks.access(at, access);
                at.resolver.resolve_data(access.addr).variable.0
            }
            Self::Code => at.resolver.resolve_code(access.ip).0,
            Self::Field(fields) => fields.number(at, access),
            Self::Type(types) => types.number(at, access),
            Self::Page(pages) => pages.number((at.process, access.addr.page_number())),
            Self::Thread(threads) => {
                threads.begin(at, access);
                at.thread.0
            }
            Self::Local(locals) => locals.number(at, access),
        }
    }

    /// What else the access is counted to that was just numbered: the fields that it reaches into after the first.
    #[inline]
    pub(crate) fn further(&self) -> &[u32] {
        match self {
            Self::Field(fields) => fields.last.get(1..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Whether executions can be counted to these step by step.
    pub(super) fn takes_steps(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Field(fields) => fields.locals.is_some(),
            Self::Type(types) => types.locals.is_some(),
            _ => false,
        }
    }

    /// Counts executions, which are their thread's next events, where [`Self::takes_steps`].
    pub(super) fn add_steps(
        &mut self,
        groups: &mut StepGroups,
        at: &mut Moment<'_>,
        executed: (&ExecutedFrame, Range<usize>),
        sums: &mut Sums,
    ) {
        match self {
            Self::Local(locals) => groups.add(&mut locals.stacks, &mut locals.places, at, executed, sums),
            Self::Field(fields) => {
                let Fields { numbers, locals: Some(locals), .. } = &mut **fields else { return };
                groups.add(&mut locals.stacks, &mut (numbers, &mut locals.places), at, executed, sums);
            }
            Self::Type(types) => {
                let Types { numbers, locals: Some(locals) } = &mut **types else { return };
                groups.add(&mut locals.stacks, &mut (numbers, &mut locals.places), at, executed, sums);
            }
            _ => {}
        }
    }

    pub(crate) fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) {
        match self {
            Self::Local(locals) => locals.event(at, event),
            Self::Field(fields) => _ = fields.locals.as_mut().map(|locals| locals.event(at, event)),
            Self::Type(types) => _ = types.locals.as_mut().map(|locals| locals.event(at, event)),
            Self::Block(stacks) => {
                stacks.event(at, event);
            }
            _ => {}
        }
    }

    /// One that numbers the same in slices of a replay; `None` where more has to be known than the stacks of these here.
    pub(super) fn of_worker(&self, session: &Session) -> Option<Self> {
        Some(match self {
            // Where blocks were allocated, the stacks here say.
            Self::Variable | Self::Block(_) => Self::Variable,
            Self::Local(_) => Self::Local(Box::new(Locals::of_worker(session))),
            Self::Field(fields) => Self::Field(Box::new(Fields {
                numbers: FieldNumbers::new(Arc::clone(&fields.numbers.types)),
                locals: fields.locals.as_ref().map(|_| Locals::of_worker(session)),
                last: Vec::new(),
            })),
            Self::Type(types) => Self::Type(Box::new(Types {
                numbers: TypeNumbers::new(Arc::clone(&types.numbers.types)),
                locals: types.locals.as_ref().map(|_| Locals::of_worker(session)),
            })),
            Self::Code => Self::Code,
            Self::Page(_) => Self::Page(Numbered::default()),
            // What a thread is for its first accesses tell.
            Self::Thread(_) => return None,
        })
    }

    /// How many things have numbers of its own.
    pub(super) fn things(&self) -> usize {
        match self {
            Self::Local(locals) => locals.places.things.len(),
            Self::Field(fields) => fields.numbers.things.len(),
            Self::Type(types) => types.numbers.things.len(),
            Self::Page(pages) => pages.len(),
            _ => 0,
        }
    }

    /// Numbers things that a worker met. Their numbers here; nothing where numbers are the session's.
    pub(super) fn join(&mut self, worker: &Self, things: Range<usize>) -> Vec<u32> {
        match (self, worker) {
            (Self::Local(own), Self::Local(other)) => {
                own.places.join_threads(&other.places);
                own.places.things.join(other.places.things.range(things)).collect()
            }
            (Self::Field(own), Self::Field(other)) => {
                own.numbers.things.join(other.numbers.things.range(things)).collect()
            }
            (Self::Type(own), Self::Type(other)) => {
                own.numbers.things.join(other.numbers.things.range(things)).collect()
            }
            (Self::Page(own), Self::Page(other)) => own.join(other.range(things)).collect(),
            _ => Vec::new(),
        }
    }

    /// Sorts its numbers, which are in their own order: whichever worker was first in numbering something, it comes to the same place.
    pub(crate) fn sort(&self, session: &Session, numbers: &mut Vec<u32>) {
        match self {
            Self::Variable | Self::Block(_) => session.names().sort_variables(numbers),
            Self::Type(types) => types.numbers.sort(session, numbers),
            _ => {}
        }
    }

    /// Whether the numbers are the session's.
    pub(super) fn are_of_session(&self) -> bool {
        matches!(self, Self::Variable | Self::Block(_) | Self::Code)
    }

    /// Whether it has to be told everything that a thread does, whatever is counted of it.
    pub(crate) fn follows(&self) -> bool {
        self.stacks().is_some()
    }

    /// The stacks that it follows, to be told what happens.
    pub(super) fn stacks_mut(&mut self) -> Option<&mut Stacks> {
        match self {
            Self::Local(locals) => Some(&mut locals.stacks),
            Self::Field(fields) => fields.locals.as_mut().map(|locals| &mut locals.stacks),
            Self::Type(types) => types.locals.as_mut().map(|locals| &mut locals.stacks),
            Self::Block(stacks) => Some(stacks),
            _ => None,
        }
    }

    /// The stacks that it follows.
    pub(super) fn stacks(&self) -> Option<&Stacks> {
        match self {
            Self::Local(locals) => Some(locals.stacks()),
            Self::Field(fields) => fields.locals.as_ref().map(Locals::stacks),
            Self::Type(types) => types.locals.as_ref().map(Locals::stacks),
            Self::Block(stacks) => Some(stacks),
            _ => None,
        }
    }

    pub(super) fn variable(&self, number: u32) -> VariableId {
        VariableId(number)
    }

    pub(super) fn code(&self, number: u32) -> CodeId {
        CodeId(number)
    }

    pub(super) fn field(&self, number: u32) -> Option<(FieldThing, &HeapTypes)> {
        let Self::Field(fields) = self else { return None };
        Some((fields.numbers.things.get(number)?.clone(), &fields.numbers.types))
    }

    pub(super) fn type_(&self, number: u32) -> Option<(TypeThing, &HeapTypes)> {
        let Self::Type(types) = self else { return None };
        Some((types.numbers.things.get(number)?.clone(), &types.numbers.types))
    }

    pub(super) fn page(&self, number: u32) -> Option<(ProcessId, VirtAddr)> {
        let Self::Page(pages) = self else { return None };
        pages.get(number).map(|(process, page)| (*process, VirtAddr(page * VirtAddr::PAGE_BYTES)))
    }

    pub(super) fn thread(&self, number: u32) -> Option<RunningThread> {
        let Self::Thread(threads) = self else { return None };
        threads.get(number)
    }

    pub(super) fn local(&self, number: u32) -> Option<LocalThing> {
        let Self::Local(locals) = self else { return None };
        locals.get(number)
    }

    /// The threads whose stack a variable is, where that was followed.
    pub(super) fn threads_of_stack(&self, variable: VariableId) -> Vec<u32> {
        let Self::Local(locals) = self else { return Vec::new() };
        locals.threads(variable)
    }
}

/// The last region that was at an address, where nothing is any more at the end.
pub(super) fn region_once_at(image: &symbols::ProcessImage, page: VirtAddr) -> Option<&symbols::Region> {
    let regions = image.regions();
    let now: Option<RegionId> = image.region_at(page);
    now.and_then(|id| regions.region(id)).or_else(|| {
        regions
            .regions()
            .iter()
            .rev()
            .find(|region| region.start <= page && page.0 < region.start.0 + region.len)
    })
}

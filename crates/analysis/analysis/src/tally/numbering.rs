//! Numbers for what an access is counted to, so that counting is adding to a list; names come at the end.

use std::sync::Arc;

use memref::{Access, Event, ProcessId, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, FunctionId, LocalId, RegionId, Resolver, VariableId};

use super::By;
use super::group::any_element;
use super::locals::{LocalThing, Locals};
use super::slot::slot;
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
    things: Numbered<FieldThing>,
    places: FieldPlaces,
    types: Arc<HeapTypes>,
    /// Where stacks were recorded.
    locals: Option<Locals>,
    /// Of the access that was numbered last; none of a heap block's.
    last: Option<FieldPlace>,
}

/// Numbers of types.
#[derive(Debug)]
pub(crate) struct Types {
    things: Numbered<TypeThing>,
    of_variable: Vec<Option<u32>>,
    types: Arc<HeapTypes>,
    /// Where stacks were recorded.
    locals: Option<Locals>,
    /// By the number of the local variable.
    of_local: Vec<Option<u32>>,
}

/// Numbers of the fields at places that were met, the one that an access begins in first, so that none is found by its name.
#[derive(Debug, Default)]
pub(crate) struct FieldPlaces {
    numbers: FxHashMap<FieldPlace, Box<[u32]>>,
    /// The fields of one access to a heap block.
    touched: Vec<u16>,
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

impl Fields {
    #[inline]
    fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        let Self { things, places, types, locals, last } = self;
        let local = locals.as_mut().and_then(|locals| locals.local(at, access));
        let (offset, holder) = match local {
            Some(local) => (local.into, FieldHolder::Local(local.function, local.id)),
            None => {
                let name = at.resolver.resolve_data(access.addr);
                // A block of numbers alone is best called by who allocated it.
                let placed = types.place(at.resolver, name.variable, access);
                if let Some(placed) = placed.filter(|placed| types.is_aggregate(placed.type_)) {
                    let type_ = placed.type_;
                    types.touched(placed, access.size.into(), &mut places.touched);
                    *last = None;
                    return things.number(FieldThing::Typed { type_, field: places.touched[0] });
                }
                (name.offset, FieldHolder::Variable(name.variable))
            }
        };
        let place = FieldPlace { holder, offset, size: access.size };
        *last = Some(place);
        places.numbers(place, || match holder {
            FieldHolder::Variable(variable) => numbers_of_paths(at.resolver, things, variable, access),
            FieldHolder::Local(function, id) => {
                numbers_in_local(at.resolver, things, (function, id), (offset, access.size))
            }
        })[0]
    }

    /// The fields after the first of the access that was just numbered.
    #[inline]
    fn further(&mut self, at: &mut Moment<'_>, access: &Access, numbers: &mut Vec<u32>) {
        if access.size < 2 {
            return;
        }
        if let Some(place) = &self.last {
            numbers.extend(self.places.numbers.get(place).into_iter().flatten().skip(1));
            return;
        }
        let name = at.resolver.resolve_data(access.addr);
        if let Some(placed) = self.types.place(at.resolver, name.variable, access) {
            let type_ = placed.type_;
            self.types.touched(placed, access.size.into(), &mut self.places.touched);
            let further = self.places.touched.iter().skip(1);
            numbers.extend(further.map(|&field| self.things.number(FieldThing::Typed { type_, field })));
        }
    }
}

impl Types {
    #[inline]
    fn number(&mut self, at: &mut Moment<'_>, access: &Access) -> u32 {
        if let Some(local) = self.locals.as_mut().and_then(|locals| locals.local(at, access)) {
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
        if let Some(number) = *slot(&mut self.of_variable, variable.0) {
            return number;
        }
        if self.types.pool_of(variable).is_some() {
            let place = self.types.place(at.resolver, variable, access);
            let thing = place.map_or(TypeThing::Untyped(variable), |place| TypeThing::Blocks(place.type_));
            return self.things.number(thing);
        }
        // Of a block, all accesses have its type, whatever the first one is.
        let thing = match self.types.type_of(variable) {
            Some(type_) => TypeThing::Blocks(type_),
            None => match at.resolver.type_of(access.addr) {
                Some(layout) if !layout.innermost().name.is_empty() => {
                    TypeThing::Static(variable, Arc::clone(&layout.innermost().name))
                }
                _ => TypeThing::Untyped(variable),
            },
        };
        let number = self.things.number(thing);
        *slot(&mut self.of_variable, variable.0) = Some(number);
        number
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
                things: Numbered::default(),
                places: FieldPlaces::default(),
                types: session.heap_types()?,
                locals: Locals::of(session),
                last: None,
            })),
            By::Type => Self::Type(Box::new(Types {
                things: Numbered::default(),
                of_variable: Vec::new(),
                types: session.heap_types()?,
                locals: Locals::of(session),
                of_local: Vec::new(),
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

    /// What else an access is counted to, which was just numbered: the fields that it reaches into after the first.
    #[inline]
    pub(crate) fn further(&mut self, at: &mut Moment<'_>, access: &Access, numbers: &mut Vec<u32>) {
        numbers.clear();
        if let Self::Field(fields) = self {
            fields.further(at, access, numbers);
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

    /// Whether it has to be told everything that a thread does, whatever is counted of it.
    pub(crate) fn follows(&self) -> bool {
        self.stacks().is_some()
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
        Some((fields.things.get(number)?.clone(), &fields.types))
    }

    pub(super) fn type_(&self, number: u32) -> Option<(TypeThing, &HeapTypes)> {
        let Self::Type(types) = self else { return None };
        Some((types.things.get(number)?.clone(), &types.types))
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

//! The types of everything that is not a heap block: static and thread-local variables by their symbols, local
//! variables by the stack frames that hold them. Plain numbers have no fields, so only structures, unions and
//! arrays of them count. What the C library keeps for itself is left out, since nobody can change its layout.

use std::collections::BTreeSet;
use std::sync::Arc;

use memref::{Access, Event, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, TypeKind, TypeLayout, VariableId};

use super::HeapTypes;
use super::heap_types::{MOST_BYTES, TypeTable, TypedPlace};
use crate::tally::{AccessedLocal, Locals, slot};
use crate::{Moment, Owner, Session};

/// Variables of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VariableCount {
    pub(super) statics: u64,
    pub(super) locals: u64,
    /// Those of the locals that share their place with others, each in a block of its own.
    in_blocks: u64,
    /// Objects in them: the elements of an array, or one.
    pub(super) objects: u64,
}

impl VariableCount {
    pub(super) fn variables(self) -> u64 {
        self.statics + self.locals
    }
}

/// The types of variables, as far as they were accessed.
#[derive(Debug)]
pub(super) struct VariableTypes {
    /// Their numbers follow those of the heap's types, which are counted apart.
    first: u32,
    /// Where stacks were recorded.
    locals: Option<Locals>,
    types: Vec<VariableType>,
    /// By name and bytes.
    numbers: FxHashMap<(Arc<str>, u64), u32>,
    /// By the numbers of variables, and of local ones.
    of_static: Vec<Option<Option<u32>>>,
    of_local: Vec<Option<Option<u32>>>,
    threads: BTreeSet<ThreadId>,
}

/// A type that variables have.
#[derive(Debug)]
pub(super) struct VariableType {
    pub(super) name: Arc<str>,
    pub(super) table: TypeTable,
    pub(super) count: VariableCount,
}

/// Whether that is a module of the program's own, or of a library that it uses.
fn is_programs(module: Option<&str>) -> bool {
    module.is_some_and(|module| Owner::of_module(module) == Owner::Program)
}

impl VariableTypes {
    pub(super) fn new(session: &Session, heap: &HeapTypes) -> Self {
        Self {
            first: heap.count(),
            locals: Locals::of(session),
            types: Vec::new(),
            numbers: FxHashMap::default(),
            of_static: Vec::new(),
            of_local: Vec::new(),
            threads: BTreeSet::new(),
        }
    }

    /// A type by its number; nothing for one of the heap's.
    #[inline]
    pub(super) fn get(&self, type_: u32) -> Option<&VariableType> {
        self.types.get(type_.checked_sub(self.first)? as usize)
    }

    /// Whether all accesses to the variables of a type are known: not those to statics from before `main` and after it, those of other
    /// threads to a stack, nor those that a compiler moved out of the variable's block.
    pub(super) fn are_all_known(&self, count: VariableCount) -> bool {
        count.statics + count.in_blocks == 0 && (count.locals == 0 || self.threads.len() < 2)
    }

    pub(super) fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) {
        if let Some(locals) = &mut self.locals {
            locals.event(at, event);
        }
    }

    /// An access, of which stacks have to know whatever it is to. Returns its instruction.
    #[inline]
    pub(super) fn follow(&mut self, at: &mut Moment<'_>, access: &Access) -> CodeId {
        match &mut self.locals {
            Some(locals) => locals.follow(at, access),
            None => at.resolver.resolve_code(access.ip),
        }
    }

    /// Where in its type an address is that an instruction reaches, by the frames as they are; nothing where it is in no variable that has
    /// fields.
    #[inline]
    pub(super) fn place(
        &mut self,
        at: &mut Moment<'_>,
        code: CodeId,
        variable: VariableId,
        addr: VirtAddr,
    ) -> Option<TypedPlace> {
        match self.locals.as_mut().and_then(|locals| locals.local_at(at, code, addr)) {
            Some(local) => self.place_in_local(at, local),
            None => self.place_in_static(at, variable, addr),
        }
    }

    /// Where in its type an access to a local variable is.
    fn place_in_local(&mut self, at: &mut Moment<'_>, local: AccessedLocal) -> Option<TypedPlace> {
        let known = *slot(&mut self.of_local, local.number);
        let type_ = known.unwrap_or_else(|| {
            let names = at.resolver.names();
            let is_own = is_programs(names.function_module(local.function).as_deref());
            let variable = names.local(local.function, local.id).filter(|_| is_own);
            let is_in_block = variable.as_ref().is_some_and(|variable| !variable.lives_everywhere());
            let layout = variable.and_then(|_| names.local_layout(local.function, local.id));
            let type_ = layout.and_then(|layout| self.add(&layout));
            if let Some(count) = self.count(type_) {
                count.locals += 1;
                count.in_blocks += u64::from(is_in_block);
            }
            *slot(&mut self.of_local, local.number) = Some(type_);
            type_
        })?;
        if self.threads.last() != Some(&at.thread) {
            self.threads.insert(at.thread);
        }
        Some(self.get(type_)?.table.place(type_, local.into))
    }

    /// Where in its type an address in a static variable is.
    fn place_in_static(
        &mut self,
        at: &mut Moment<'_>,
        variable: VariableId,
        addr: VirtAddr,
    ) -> Option<TypedPlace> {
        let known = *slot(&mut self.of_static, variable.0);
        let type_ = known.unwrap_or_else(|| {
            let known = at.resolver.names().variable(variable);
            let is_own = known.is_some_and(|known| is_programs(known.module.as_deref()));
            let layout = is_own.then(|| at.resolver.type_of(addr)).flatten();
            let type_ = layout.and_then(|layout| self.add(&layout));
            if let Some(count) = self.count(type_) {
                count.statics += 1;
            }
            *slot(&mut self.of_static, variable.0) = Some(type_);
            type_
        })?;
        let into = at.resolver.resolve_data(addr).offset;
        Some(self.get(type_)?.table.place(type_, into))
    }

    /// The number of the type that a variable's objects have.
    #[cold]
    fn add(&mut self, variable: &TypeLayout) -> Option<u32> {
        let layout = variable.innermost();
        let is_aggregate = matches!(layout.kind, TypeKind::Struct(_) | TypeKind::Union(_));
        if !is_aggregate || layout.name.is_empty() || !(1..=MOST_BYTES).contains(&layout.bytes) {
            return None;
        }
        let next = self.first + self.types.len() as u32;
        let key = (Arc::clone(&layout.name), layout.bytes);
        let type_ = *self.numbers.entry(key).or_insert(next);
        if type_ == next {
            let (name, table) = (Arc::clone(&layout.name), TypeTable::new(layout, None, false));
            self.types.push(VariableType { name, table, count: VariableCount::default() });
        }
        let count = self.count(Some(type_))?;
        count.objects += (variable.bytes / layout.bytes).max(1);
        Some(type_)
    }

    fn count(&mut self, type_: Option<u32>) -> Option<&mut VariableCount> {
        let number = type_?.checked_sub(self.first)?;
        self.types.get_mut(number as usize).map(|known| &mut known.count)
    }
}

//! The types of a session's accesses, by instruction. A type is the same one in all units and modules that describe it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use memref::VirtAddr;
use rustc_hash::FxHashMap;
use symbols::{AllocatedType, CodeId, DebugType, Instance, LinkAddr, Module, Resolver, TypeKind, TypeLayout};
use x86::{Examiner, Instruction, MAX_INSTRUCTION_BYTES};

use super::arrays::{BoundedArray, bounded_array, local_array};
use super::step::StepInstruction;
use super::walk::{FunctionWalk, WalkedTypes};
use crate::code_files::CodeFiles;

/// Instructions of a function that are walked at most.
const MOST_STEPS: usize = 50_000;

/// What one instruction accesses, as its module describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypedCode {
    pub(super) type_: DebugType,
    /// Bytes from the start of the type.
    pub(super) offset: i64,
    pub(super) is_indexed: bool,
    pub(super) is_named: bool,
    /// The static variable that its address is counted from.
    pub(super) home: Option<LinkAddr>,
}

/// What one instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownType {
    /// The number of the type.
    pub(crate) type_: u32,
    /// Bytes from its start.
    pub(crate) offset: i64,
    /// An element of an array of it, which one is not known.
    pub(crate) is_indexed: bool,
    /// Debug information says it of that register; else it was followed there.
    pub(crate) is_named: bool,
}

/// What a call allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownAllocation {
    /// The number of the type of one object.
    pub(crate) type_: u32,
    /// How many.
    pub(crate) way: AllocationWay,
}

impl KnownAllocation {
    /// Whether a block of that size can be what this says, with objects of that size. Bytes say nothing: anything may be built in them.
    pub(crate) fn fits(self, block_bytes: u64, object_bytes: u64) -> bool {
        let fits = match self.way {
            AllocationWay::One => block_bytes == object_bytes,
            AllocationWay::Several => block_bytes >= object_bytes && block_bytes.is_multiple_of(object_bytes),
            AllocationWay::Table => block_bytes > object_bytes,
        };
        object_bytes > 1 && fits
    }
}

/// How many objects of its type a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocationWay {
    One,
    Several,
    /// A power of two, with a byte for each and 16 more behind.
    Table,
}

/// A function of a module; modules live as long as the session, so that their place in memory tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct WalkedFunction {
    module: usize,
    begin: LinkAddr,
}

/// The types of the accesses of all code.
#[derive(Default)]
pub(crate) struct CodeTypes {
    files: CodeFiles,
    examiner: Examiner,
    /// By instruction: nothing where it was not looked at.
    known: Vec<Option<Option<KnownType>>>,
    walked: FxHashMap<WalkedFunction, Arc<WalkedTypes>>,
    number_of: HashMap<(Arc<str>, u64), u32>,
    of_debug: FxHashMap<(usize, DebugType), Option<u32>>,
    layouts: Vec<Arc<TypeLayout>>,
    /// Whether any module had debug information.
    pub(crate) has_debug_info: bool,
}

impl std::fmt::Debug for CodeTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeTypes").field("types", &self.layouts.len()).finish_non_exhaustive()
    }
}

impl CodeTypes {
    /// What the instruction accesses, where that is known.
    #[inline]
    pub(crate) fn at(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> Option<KnownType> {
        let code = resolver.resolve_code(ip);
        match self.known.get(code.0 as usize) {
            Some(Some(known)) => *known,
            _ => self.find(resolver, ip, code),
        }
    }

    /// Types that have these layouts, by their places.
    #[cfg(test)]
    pub(crate) fn of(layouts: Vec<Arc<TypeLayout>>) -> Self {
        Self { layouts, ..Self::default() }
    }

    /// What an instruction that was asked for before accesses.
    #[inline]
    pub(crate) fn known(&self, code: CodeId) -> Option<KnownType> {
        self.asked(code).flatten()
    }

    /// What an instruction accesses, where that was asked for before.
    #[inline]
    pub(crate) fn asked(&self, code: CodeId) -> Option<Option<KnownType>> {
        self.known.get(code.0 as usize).copied().flatten()
    }

    /// How many types have numbers.
    pub(crate) fn count(&self) -> usize {
        self.layouts.len()
    }

    /// Numbers types that another one met in that order. Their numbers here.
    pub(crate) fn join(&mut self, other: &Self, types: Range<usize>) -> Vec<u32> {
        let layouts = other.layouts.get(types).unwrap_or_default();
        layouts.iter().map(|layout| self.number_of_layout(layout)).collect()
    }

    /// What another one knows of instructions is known here, too. Its types have these numbers here.
    pub(crate) fn join_code(&mut self, other: &Self, numbers: &[u32]) {
        self.has_debug_info |= other.has_debug_info;
        if other.known.len() > self.known.len() {
            self.known.resize(other.known.len(), None);
        }
        for (own, other) in self.known.iter_mut().zip(&other.known) {
            if let (None, Some(known)) = (&own, other) {
                *own = Some(known.map(|known| KnownType { type_: numbers[known.type_ as usize], ..known }));
            }
        }
    }

    /// The layout of a type.
    pub(crate) fn layout(&self, type_: u32) -> &Arc<TypeLayout> {
        &self.layouts[type_ as usize]
    }

    #[cold]
    fn find(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) -> Option<KnownType> {
        let found = self.look(resolver, ip, code);
        let index = code.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, None);
        }
        self.known[index] = Some(found);
        found
    }

    fn look(&mut self, resolver: &Resolver, ip: VirtAddr, code: CodeId) -> Option<KnownType> {
        let (module, address, walked) = self.walked_at(resolver, ip, code)?;
        let typed = *walked.accesses.get(&address)?;
        let type_ = self.number(&module, typed.type_)?;
        Some(KnownType {
            type_,
            offset: typed.offset,
            is_indexed: typed.is_indexed,
            is_named: typed.is_named,
        })
    }

    /// What the result of the call at that address is taken for.
    pub(crate) fn results(&mut self, resolver: &Resolver, call: VirtAddr, code: CodeId) -> Vec<u32> {
        let Some((module, address, walked)) = self.walked_at(resolver, call, code) else { return Vec::new() };
        let types = walked.results.get(&address).into_iter().flatten();
        types.filter_map(|type_| self.number(&module, *type_)).collect()
    }

    /// What the generic function that calls the allocator at that address allocates, where it was made for one type.
    pub(crate) fn allocated(&mut self, resolver: &Resolver, code: CodeId) -> Option<KnownAllocation> {
        let name = resolver.names().code(code)?;
        let (module, address) = name.place()?;
        if !module.has_debug_info() {
            return None;
        }
        let function = module.typed_function(module.function_at(address)?.address)?;
        // The innermost one comes last; one that returns a pointer to anything leaves it to those that it was inlined into.
        let mut around =
            function.allocating.iter().rev().filter(|allocating| allocating.code.contains(&address));
        let (type_, way) = around.find_map(|allocating| match allocating.allocates {
            AllocatedType::One(type_) => Some((type_, AllocationWay::One)),
            AllocatedType::Element(type_) => Some((type_, AllocationWay::Several)),
            AllocatedType::Table(type_) => Some((type_, AllocationWay::Table)),
            AllocatedType::PointedTo(pointer) => Some((module.pointee(pointer)?, AllocationWay::Several)),
        })?;
        Some(KnownAllocation { type_: self.number(module, type_)?, way })
    }

    /// The array that an instruction takes elements of, with its name: it adds what is not known to the start of it.
    pub(crate) fn array(&mut self, resolver: &mut Resolver, ip: VirtAddr) -> Option<(BoundedArray, String)> {
        let code = resolver.resolve_code(ip);
        let (module, address, walked) = self.walked_at(resolver, ip, code)?;
        if let Some(&slot) = walked.frames.get(&address) {
            let function = module.function_at(address)?.address;
            let array = local_array(&module, &*module.typed_function(function)?, address, slot)?;
            let locals = module.locals_at(function, slot);
            let local = locals.iter().find(|(_, local)| local.lives_at(address));
            let name = local.map_or("an array on the stack".to_owned(), |(_, local)| local.name.to_string());
            return Some((array, name));
        }
        let typed = walked.accesses.get(&address).filter(|typed| typed.is_indexed)?;
        let member = u64::try_from(typed.offset);
        let Some(home) = typed.home else {
            let (start, layout) = (member.ok()?, module.layout_of(typed.type_)?);
            if !matches!(layout.kind, TypeKind::Struct(_)) {
                return None;
            }
            let bytes = bounded_array(&layout, start)?;
            let path = layout.path(start, None)?;
            let name = format!("{}{}", layout.name, path.trim_end_matches("[0]"));
            return Some((BoundedArray::Member { start, bytes, object_bytes: layout.bytes }, name));
        };
        let (type_, into) = module.typed_data(home)?;
        let layout = module.layout_of(type_)?;
        // Of a variable that is an array itself, all is counted from its start.
        let (start, bytes) = match &layout.kind {
            TypeKind::Array { .. } if into == 0 => (home, bounded_array(&layout, 0)?),
            _ => {
                let start = home.0.checked_sub(into)?.checked_add(member.ok()?)?;
                (LinkAddr(start), bounded_array(&layout, member.ok()?)?)
            }
        };
        let (_, instance) = resolver.image().instance_at(ip)?;
        let start = instance.placed(start);
        let variable = resolver.resolve_data(start).variable;
        let name = resolver.names().variable(variable)?.name.to_string();
        let path = resolver.field_path(start, 1).unwrap_or_default();
        let name = format!("{name}{}", path.trim_end_matches("[0]"));
        Some((BoundedArray::Static { start, bytes }, name))
    }

    /// The walk through the function of an instruction.
    fn walked_at(
        &mut self,
        resolver: &Resolver,
        ip: VirtAddr,
        code: CodeId,
    ) -> Option<(Arc<Module>, LinkAddr, Arc<WalkedTypes>)> {
        let name = resolver.names().code(code)?;
        let (module, address) = name.place()?;
        if !module.has_debug_info() {
            return None;
        }
        self.has_debug_info = true;
        let function = module.function_at(address)?;
        let (begin, bytes) = (function.address, function.bytes);
        let key = WalkedFunction { module: Arc::as_ptr(module) as usize, begin };
        let walked = match self.walked.get(&key) {
            Some(walked) => Arc::clone(walked),
            None => {
                let instance = resolver.image().instance_at(ip)?.1;
                let walked = Arc::new(self.walk(resolver, instance, begin, bytes));
                self.walked.insert(key, Arc::clone(&walked));
                walked
            }
        };
        Some((Arc::clone(module), address, walked))
    }

    fn walk(&mut self, resolver: &Resolver, instance: &Instance, begin: LinkAddr, bytes: u64) -> WalkedTypes {
        let mut found = WalkedTypes::default();
        let module = &*instance.module;
        let Some(typed) = module.typed_function(begin) else { return found };
        let mut steps = Vec::new();
        let mut at = begin;
        while at < begin.saturating_offset(bytes) && steps.len() < MOST_STEPS {
            let mut buffer = [0; MAX_INSTRUCTION_BYTES];
            let Some(code) = self.files.at(resolver, instance.placed(at), &mut buffer) else {
                break;
            };
            let Some(instruction) = Instruction::decode(code, at.0) else { break };
            let step = StepInstruction::of(&instruction, &mut self.examiner);
            at = step.next;
            steps.push(step);
        }
        FunctionWalk { module, typed, steps: &steps, found: &mut found, is_again: false }.run();
        found
    }

    /// The number of a module's type; nothing for what has no name or no bytes.
    fn number(&mut self, module: &Arc<Module>, type_: DebugType) -> Option<u32> {
        let key = (Arc::as_ptr(module) as usize, type_);
        if let Some(known) = self.of_debug.get(&key) {
            return *known;
        }
        let layout = module.layout_of(type_).filter(|layout| layout.bytes > 0 && !layout.name.is_empty());
        let number = layout.map(|layout| self.number_of_layout(&layout));
        self.of_debug.insert(key, number);
        number
    }

    fn number_of_layout(&mut self, layout: &Arc<TypeLayout>) -> u32 {
        let next = self.layouts.len() as u32;
        let number = *self.number_of.entry((Arc::clone(&layout.name), layout.bytes)).or_insert(next);
        if number == next {
            self.layouts.push(Arc::clone(layout));
        }
        number
    }

    /// Whether a type is another name for the one value that it has: `Cell<isize>`, `unique_ptr<T>`.
    pub(crate) fn is_wrapper(&self, type_: u32) -> bool {
        fn wraps(layout: &TypeLayout, depth: u32) -> bool {
            let TypeKind::Struct(members) = &layout.kind else {
                return matches!(layout.kind, TypeKind::Scalar);
            };
            let mut with_bytes = members
                .iter()
                .filter(|member| !matches!(&member.layout.kind, TypeKind::Struct(inner) if inner.is_empty()));
            match (with_bytes.next(), with_bytes.next()) {
                (Some(only), None) => {
                    depth < 16 && only.layout.bytes == layout.bytes && wraps(&only.layout, depth + 1)
                }
                _ => false,
            }
        }
        self.is_aggregate(type_) && wraps(self.layout(type_), 0)
    }

    /// Whether a type consists of members.
    pub(crate) fn is_aggregate(&self, type_: u32) -> bool {
        matches!(self.layout(type_).kind, TypeKind::Struct(_) | TypeKind::Union(_))
    }
}

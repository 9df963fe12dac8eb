//! Accesses out of the bounds of arrays: an instruction that accesses elements of one array also accesses memory outside it.
//!
//! Compilers compute `a[i - 10]` from an address ten elements before the array, which may be the start of another
//! array. Therefore an instruction is attributed to an array only if some of its accesses hit that array.

use memref::{Access, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{CodeId, Resolver};

use super::finding::FoundError;
use crate::stack::CallPlace;
use crate::typing::{BoundedArray, CodeTypes};
use crate::{FirstPlace, amount};

/// What an access is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayBase {
    /// It is to static memory.
    Static,
    /// The canonical frame address of the function that makes it.
    Frame(VirtAddr),
    /// The block that it is to: its start and bytes.
    Block(VirtAddr, u64),
}

/// Instructions that take elements of arrays.
#[derive(Debug, Default)]
pub(super) struct ArrayBounds {
    types: CodeTypes,
    /// By the instruction's number; nothing where it was not looked at.
    known: Vec<Option<Option<Box<IndexingCode>>>>,
    /// Of threads where nothing told yet where the running function's frame is.
    waiting: FxHashMap<ThreadId, Vec<StackAccess>>,
}

/// One of them.
#[derive(Debug)]
struct IndexingCode {
    /// Where it was when it was looked at: in another process its file may lie elsewhere, with its arrays.
    ip: VirtAddr,
    array: BoundedArray,
    name: String,
    was_inside: bool,
    outside: Option<OutsideAccess>,
}

/// An access to what may be a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackAccess {
    pub(super) code: CodeId,
    pub(super) access: Access,
    pub(super) place: Option<CallPlace>,
}

/// Accesses of a thread's first function that are kept until something tells where its frame is.
const MOST_WAITING: usize = 4096;

/// Accesses that were not to the array.
#[derive(Clone, Debug)]
pub(super) struct OutsideAccess {
    /// Of the first.
    pub(super) place: Option<CallPlace>,
    pub(super) error: FoundError,
}

impl ArrayBounds {
    /// An access to what may be a stack, with the canonical frame address (CFA) of the function that makes it, where that is known.
    pub(super) fn on_stack(
        &mut self,
        resolver: &mut Resolver,
        thread: ThreadId,
        one: StackAccess,
        cfa: Option<VirtAddr>,
    ) {
        let Some(cfa) = cfa else {
            let waiting = self.waiting.entry(thread).or_default();
            if waiting.len() < MOST_WAITING {
                waiting.push(one);
            }
            return;
        };
        if !self.waiting.is_empty() {
            let function = |code| resolver.names().code(code).map(|code| code.function_id);
            let own = function(one.code);
            let mut waiting = self.waiting.remove(&thread).unwrap_or_default();
            waiting.retain(|one| function(one.code) == own);
            for StackAccess { code, access, place } in waiting {
                self.access(resolver, code, &access, ArrayBase::Frame(cfa), place);
            }
        }
        self.access(resolver, one.code, &one.access, ArrayBase::Frame(cfa), one.place);
    }

    /// Whether that instruction was looked at, and takes elements of no array.
    pub(super) fn knows_of_none(&self, code: CodeId) -> bool {
        matches!(self.known.get(code.0 as usize), Some(Some(None)))
    }

    /// Whether accesses of a thread are kept until something tells where its frame is.
    #[inline]
    pub(super) fn keeps(&self, thread: ThreadId) -> bool {
        !self.waiting.is_empty() && self.waiting.contains_key(&thread)
    }

    /// An access by that instruction.
    pub(super) fn access(
        &mut self,
        resolver: &mut Resolver,
        code: CodeId,
        access: &Access,
        base: ArrayBase,
        place: Option<CallPlace>,
    ) {
        let index = code.0 as usize;
        if index >= self.known.len() {
            self.known.resize_with(index + 1, || None);
        }
        let types = &mut self.types;
        let known = self.known[index].get_or_insert_with(|| {
            let (array, name) = types.array(resolver, access.ip)?;
            Some(Box::new(IndexingCode { ip: access.ip, array, name, was_inside: false, outside: None }))
        });
        let Some(code) = known else { return };
        let (start, bytes) = match (code.array, base) {
            (BoundedArray::Static { start, bytes }, ArrayBase::Static) => {
                let moved = access.ip.0.wrapping_sub(code.ip.0);
                (VirtAddr(start.0.wrapping_add(moved)), bytes)
            }
            (BoundedArray::Local { start, bytes }, ArrayBase::Frame(cfa)) => {
                (VirtAddr(cfa.0.wrapping_add_signed(start)), bytes)
            }
            (BoundedArray::Member { start, bytes, object_bytes }, ArrayBase::Block(block, len))
                if len == object_bytes =>
            {
                (block.offset(start), bytes)
            }
            _ => return,
        };
        let end = start.0.saturating_add(bytes);
        let last = access.addr.0.saturating_add(access.size.into());
        if access.addr >= start && last <= end {
            code.was_inside = true;
            return;
        }
        let (kind, size, name) = (access.kind.name(), access.size, &code.name);
        let outside = code.outside.get_or_insert_with(|| {
            let place = if access.addr < start {
                format!("{} before", start.distance(access.addr))
            } else {
                format!("{} after", VirtAddr(last).0.saturating_sub(u64::from(size)).saturating_sub(end))
            };
            let what =
                format!("{kind} of {}, {place} {name}, an array of {bytes}", amount(size.into(), "byte"));
            let first_seen = Some(FirstPlace::of_memory(resolver.process(), access.addr));
            let error = FoundError { first_seen, ..FoundError::new(what, size.into(), name.clone(), None) };
            OutsideAccess { place: None, error }
        });
        outside.place = outside.place.or(place);
        outside.error.times += 1;
    }

    /// What was found.
    pub(super) fn into_found(self) -> impl Iterator<Item = OutsideAccess> {
        let believed = self.known.into_iter().flatten().flatten().filter(|code| code.was_inside);
        believed.filter_map(|code| code.outside)
    }
}

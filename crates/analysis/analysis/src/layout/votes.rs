//! The first replay: each access with a type votes for its block.

use memref::{Access, AccessKind, ProcessId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::{
    BlockId, BlockState, CodeName, Resolver, SiteId, TypeKind, TypeLayout, VariableId, VariableKind,
};

use super::parts::{PartWay, has_scalar, part_at};
use crate::typing::{AllocationWay, CodeTypes, KnownAllocation, KnownType};
use crate::{Error, Moment, Tool};

/// Candidates of a block; more than that are no majority.
const MOST_CANDIDATES: usize = 24;
/// Blocks up to this size are taken for one object whose parts have their places; larger ones for arrays, whose elements are one.
const MOST_OBJECT_BYTES: u64 = 512;
/// Bytes that hashbrown looks at together, at the end of each of its tables once more.
const TABLE_GROUP_BYTES: u64 = 16;

/// A type that begins at a place of a block, and, unless that is one object, again after each of its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PlacedType {
    pub(super) type_: u32,
    pub(super) base: u32,
}

#[derive(Clone, Copy, Debug)]
struct TypeVote {
    placed: PlacedType,
    count: u64,
    /// Where it began at first: in a larger block, whose elements are one, tells where in an element.
    first: u32,
}

/// A block that was accessed.
#[derive(Clone, Debug)]
pub(super) struct VotedBlock {
    pub(super) start: VirtAddr,
    pub(super) len: u64,
    pub(super) process: ProcessId,
    pub(super) id: BlockId,
    pub(super) site: SiteId,
    votes: Vec<TypeVote>,
    /// What the code that allocated it was made for.
    allocated: Option<KnownAllocation>,
}

/// What a variable is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum VotedVariable {
    #[default]
    NotYet,
    Other,
    Block(u32),
}

/// How many accesses to heap blocks know their types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypedShare {
    /// All of them.
    pub accesses: u64,
    /// Those whose instruction knows it: by a variable in a register, and by following pointers.
    pub by_variable: u64,
    /// By following pointers.
    pub by_flow: u64,
}

/// Collects votes.
#[derive(Debug, Default)]
pub(crate) struct BlockTypes {
    pub(super) types: CodeTypes,
    pub(super) known: Vec<VotedVariable>,
    pub(super) blocks: Vec<VotedBlock>,
    share: TypedShare,
    /// What the results of allocating calls are taken for.
    made_at: FxHashMap<(ProcessId, SiteId), Vec<u32>>,
    /// What allocating calls were made for.
    allocated_at: FxHashMap<(ProcessId, SiteId), Option<KnownAllocation>>,
    /// Calls in functions that may allocate for everyone.
    everyones: FxHashSet<(ProcessId, SiteId)>,
}

/// The type of a block, and what else was voted for.
#[derive(Clone, Debug)]
pub(super) struct DecidedType {
    pub(super) placed: PlacedType,
    /// Where it was voted for, which may be a later element.
    raw: PlacedType,
    /// Votes for it and for what agrees with it.
    pub(super) votes: u64,
    /// For types that do not.
    pub(super) others: Vec<(PlacedType, u64)>,
    /// What is built in its bytes, and where in it.
    pub(super) stored: Option<PlacedType>,
    /// Bytes of the block, from where the type begins on, that are objects of it.
    pub(super) objects_bytes: u64,
}

/// Bytes of a table of hashbrown that hold its entries; behind them are a byte for each and those of one group.
fn table_bytes(block_bytes: u64, entry_bytes: u64) -> u64 {
    let fits = |count: u64| count * entry_bytes + count + TABLE_GROUP_BYTES <= block_bytes;
    let mut count = 1;
    while fits(2 * count) {
        count *= 2;
    }
    (count * entry_bytes).min(block_bytes)
}

/// Bytes that a block of that type has at least: a structure that ends in an array is allocated as long as that is needed, in C also where
/// the array has a bound of one (`char contents[1]`).
fn least_bytes(layout: &TypeLayout) -> u64 {
    match &layout.kind {
        TypeKind::Struct(members) => match members.last() {
            Some(last) if matches!(last.layout.kind, TypeKind::Array { .. }) => last.offset,
            _ => layout.bytes,
        },
        _ => layout.bytes,
    }
}

/// Whether a call may be made for blocks of all types: in Rust's library, and in code of which nobody knows what it is for, such as a
/// stripped program's only call of realloc.
fn allocates_for_everyone(code: &CodeName) -> bool {
    let function = code.function.as_deref().unwrap_or_default();
    let name = function.trim_start_matches('<');
    let is_rusts = || {
        ["__rdl_", "__rust_", "alloc::alloc::", "std::alloc::System"].iter().any(|start| name.starts_with(start))
            || name.contains("::__rdl_")
            || name.contains("std::sys::alloc::")
            // What vectors of all types grow by.
            || name.contains("RawVecInner")
    };
    let is_unknown = || code.place().is_some_and(|(module, _)| !module.has_debug_info());
    // Functions of C++'s library are made for one type, and say which.
    is_rusts() || is_unknown() && !name.starts_with("std::")
}

/// What was voted for in a block, each where it began at first.
fn candidates(block: &VotedBlock) -> Candidates {
    let mut all = Candidates::default();
    for vote in &block.votes {
        *all.entry(PlacedType { base: vote.first, ..vote.placed }).or_default() += vote.count;
    }
    all
}

pub(super) type Candidates = FxHashMap<PlacedType, u64>;

impl BlockTypes {
    /// What the instructions know.
    pub(super) fn share(&self) -> TypedShare {
        self.share
    }

    /// Whether any code had debug information.
    pub(super) fn has_debug_info(&self) -> bool {
        self.types.has_debug_info
    }

    /// The block that an address lies in.
    #[inline]
    pub(super) fn block_at(&mut self, resolver: &mut Resolver, addr: VirtAddr) -> Option<u32> {
        let variable = resolver.resolve_data(addr).variable;
        match self.known.get(variable.0 as usize) {
            Some(VotedVariable::Block(block)) => Some(*block),
            Some(VotedVariable::Other) => None,
            _ => self.find(resolver, variable),
        }
    }

    #[cold]
    fn find(&mut self, resolver: &mut Resolver, id: VariableId) -> Option<u32> {
        let variable = resolver.names().variable(id);
        let block = variable.and_then(|variable| match variable.kind {
            VariableKind::Block { process, block: id, state: BlockState::Live } => {
                let block = resolver.heap().block(id)?;
                let site = resolver.heap().site(block.site)?;
                // A mapping is no object; allocators of the program take theirs from it.
                let is_mapping =
                    matches!(site.kind, memref::AllocationKind::Mmap | memref::AllocationKind::Mremap);
                (!is_mapping).then(|| VotedBlock {
                    start: block.start,
                    len: block.len,
                    process,
                    id,
                    site: block.site,
                    votes: Vec::new(),
                    allocated: None,
                })
            }
            _ => None,
        });
        let index = id.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, VotedVariable::NotYet);
        }
        let Some(block) = block else {
            self.known[index] = VotedVariable::Other;
            return None;
        };
        let number = self.blocks.len() as u32;
        let votes = self.made(resolver, &block);
        let allocated = self.allocated(resolver, &block);
        self.blocks.push(VotedBlock { votes, allocated, ..block });
        self.known[index] = VotedVariable::Block(number);
        Some(number)
    }

    /// What the code that allocated a block takes it for: a candidate that other votes may agree with.
    fn made(&mut self, resolver: &mut Resolver, block: &VotedBlock) -> Vec<TypeVote> {
        let Some(ip) = resolver.heap().site(block.site).map(|site| site.ip) else { return Vec::new() };
        let site = (block.process, block.site);
        let types = self.made_at.entry(site).or_insert_with(|| {
            let code = resolver.resolve_code(ip);
            if resolver.names().code(code).is_none_or(|code| allocates_for_everyone(&code)) {
                self.everyones.insert(site);
            }
            self.types.results(resolver, ip, code)
        });
        let fits = |type_: &&u32| self.types.layout(**type_).bytes <= block.len;
        let candidates = types.iter().filter(fits);
        candidates
            .map(|type_| TypeVote { placed: PlacedType { type_: *type_, base: 0 }, count: 0, first: 0 })
            .collect()
    }

    /// What the code that allocated a block was made for.
    fn allocated(&mut self, resolver: &mut Resolver, block: &VotedBlock) -> Option<KnownAllocation> {
        let ip = resolver.heap().site(block.site)?.ip;
        let site = (block.process, block.site);
        let types = &mut self.types;
        let found = self.allocated_at.entry(site).or_insert_with(|| {
            let code = resolver.resolve_code(ip);
            types.allocated(resolver, code)
        });
        found.filter(|found| found.fits(block.len, self.types.layout(found.type_).bytes))
    }

    /// Whether a block's call may be made for blocks of all types, as that in Rust's allocator is.
    fn is_everyones(&self, block: &VotedBlock) -> bool {
        self.everyones.contains(&(block.process, block.site))
    }

    /// A vote of an instruction that knows its type. Returns what it is for, if it says something of the block.
    pub(super) fn vote(&mut self, number: u32, addr: VirtAddr, known: KnownType) -> Option<PlacedType> {
        let bytes = self.types.layout(known.type_).bytes;
        let block = &mut self.blocks[number as usize];
        let into = addr.0.wrapping_sub(block.start.0);
        let base = into.checked_add_signed(known.offset.wrapping_neg())?;
        let is_object = block.len <= MOST_OBJECT_BYTES;
        let in_element = base % bytes;
        let placed =
            PlacedType { type_: known.type_, base: if is_object { base } else { in_element } as u32 };
        // Of an element that is not known, only a place that an array from the start on has says something.
        if base >= block.len || known.is_indexed && in_element != 0 {
            return None;
        }
        if let Some(vote) = block.votes.iter_mut().find(|vote| vote.placed == placed) {
            vote.count += 1;
        } else if block.votes.len() < MOST_CANDIDATES {
            block.votes.push(TypeVote { placed, count: 1, first: base as u32 });
        } else if let Some(vote) = block.votes.iter_mut().find(|vote| {
            vote.placed.type_ == placed.type_ && u64::from(vote.placed.base) % bytes == in_element
        }) {
            vote.count += 1;
        }
        Some(placed)
    }

    /// What was voted for.
    pub(super) fn candidates(&self, number: u32) -> Candidates {
        candidates(&self.blocks[number as usize])
    }

    /// The type of each block.
    pub(super) fn decide(&self) -> Vec<Option<DecidedType>> {
        let mut by_size: FxHashMap<(ProcessId, SiteId, u64), Candidates> = FxHashMap::default();
        let mut by_site: FxHashMap<(ProcessId, SiteId), Candidates> = FxHashMap::default();
        for block in &self.blocks {
            if self.is_everyones(block) {
                continue;
            }
            for (placed, count) in candidates(block) {
                let key = (block.process, block.site, block.len);
                *by_size.entry(key).or_default().entry(placed).or_default() += count;
                *by_site.entry((block.process, block.site)).or_default().entry(placed).or_default() += count;
            }
        }
        let by_size: FxHashMap<_, _> =
            by_size.into_iter().map(|(key, votes)| (key, self.winner(&votes, key.2))).collect();
        let by_site: FxHashMap<_, _> =
            by_site.into_iter().map(|(key, votes)| (key, self.winner(&votes, u64::MAX))).collect();
        let decided = self.blocks.iter().enumerate().map(|(number, block)| {
            if let Some(allocated) = block.allocated {
                return Some(self.as_allocated(number as u32, allocated));
            }
            let whole = self.winner(&self.candidates(number as u32), block.len);
            let of_size = || by_size.get(&(block.process, block.site, block.len)).cloned().flatten();
            // A block of another size is an array, or it is something else.
            let is_array = |decided: &DecidedType| {
                block.len.is_multiple_of(self.types.layout(decided.placed.type_).bytes)
            };
            let of_site = || by_site.get(&(block.process, block.site)).cloned().flatten().filter(is_array);
            // Numbers alone are what a block has that holds nothing else, and its site may know better; a wrapper of a number is a
            // part of what the site knows, or else not.
            let is_part = |whole: &DecidedType, site: &DecidedType| {
                self.types.is_wrapper(whole.placed.type_)
                    && part_at(
                        self.types.layout(site.placed.type_),
                        self.within(&whole.raw, &site.raw),
                        self.types.layout(whole.placed.type_),
                    )
                    .is_some()
            };
            let site = match &whole {
                None => of_size().or_else(of_site),
                Some(whole) if !self.types.is_aggregate(whole.placed.type_) => {
                    of_size().or_else(of_site).filter(|site| self.has_numbers(block, &site.placed))
                }
                Some(whole) => of_size().filter(|site| is_part(whole, site)),
            };
            let fits = |decided: &DecidedType| {
                let least = least_bytes(self.types.layout(decided.placed.type_));
                u64::from(decided.placed.base) + least <= block.len.max(1)
            };
            let decided = site
                .filter(|site| whole.is_none() || self.types.is_aggregate(site.placed.type_))
                .or(whole)
                .filter(fits)?;
            let objects_bytes = block.len.saturating_sub(decided.placed.base.into());
            Some(DecidedType { objects_bytes, ..decided })
        });
        decided.collect()
    }

    /// Whether a type has all the numbers that a block's accesses took it for, at their places: else it is something else.
    fn has_numbers(&self, block: &VotedBlock, whole: &PlacedType) -> bool {
        let outer = self.types.layout(whole.type_);
        block.votes.iter().filter(|vote| vote.count > 0).all(|vote| {
            let inner = self.types.layout(vote.placed.type_);
            self.types.is_aggregate(vote.placed.type_)
                || has_scalar(outer, self.within(&vote.placed, whole), inner.bytes)
        })
    }

    /// The type that most votes agree with; a larger one has its parts' votes.
    pub(super) fn winner(&self, votes: &Candidates, len: u64) -> Option<DecidedType> {
        let layout = |placed: &PlacedType| self.types.layout(placed.type_);
        let fits = |placed: &PlacedType| u64::from(placed.base) + least_bytes(layout(placed)) <= len;
        let mut all: Vec<(PlacedType, u64)> = votes.iter().map(|(placed, votes)| (*placed, *votes)).collect();
        all.sort_unstable_by_key(|(placed, _)| *placed);
        let sums = all.iter().filter(|(placed, _)| fits(placed)).map(|(whole, own)| {
            let parts = all.iter().filter(|(part, _)| self.agreement(part, whole).is_some());
            (parts.map(|(_, votes)| votes).sum::<u64>(), *own, *whole)
        });
        let (votes, _, placed) = sums.max_by_key(|(sum, own, placed)| {
            // Of those that say the same, what fills the block.
            let fills = placed.base == 0 && len.is_multiple_of(layout(placed).bytes);
            (*sum, fills, *own, layout(placed).bytes)
        })?;
        Some(self.decided(&all, placed, votes, len))
    }

    /// The type of a block that the allocating code knows.
    fn as_allocated(&self, number: u32, allocated: KnownAllocation) -> DecidedType {
        let block = &self.blocks[number as usize];
        let placed = PlacedType { type_: allocated.type_, base: 0 };
        let mut all: Vec<(PlacedType, u64)> = self.candidates(number).into_iter().collect();
        all.sort_unstable_by_key(|(placed, _)| *placed);
        let parts = all.iter().filter(|(part, _)| self.agreement(part, &placed).is_some());
        let votes = parts.map(|(_, votes)| votes).sum();
        let decided = self.decided(&all, placed, votes, block.len);
        let entry_bytes = self.types.layout(allocated.type_).bytes;
        let objects_bytes = match allocated.way {
            AllocationWay::Table => table_bytes(block.len, entry_bytes),
            AllocationWay::One | AllocationWay::Several => decided.objects_bytes,
        };
        DecidedType { placed, objects_bytes, ..decided }
    }

    /// What was voted for, held against one type.
    fn decided(&self, all: &[(PlacedType, u64)], placed: PlacedType, votes: u64, len: u64) -> DecidedType {
        let layout = |placed: &PlacedType| self.types.layout(placed.type_);
        let mut others: Vec<(PlacedType, u64)> =
            all.iter().filter(|(part, _)| self.agreement(part, &placed).is_none()).copied().collect();
        others.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        let stored = all.iter().filter(|(part, _)| {
            self.agreement(part, &placed) == Some(PartWay::Storage) && self.types.is_aggregate(part.type_)
        });
        let stored = stored
            .max_by_key(|(part, votes)| (*votes, layout(part).bytes))
            .map(|(part, _)| PlacedType { type_: part.type_, base: self.within(part, &placed) as u32 });
        // An array from the start on, or what begins after something else.
        let bytes = layout(&placed).bytes;
        let same = all.iter().filter(|(other, _)| {
            other.type_ == placed.type_ && u64::from(other.base.abs_diff(placed.base)).is_multiple_of(bytes)
        });
        let first = same.map(|(other, _)| other.base).min().unwrap_or(placed.base);
        let base = match u64::from(first) {
            first if first.is_multiple_of(bytes) => 0,
            first if len > MOST_OBJECT_BYTES => (first % bytes) as u32,
            _ => first,
        };
        let objects_bytes = len.saturating_sub(base.into());
        DecidedType {
            placed: PlacedType { base, ..placed },
            raw: placed,
            votes,
            others,
            stored,
            objects_bytes,
        }
    }

    /// Where a part lies in the whole, or in an element of an array of it.
    fn within(&self, part: &PlacedType, whole: &PlacedType) -> u64 {
        let bytes = self.types.layout(whole.type_).bytes;
        (u64::from(part.base) + bytes - u64::from(whole.base) % bytes) % bytes
    }

    /// How a vote goes with another one for the whole, if it does.
    fn agreement(&self, part: &PlacedType, whole: &PlacedType) -> Option<PartWay> {
        let (inner, outer) = (self.types.layout(part.type_), self.types.layout(whole.type_));
        let into = self.within(part, whole);
        if part.type_ == whole.type_ && into == 0 {
            return Some(PartWay::Member);
        }
        if !self.types.is_aggregate(part.type_) {
            let is_inside = self.types.is_aggregate(whole.type_) && inner.bytes <= outer.bytes;
            return is_inside.then_some(PartWay::Member);
        }
        part_at(outer, into, inner)
    }
}

impl Tool for BlockTypes {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            let Some(block) = self.block_at(at.resolver, access.addr) else { continue };
            self.share.accesses += 1;
            if let Some(known) = self.types.at(at.resolver, access.ip) {
                *if known.is_named { &mut self.share.by_variable } else { &mut self.share.by_flow } += 1;
                self.vote(block, access.addr, known);
            }
        }
        Ok(())
    }
}

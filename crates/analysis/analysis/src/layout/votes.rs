//! The first replay: each access with a type votes for its block.

use std::ops::Range;
use std::sync::Arc;

use memref::{Access, AccessKind, AllocationKind, Event, ProcessId, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};
use symbols::{
    BlockId, BlockState, CodeId, CodeName, Resolver, SiteId, TypeKind, TypeLayout, VariableId, VariableKind,
};
use trace_format::{ExecutedFrame, ExecutedItem};

use super::parts::{PartWay, has_scalar, part_at, part_behind, share_head};
use super::pools::{ToldObject, ToldObjects};
use super::untyped_groups::{KnownSoFar, UntypedGroups};
use crate::typing::{AllocationWay, CodeTypes, KnownAllocation, KnownType};
use crate::{Error, Moment, Tool};

/// Candidates of a block; more than that are no majority.
pub(super) const MOST_CANDIDATES: usize = 24;
/// Those that one of several keeps.
const MOST_DIVIDED: usize = 4 * MOST_CANDIDATES;
/// Blocks up to this size are taken for one object whose parts have their places; larger ones for arrays, whose elements are one.
pub(super) const MOST_OBJECT_BYTES: u64 = 512;
/// The part of a larger block's votes that is for other types than its own, at least, where several share it: one in so many.
const LEAST_SHARED: u64 = 20;
/// Votes for an object in a small block where nothing else is told of, at least.
const LEAST_BESIDE: u64 = 2;
/// One block that is something else among so many does not make a call one for several types.
const MOST_ALIKE: u64 = 50;
/// Bytes that hashbrown looks at together, at the end of each of its tables once more.
const TABLE_GROUP_BYTES: u64 = 16;

/// A type that begins at a place of a block, and, unless that is one object, again after each of its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PlacedType {
    pub(super) type_: u32,
    pub(super) base: u32,
}

/// The votes for one type at one place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeVote {
    pub(super) placed: PlacedType,
    pub(super) count: u64,
    /// Where the first element of those that were accessed begins: in a larger block, whose elements are one, tells where in an element.
    pub(super) first: u32,
    /// Where the last one begins.
    pub(super) last: u32,
    /// The place in the type furthest from its start that was accessed.
    pub(super) furthest: u32,
    /// Of those who take votes slice by slice: how many they had taken before the first one.
    pub(super) slice: u32,
}

/// A block that was accessed.
#[derive(Clone, Debug)]
pub(super) struct VotedBlock {
    pub(super) start: VirtAddr,
    pub(super) len: u64,
    pub(super) process: ProcessId,
    pub(super) id: BlockId,
    pub(super) site: SiteId,
    pub(super) votes: Vec<TypeVote>,
    /// What the code that allocated it was made for.
    pub(super) allocated: Option<KnownAllocation>,
    /// A mapping, which is no object: allocators of the program take theirs from it.
    pub(super) is_mapping: bool,
    /// An access told of one in it.
    pub(super) has_objects: bool,
}

impl VotedBlock {
    /// Adds votes for a type of so many bytes. With so many candidates no further one is taken: then they are for one at the same place of an
    /// element. False where there is no room.
    pub(super) fn add(&mut self, votes: TypeVote, bytes: u64, most: usize) -> bool {
        let place = self.votes.iter().position(|vote| vote.placed == votes.placed);
        let has_room = place.is_some() || self.votes.len() < most;
        let place = match place {
            None if has_room => {
                self.votes.push(TypeVote { count: 0, ..votes });
                Some(self.votes.len() - 1)
            }
            None => self.votes.iter().position(|vote| {
                vote.placed.type_ == votes.placed.type_
                    && u64::from(vote.placed.base) % bytes == u64::from(votes.placed.base) % bytes
            }),
            known => known,
        };
        if let Some(vote) = place.map(|place| &mut self.votes[place]) {
            vote.count += votes.count;
            vote.first = vote.first.min(votes.first);
            vote.last = vote.last.max(votes.last);
            vote.furthest = vote.furthest.max(votes.furthest);
        }
        has_room
    }
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
    pub(super) share: TypedShare,
    pub(super) missing: u64,
    /// Where others take votes, too: how many slices of the replay were taken.
    pub(super) slices: u32,
    /// Then more candidates are kept, since which are the first ones is known when all are joined.
    is_divided: bool,
    /// A block has more candidates than are kept.
    pub(super) is_overfull: bool,
    /// What the results of allocating calls are taken for.
    made_at: FxHashMap<(ProcessId, SiteId), Vec<u32>>,
    /// What allocating calls were made for.
    allocated_at: FxHashMap<(ProcessId, SiteId), Option<KnownAllocation>>,
    /// Calls in functions that may allocate for everyone.
    pub(super) everyones: FxHashSet<(ProcessId, SiteId)>,
    untyped: UntypedGroups,
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
    /// Those of them up to the last object that an access told of.
    pub(super) told_bytes: u64,
    /// Whether the code that allocated the block knew its type.
    pub(super) is_allocated: bool,
}

/// A block that objects of several types share.
#[derive(Debug)]
pub(super) enum SharedBlock {
    /// A small one, and what accesses told of.
    Small(ToldObjects),
    /// A larger one, of which the votes do not tell where they are.
    Larger,
}

/// The votes for one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VoteSum {
    pub(super) count: u64,
    last: u32,
    furthest: u32,
}

impl VoteSum {
    /// One, of an access so many bytes from the start of the type.
    pub(super) fn one(offset: u32) -> Self {
        Self { count: 1, last: 0, furthest: offset }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.last = self.last.max(other.last);
        self.furthest = self.furthest.max(other.furthest);
    }
}

/// A candidate, and the votes for it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    placed: PlacedType,
    votes: VoteSum,
}

/// The blocks of a call, or those of one size.
#[derive(Debug, Default)]
struct SiteBlocks {
    votes: Candidates,
    decided: Option<DecidedType>,
    /// Blocks whose own votes say the same, and those that say something else.
    alike: u64,
    different: u64,
}

impl SiteBlocks {
    /// What a block has of which its own votes say too little: a call that allocates several types tells nothing of it.
    fn type_of_others(&self) -> Option<&DecidedType> {
        self.decided.as_ref().filter(|_| self.different * MOST_ALIKE <= self.alike)
    }
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
        let TypeVote { count, last, furthest, .. } = *vote;
        let placed = PlacedType { base: vote.first, ..vote.placed };
        all.entry(placed).or_default().add(VoteSum { count, last, furthest });
    }
    all
}

/// Whether a block's own accesses tell of any place in what others have there: what allocators keep before it is in blocks of all types.
fn is_told_of(block: &VotedBlock, whole: &PlacedType) -> bool {
    block.votes.iter().any(|vote| vote.count > 0 && vote.placed.base >= whole.base)
}

pub(super) type Candidates = FxHashMap<PlacedType, VoteSum>;

/// Candidates in an order that is the same each time.
fn sorted(votes: &Candidates) -> Vec<Candidate> {
    let mut all: Vec<Candidate> =
        votes.iter().map(|(placed, votes)| Candidate { placed: *placed, votes: *votes }).collect();
    all.sort_unstable_by_key(|one| one.placed);
    all
}

impl BlockTypes {
    /// For one of several who take votes.
    pub(super) fn divided() -> Self {
        Self { is_divided: true, ..Self::default() }
    }

    /// What the instructions know.
    pub(super) fn share(&self) -> TypedShare {
        self.share
    }

    /// Missing events.
    pub(super) fn missing(&self) -> u64 {
        self.missing
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
                let is_mapping = matches!(site.kind, AllocationKind::Mmap | AllocationKind::Mremap);
                Some(VotedBlock {
                    start: block.start,
                    len: block.len,
                    process,
                    id,
                    site: block.site,
                    votes: Vec::new(),
                    allocated: None,
                    is_mapping,
                    has_objects: false,
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
        let (votes, allocated) = match block.is_mapping {
            true => (Vec::new(), None),
            false => (self.made(resolver, &block), self.allocated(resolver, &block)),
        };
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
            .map(|type_| {
                let placed = PlacedType { type_: *type_, base: 0 };
                TypeVote { placed, count: 0, first: 0, last: 0, furthest: 0, slice: self.slices }
            })
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
        if block.is_mapping {
            block.has_objects |= self.types.is_aggregate(known.type_);
            return None;
        }
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
        let at = known.offset.rem_euclid(bytes as i64) as u32;
        let base = base as u32;
        let vote = TypeVote { placed, count: 1, first: base, last: base, furthest: at, slice: self.slices };
        let most = if self.is_divided { MOST_DIVIDED } else { MOST_CANDIDATES };
        self.is_overfull |= !block.add(vote, bytes, most);
        Some(placed)
    }

    /// Whether an instruction was looked at, and knows no type.
    #[inline]
    pub(crate) fn knows_no_type(&self, code: CodeId) -> bool {
        self.types.asked(code) == Some(None)
    }

    /// An access votes, if its instruction knows a type.
    pub(crate) fn access(&mut self, resolver: &mut Resolver, access: &Access) {
        if access.kind == AccessKind::Prefetch {
            return;
        }
        let Some(block) = self.block_at(resolver, access.addr) else { return };
        let is_mapping = self.blocks[block as usize].is_mapping;
        self.share.accesses += u64::from(!is_mapping);
        if let Some(known) = self.types.at(resolver, access.ip) {
            if !is_mapping {
                *if known.is_named { &mut self.share.by_variable } else { &mut self.share.by_flow } += 1;
            }
            self.vote(block, access.addr, known);
        }
    }

    /// What was voted for.
    pub(super) fn candidates(&self, number: u32) -> Candidates {
        candidates(&self.blocks[number as usize])
    }

    /// The type of each block.
    pub(super) fn decide(&self) -> Vec<Option<DecidedType>> {
        let numbered = 0..self.blocks.len() as u32;
        let own: Vec<Option<DecidedType>> = numbered
            .map(|number| match &self.blocks[number as usize] {
                VotedBlock { allocated: Some(allocated), .. } => Some(self.as_allocated(number, *allocated)),
                block => self.winner(&self.candidates(number), block.len),
            })
            .collect();
        let by_size = self.sites(&own, |block| Some(block.len));
        let by_site = self.sites(&own, |_| None);
        let decided = self.blocks.iter().zip(own).map(|(block, whole)| {
            if block.allocated.is_some() {
                return whole;
            }
            let of_size = || by_size.get(&(block.process, block.site, Some(block.len)))?.type_of_others();
            // A block of another size is an array, or it is something else.
            let is_array = |decided: &&DecidedType| {
                block.len.is_multiple_of(self.types.layout(decided.placed.type_).bytes)
            };
            let of_all = by_site.get(&(block.process, block.site, None)).and_then(SiteBlocks::type_of_others);
            let is_of_one_type = of_all.is_some();
            let of_site = || of_all.filter(is_array);
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
                // That others of its size are one type says little where the call allocates several.
                None if is_of_one_type => of_size().or_else(of_site),
                None => None,
                Some(whole) if !self.types.is_aggregate(whole.placed.type_) => {
                    let is_told = |site: &PlacedType| is_of_one_type || is_told_of(block, site);
                    let site = of_size().or_else(of_site);
                    site.filter(|site| self.has_numbers(block, &site.placed) && is_told(&site.placed))
                }
                Some(whole) => of_size().filter(|site| is_part(whole, site)),
            };
            let fits = |decided: &DecidedType| {
                let least = least_bytes(self.types.layout(decided.placed.type_));
                u64::from(decided.placed.base) + least <= block.len.max(1)
            };
            let site = site.filter(|site| whole.is_none() || self.types.is_aggregate(site.placed.type_));
            // Its own accesses tell of no object of what others are.
            let told_by_others = |site: &DecidedType| DecidedType {
                told_bytes: self.types.layout(site.placed.type_).bytes,
                ..site.clone()
            };
            let decided = site.map(told_by_others).or(whole).filter(fits)?;
            let objects_bytes = block.len.saturating_sub(decided.placed.base.into());
            Some(DecidedType { objects_bytes, told_bytes: decided.told_bytes.min(objects_bytes), ..decided })
        });
        let mut decided: Vec<Option<DecidedType>> = decided.collect();
        self.begin_as_others(&mut decided);
        decided
    }

    /// Of an array behind something else the first elements may not have been accessed: then it begins where others of its type do.
    fn begin_as_others(&self, decided: &mut [Option<DecidedType>]) {
        let bases: FxHashSet<PlacedType> = decided.iter().flatten().map(|one| one.placed).collect();
        for one in decided.iter_mut().flatten().filter(|one| !one.is_allocated) {
            let base = u64::from(one.placed.base);
            let begin = (base % self.types.layout(one.placed.type_).bytes) as u32;
            if begin > 0
                && begin < one.placed.base
                && bases.contains(&PlacedType { base: begin, ..one.placed })
            {
                one.placed.base = begin;
                one.objects_bytes += base - u64::from(begin);
                one.told_bytes += base - u64::from(begin);
            }
        }
    }

    /// What the blocks of each call are that a key tells apart, and whether their own votes agree on it.
    fn sites(
        &self,
        own: &[Option<DecidedType>],
        key: impl Fn(&VotedBlock) -> Option<u64>,
    ) -> FxHashMap<(ProcessId, SiteId, Option<u64>), SiteBlocks> {
        let mut sites: FxHashMap<_, SiteBlocks> = FxHashMap::default();
        let of = |block: &VotedBlock| (block.process, block.site, key(block));
        for block in self.blocks.iter().filter(|block| !self.is_everyones(block)) {
            let site = sites.entry(of(block)).or_default();
            for (placed, votes) in candidates(block) {
                site.votes.entry(placed).or_default().add(votes);
            }
        }
        for ((.., len), site) in &mut sites {
            site.decided = self.winner(&site.votes, len.unwrap_or(u64::MAX));
        }
        for (block, own) in self.blocks.iter().zip(own) {
            let (Some(own), Some(site)) = (own, sites.get_mut(&of(block))) else { continue };
            let Some(decided) = site.decided.as_ref().filter(|_| own.votes > 0) else { continue };
            let is_alike = match self.types.is_aggregate(own.placed.type_) {
                true => {
                    let votes = VoteSum { furthest: u32::MAX, ..VoteSum::default() };
                    self.agreement(&Candidate { placed: own.raw, votes }, &decided.raw).is_some()
                }
                false => self.has_numbers(block, &decided.placed),
            };
            *if is_alike { &mut site.alike } else { &mut site.different } += 1;
        }
        sites
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
        let fits = |one: &&Candidate| u64::from(one.placed.base) + least_bytes(layout(&one.placed)) <= len;
        let all = sorted(votes);
        let sums = all.iter().filter(fits).map(|whole| {
            let parts = all.iter().filter(|part| self.agreement(part, &whole.placed).is_some());
            (parts.map(|part| part.votes.count).sum::<u64>(), whole.votes.count, whole.placed)
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
        let all = sorted(&self.candidates(number));
        let parts = all.iter().filter(|part| self.agreement(part, &placed).is_some());
        let votes = parts.map(|part| part.votes.count).sum();
        let decided = self.decided(&all, placed, votes, block.len);
        let entry_bytes = self.types.layout(allocated.type_).bytes;
        let objects_bytes = match allocated.way {
            AllocationWay::Table => table_bytes(block.len, entry_bytes),
            AllocationWay::One | AllocationWay::Several => decided.objects_bytes,
        };
        DecidedType { placed, objects_bytes, is_allocated: true, ..decided }
    }

    /// What was voted for, held against one type.
    fn decided(&self, all: &[Candidate], placed: PlacedType, votes: u64, len: u64) -> DecidedType {
        let layout = |placed: &PlacedType| self.types.layout(placed.type_);
        let others = all.iter().filter(|part| self.agreement(part, &placed).is_none());
        let mut others: Vec<(PlacedType, u64)> = others.map(|part| (part.placed, part.votes.count)).collect();
        others.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        let stored = all.iter().filter(|part| {
            self.agreement(part, &placed) == Some(PartWay::Storage)
                && self.types.is_aggregate(part.placed.type_)
        });
        let stored = stored.max_by_key(|part| (part.votes.count, layout(&part.placed).bytes)).map(|part| {
            PlacedType { type_: part.placed.type_, base: self.within(&part.placed, &placed) as u32 }
        });
        // An array from the start on, or what begins after something else.
        let bytes = layout(&placed).bytes;
        let same = all.iter().filter(|other| {
            other.placed.type_ == placed.type_
                && u64::from(other.placed.base.abs_diff(placed.base)).is_multiple_of(bytes)
        });
        let first = same.map(|other| other.placed.base).min().unwrap_or(placed.base);
        let last = self.objects_of(all, &placed).map(|one| one.votes.last).max().unwrap_or(placed.base);
        let base = match u64::from(first) {
            first if first.is_multiple_of(bytes) => 0,
            first if len > MOST_OBJECT_BYTES => (first % bytes) as u32,
            _ => first,
        };
        let told_bytes = (u64::from(last.saturating_sub(base)) / bytes + 1) * bytes;
        let objects_bytes = len.saturating_sub(base.into());
        DecidedType {
            placed: PlacedType { base, ..placed },
            raw: placed,
            votes,
            others,
            stored,
            objects_bytes,
            told_bytes: told_bytes.min(objects_bytes),
            is_allocated: false,
        }
    }

    /// The candidates that tell of objects of a type: itself and its parts, but not numbers, which may be anything that follows.
    fn objects_of<'a>(
        &'a self,
        all: &'a [Candidate],
        placed: &'a PlacedType,
    ) -> impl Iterator<Item = &'a Candidate> {
        all.iter().filter(|one| {
            one.placed == *placed
                || self.types.is_aggregate(one.placed.type_) && self.agreement(one, placed).is_some()
        })
    }

    /// What each block is of that objects of several types share: a larger one has to be looked at once more for where they are.
    pub(super) fn shared(&self, decided: &[Option<DecidedType>]) -> FxHashMap<u32, SharedBlock> {
        let known =
            decided.iter().enumerate().filter_map(|(number, one)| Some((number as u32, one.as_ref()?)));
        let known = known.filter(|(_, one)| !one.is_allocated);
        let shared = known.filter_map(|(number, one)| Some((number, self.shared_by(number, one)?)));
        let mappings = self.blocks.iter().enumerate().filter(|(_, block)| block.has_objects);
        shared.chain(mappings.map(|(number, _)| (number as u32, SharedBlock::Larger))).collect()
    }

    fn shared_by(&self, number: u32, decided: &DecidedType) -> Option<SharedBlock> {
        let block = &self.blocks[number as usize];
        let all = sorted(&self.candidates(number));
        let total: u64 = all.iter().map(|one| one.votes.count).sum();
        let is_other = |one: &&Candidate| {
            self.types.is_aggregate(one.placed.type_) && self.agreement(one, &decided.raw).is_none()
        };
        if block.len > MOST_OBJECT_BYTES {
            let others: u64 = all.iter().filter(is_other).map(|one| one.votes.count).sum();
            return (others > 0 && others * LEAST_SHARED >= total).then_some(SharedBlock::Larger);
        }
        // What begins at the same place is the same under another name.
        let own = u64::from(decided.placed.base) + self.types.layout(decided.placed.type_).bytes;
        let is_told = |one: &&Candidate| {
            let (base, bytes) = (u64::from(one.placed.base), self.types.layout(one.placed.type_).bytes);
            let is_alone = base >= own && base + bytes <= block.len;
            let least = if is_alone { LEAST_BESIDE } else { total.div_ceil(LEAST_SHARED).max(LEAST_BESIDE) };
            one.votes.count >= least
        };
        let is_beside = |one: &&Candidate| one.placed.base != decided.placed.base && is_told(one);
        all.iter().filter(is_other).find(is_beside)?;
        let objects = all
            .iter()
            .filter(|one| self.types.is_aggregate(one.placed.type_) && (is_told(one) || !is_other(one)));
        let objects = objects.map(|one| (one.placed, one.votes.count)).chain([(decided.placed, 0)]);
        let mut told = ToldObjects::default();
        for (PlacedType { type_, base }, votes) in objects {
            *told.entry(ToldObject { begin: base.into(), type_ }).or_default() += votes;
        }
        Some(SharedBlock::Small(told))
    }

    /// Whether an object is one of those that a block is taken for, a part of one or the same under another name.
    pub(super) fn is_of(&self, told: ToldObject, whole: &PlacedType) -> bool {
        let placed = PlacedType { type_: told.type_, base: told.begin as u32 };
        self.within(&placed, whole) == 0
            || self.agreement(&Candidate { placed, votes: VoteSum::default() }, whole).is_some()
    }

    /// The variables that the blocks are, in the order of these.
    pub(super) fn variables(&self) -> Vec<VariableId> {
        let mut variables = vec![VariableId(0); self.blocks.len()];
        for (variable, known) in self.known.iter().enumerate() {
            if let VotedVariable::Block(number) = known {
                variables[*number as usize] = VariableId(variable as u32);
            }
        }
        variables
    }

    /// The block that a variable is, where it was accessed.
    #[inline]
    pub(super) fn known_block(&self, variable: VariableId) -> Option<u32> {
        match self.known.get(variable.0 as usize) {
            Some(VotedVariable::Block(block)) => Some(*block),
            _ => None,
        }
    }

    /// Where a part lies in the whole, or in an element of an array of it.
    fn within(&self, part: &PlacedType, whole: &PlacedType) -> u64 {
        let bytes = self.types.layout(whole.type_).bytes;
        (u64::from(part.base) + bytes - u64::from(whole.base) % bytes) % bytes
    }

    /// How votes go with those for the whole, if they do.
    fn agreement(&self, candidate: &Candidate, whole: &PlacedType) -> Option<PartWay> {
        let part = &candidate.placed;
        let (inner, outer) = (self.types.layout(part.type_), self.types.layout(whole.type_));
        let into = self.within(part, whole);
        if part.type_ == whole.type_ && into == 0 {
            return Some(PartWay::Member);
        }
        if !self.types.is_aggregate(part.type_) {
            let is_inside = self.types.is_aggregate(whole.type_) && inner.bytes <= outer.bytes;
            return is_inside.then_some(PartWay::Member);
        }
        // Code that compilers join for several types is described as that of one: what both have alike tells neither from the other.
        let is_head = || into == 0 && share_head(outer, inner, candidate.votes.furthest.into());
        let from_start = u64::from(part.base.saturating_sub(whole.base));
        part_at(outer, into, inner)
            .or_else(|| part_behind(outer, from_start, inner))
            .or_else(|| is_head().then_some(PartWay::Header))
    }
}

impl Tool for BlockTypes {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            self.access(at.resolver, access);
        }
        Ok(())
    }

    fn takes_executions(&self) -> bool {
        true
    }

    fn executions(
        &mut self,
        at: &mut Moment<'_>,
        frame: &Arc<ExecutedFrame>,
        part: Range<usize>,
    ) -> Result<(), Error> {
        let mut untyped = std::mem::take(&mut self.untyped);
        let numbers = untyped.enter(at.thread, frame);
        let mut accesses = Vec::new();
        for item in frame.items(part) {
            if let ExecutedItem::Block { number, values, .. } = item {
                let known = KnownSoFar {
                    types: &self.types,
                    variables: &self.known,
                    is_mapping: &|block| self.blocks[block as usize].is_mapping,
                };
                let values = (values, frame.fs_base());
                if let Some(counted) = untyped.accesses(numbers[number as usize], values, at.resolver, known)
                {
                    self.share.accesses += counted;
                    continue;
                }
            }
            accesses.clear();
            frame.expand(&item, &mut accesses);
            self.accesses(at, &accesses)?;
        }
        self.untyped = untyped;
        Ok(())
    }

    fn event(&mut self, _: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if let Event::Gap(gap) = event {
            self.missing += gap.count;
        }
        Ok(())
    }
}

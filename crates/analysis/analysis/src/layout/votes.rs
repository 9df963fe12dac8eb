//! The first replay: each access with a type votes for its block.

use memref::{Access, AccessKind, ProcessId, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::{BlockState, SiteId, TypeKind, TypeLayout, VariableId, VariableKind};

use crate::typing::{CodeTypes, KnownType};
use crate::{Error, Moment, Tool};

/// Candidates of a block; more than that are no majority.
const MOST_CANDIDATES: usize = 6;

/// A type that begins at a place of a block, and again after each of its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PlacedType {
    pub(super) type_: u32,
    pub(super) base: u32,
}

#[derive(Clone, Copy, Debug)]
struct TypeVote {
    placed: PlacedType,
    count: u64,
}

/// A block that was accessed.
#[derive(Clone, Debug)]
pub(super) struct VotedBlock {
    pub(super) start: VirtAddr,
    pub(super) len: u64,
    process: ProcessId,
    site: SiteId,
    votes: Vec<TypeVote>,
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
pub(super) struct BlockTypes {
    pub(super) types: CodeTypes,
    pub(super) known: Vec<VotedVariable>,
    pub(super) blocks: Vec<VotedBlock>,
    share: TypedShare,
}

/// The type of a block, and what else was voted for.
#[derive(Clone, Debug)]
pub(super) struct DecidedType {
    pub(super) placed: PlacedType,
    /// Votes for it and for what agrees with it.
    pub(super) votes: u64,
    /// For types that do not.
    pub(super) others: Vec<(PlacedType, u64)>,
}

type Candidates = FxHashMap<PlacedType, u64>;

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
    fn block_at(&mut self, at: &mut Moment<'_>, access: &Access) -> Option<u32> {
        let variable = at.resolver.resolve_data(access.addr).variable;
        match self.known.get(variable.0 as usize) {
            Some(VotedVariable::Block(block)) => Some(*block),
            Some(VotedVariable::Other) => None,
            _ => self.find(at, variable),
        }
    }

    #[cold]
    fn find(&mut self, at: &Moment<'_>, id: VariableId) -> Option<u32> {
        let variable = at.resolver.names().variable(id);
        let block = variable.and_then(|variable| match variable.kind {
            VariableKind::Block { process, block, state: BlockState::Live } => {
                let block = at.resolver.heap().block(block)?;
                let site = at.resolver.heap().site(block.site)?;
                // A mapping is no object; allocators of the program take theirs from it.
                let is_mapping =
                    matches!(site.kind, memref::AllocationKind::Mmap | memref::AllocationKind::Mremap);
                (!is_mapping).then(|| VotedBlock {
                    start: block.start,
                    len: block.len,
                    process,
                    site: block.site,
                    votes: Vec::new(),
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
        self.blocks.push(block);
        self.known[index] = VotedVariable::Block(number);
        Some(number)
    }

    fn vote(&mut self, number: u32, access: &Access, known: KnownType) {
        let bytes = self.types.layout(known.type_).bytes;
        let block = &mut self.blocks[number as usize];
        let Some(base) =
            access.addr.0.wrapping_sub(block.start.0).checked_add_signed(known.offset.wrapping_neg())
        else {
            return;
        };
        let placed = PlacedType { type_: known.type_, base: (base % bytes) as u32 };
        // Of an element that is not known, only a place that an array from the start on has says something.
        if base >= block.len || known.is_indexed && placed.base != 0 {
            return;
        }
        if let Some(vote) = block.votes.iter_mut().find(|vote| vote.placed == placed) {
            vote.count += 1;
        } else if block.votes.len() < MOST_CANDIDATES {
            block.votes.push(TypeVote { placed, count: 1 });
        }
    }

    /// The type of each block.
    pub(super) fn decide(&self) -> Vec<Option<DecidedType>> {
        let mut by_size: FxHashMap<(ProcessId, SiteId, u64), Candidates> = FxHashMap::default();
        let mut by_site: FxHashMap<(ProcessId, SiteId), Candidates> = FxHashMap::default();
        for block in &self.blocks {
            for vote in &block.votes {
                let key = (block.process, block.site, block.len);
                *by_size.entry(key).or_default().entry(vote.placed).or_default() += vote.count;
                *by_site.entry((block.process, block.site)).or_default().entry(vote.placed).or_default() +=
                    vote.count;
            }
        }
        let by_size: FxHashMap<_, _> =
            by_size.into_iter().map(|(key, votes)| (key, self.winner(&votes, key.2))).collect();
        let by_site: FxHashMap<_, _> =
            by_site.into_iter().map(|(key, votes)| (key, self.winner(&votes, u64::MAX))).collect();
        let decided = self.blocks.iter().map(|block| {
            let own: Candidates = block.votes.iter().map(|vote| (vote.placed, vote.count)).collect();
            let whole = self.winner(&own, block.len);
            let of_size = || by_size.get(&(block.process, block.site, block.len)).cloned().flatten();
            let of_site = || by_site.get(&(block.process, block.site)).cloned().flatten();
            // Numbers alone are what a block has that holds nothing else, and its site may know better.
            let weak = whole.as_ref().is_none_or(|whole| !self.types.is_aggregate(whole.placed.type_));
            let site = if weak { of_size().or_else(of_site) } else { None };
            let fits = |decided: &DecidedType| {
                let end = u64::from(decided.placed.base) + self.types.layout(decided.placed.type_).bytes;
                end <= block.len.max(1)
            };
            site.filter(|site| whole.is_none() || self.types.is_aggregate(site.placed.type_))
                .or(whole)
                .filter(fits)
        });
        decided.collect()
    }

    /// The type that most votes agree with; a larger one has its parts' votes.
    fn winner(&self, votes: &Candidates, len: u64) -> Option<DecidedType> {
        let layout = |placed: &PlacedType| self.types.layout(placed.type_);
        let fits = |placed: &PlacedType| u64::from(placed.base) + layout(placed).bytes <= len;
        let mut all: Vec<(PlacedType, u64)> = votes.iter().map(|(placed, votes)| (*placed, *votes)).collect();
        all.sort_unstable_by_key(|(placed, _)| *placed);
        let agrees = |part: &PlacedType, whole: &PlacedType| {
            if part == whole {
                return true;
            }
            let (inner, outer) = (layout(part), layout(whole));
            let into =
                (u64::from(part.base) + outer.bytes - u64::from(whole.base) % outer.bytes) % outer.bytes;
            let aggregate = self.types.is_aggregate(part.type_);
            if !aggregate {
                self.types.is_aggregate(whole.type_) && inner.bytes <= outer.bytes
            } else {
                has_part(outer, into, inner, 0)
            }
        };
        let sums = all.iter().filter(|(placed, _)| fits(placed)).map(|(whole, own)| {
            let sum: u64 = all.iter().filter(|(part, _)| agrees(part, whole)).map(|(_, votes)| votes).sum();
            (sum, *own, *whole)
        });
        let (votes, _, placed) = sums.max_by_key(|(sum, own, placed)| (*sum, *own, layout(placed).bytes))?;
        let mut others: Vec<(PlacedType, u64)> =
            all.iter().filter(|(part, _)| !agrees(part, &placed)).copied().collect();
        others.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        Some(DecidedType { placed, votes, others })
    }
}

/// Whether a type has another one as a part that begins at an offset.
fn has_part(outer: &TypeLayout, offset: u64, inner: &TypeLayout, depth: u32) -> bool {
    if offset == 0 && outer.name == inner.name && outer.bytes == inner.bytes {
        return true;
    }
    if depth > 16 {
        return false;
    }
    match &outer.kind {
        TypeKind::Scalar => false,
        TypeKind::Array { element, .. } => {
            element.bytes > 0 && has_part(element, offset % element.bytes, inner, depth + 1)
        }
        TypeKind::Struct(members) | TypeKind::Union(members) => members.iter().any(|member| {
            offset.checked_sub(member.offset).is_some_and(|into| {
                into < member.layout.bytes.max(1) && has_part(&member.layout, into, inner, depth + 1)
            })
        }),
    }
}

impl Tool for BlockTypes {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Prefetch) {
            let Some(block) = self.block_at(at, access) else { continue };
            self.share.accesses += 1;
            if let Some(known) = self.types.at(at.resolver, access.ip) {
                *if known.is_named { &mut self.share.by_variable } else { &mut self.share.by_flow } += 1;
                self.vote(block, access, known);
            }
        }
        Ok(())
    }
}

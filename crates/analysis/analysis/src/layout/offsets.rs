//! The use of blocks whose type is unknown, as in stripped programs: accesses by offset in the block.
//! Blocks of the same size from the same allocating call are assumed to hold objects of the same kind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use memref::{Access, AccessKind, Event, ProcessId, ThreadId};
use rustc_hash::FxHashMap;
use symbols::{BlockId, Resolver, SiteId};

use super::HeapTypes;
use crate::stack::{CallPlace, SiteStyle, Stacks};
use crate::tally::BlockSites;
use crate::{Count, Error, Moment, Session, Tool, has_stacks};

/// Larger blocks are arrays, whose places say nothing.
const MOST_BYTES: u64 = 512;

/// Accesses to one place of blocks.
#[derive(Clone, Debug, Default)]
pub struct OffsetUse {
    /// Bytes from the start of the block.
    pub offset: u64,
    /// Bytes of the longest access that begins there.
    pub size: u64,
    /// How often.
    pub count: Count,
    /// Who.
    pub threads: BTreeSet<u32>,
}

/// The blocks of one size that one call allocated.
#[derive(Clone, Debug)]
pub struct SiteUse {
    /// The call: `malloc at func1+230`.
    pub site: String,
    /// Source file and line of the call, where known.
    pub line: Option<String>,
    /// The file name of the module with the call.
    pub module: String,
    /// Bytes of a block.
    pub bytes: u64,
    /// How many were accessed.
    pub blocks: u64,
    /// Places where accesses begin, in their order.
    pub offsets: Vec<OffsetUse>,
    /// All accesses.
    pub count: Count,
}

/// What makes blocks one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKind {
    process: ProcessId,
    site: SiteId,
    place: Option<CallPlace>,
    bytes: u64,
}

/// Blocks of a kind.
#[derive(Debug)]
struct CountedKind {
    bytes: u64,
    /// One of them.
    example: (ProcessId, BlockId),
    blocks: u64,
    /// By place.
    offsets: BTreeMap<u64, OffsetUse>,
}

/// Counts accesses to blocks without a type by place.
#[derive(Debug)]
pub struct OffsetUses {
    types: Arc<HeapTypes>,
    /// Followed for the sites of the blocks, where the trace has calls.
    stacks: Option<Stacks>,
    kinds: Vec<CountedKind>,
    kind_of: FxHashMap<BlockKind, u32>,
    /// The kind of each block that was accessed; none of one that has a type, or is too large.
    of_block: FxHashMap<u32, Option<u32>>,
    /// Missing events.
    pub missing: u64,
}

impl OffsetUses {
    /// For that session, with the types that its blocks have.
    pub fn new(session: &Session, types: Arc<HeapTypes>) -> Self {
        Self {
            types,
            stacks: has_stacks(session).then(|| Stacks::new(session)),
            kinds: Vec::new(),
            kind_of: FxHashMap::default(),
            of_block: FxHashMap::default(),
            missing: 0,
        }
    }

    /// The kind of a block, by the number that it has in the types.
    fn kind(&mut self, number: u32) -> Option<u32> {
        if let Some(&known) = self.of_block.get(&number) {
            return known;
        }
        let block = self.types.block(number);
        let (process, id, bytes) = (block.process, block.id, block.len);
        let is_counted = !block.is_mapping && bytes <= MOST_BYTES && !self.types.has_type(number);
        let kind = is_counted.then(|| {
            let place = self.stacks.as_ref().and_then(|stacks| stacks.blocks().get(process, id));
            let key = BlockKind { process, site: block.site, place, bytes };
            let kinds = &mut self.kinds;
            let kind = *self.kind_of.entry(key).or_insert_with(|| {
                kinds.push(CountedKind {
                    bytes,
                    example: (process, id),
                    blocks: 0,
                    offsets: BTreeMap::new(),
                });
                kinds.len() as u32 - 1
            });
            kinds[kind as usize].blocks += 1;
            kind
        });
        self.of_block.insert(number, kind);
        kind
    }

    fn access(&mut self, at: &mut Moment<'_>, access: &Access) {
        let name = at.resolver.resolve_data(access.addr);
        let Some(number) = self.types.block_of(name.variable) else { return };
        let Some(kind) = self.kind(number) else { return };
        let kind = &mut self.kinds[kind as usize];
        // What lies behind a block, of the bytes that the allocator has left, is no place in it.
        if name.offset < kind.bytes {
            let place = kind.offsets.entry(name.offset).or_default();
            place.count.add(access);
            place.size = place.size.max(access.size.into());
            let ThreadId(thread) = at.thread;
            place.threads.insert(thread);
        }
    }

    /// The kinds of blocks, most accesses first. Reads debug information.
    pub fn sites(self, session: &Session, resolvers: &[Resolver]) -> Vec<SiteUse> {
        let mut sites = BlockSites::new(session, self.stacks.as_ref(), resolvers, SiteStyle::default(), true);
        let mut of_site: HashMap<(String, u64), (SiteUse, BTreeMap<u64, OffsetUse>)> = HashMap::new();
        for kind in self.kinds {
            let (process, block) = kind.example;
            let Some(site) = sites.of(process, block) else { continue };
            let (whole, offsets) = of_site.entry((site.name(), kind.bytes)).or_insert_with(|| {
                let whole = SiteUse {
                    site: site.name(),
                    line: site.place.line.as_deref().map(str::to_owned),
                    module: site.module().to_owned(),
                    bytes: kind.bytes,
                    blocks: 0,
                    offsets: Vec::new(),
                    count: Count::default(),
                };
                (whole, BTreeMap::new())
            });
            whole.blocks += kind.blocks;
            for (offset, part) in kind.offsets {
                whole.count += part.count;
                let sum =
                    offsets.entry(offset).or_insert_with(|| OffsetUse { offset, ..OffsetUse::default() });
                sum.count += part.count;
                sum.size = sum.size.max(part.size);
                sum.threads.extend(part.threads);
            }
        }
        let whole = |(whole, offsets): (SiteUse, BTreeMap<u64, OffsetUse>)| SiteUse {
            offsets: offsets.into_values().collect(),
            ..whole
        };
        let mut all: Vec<SiteUse> = of_site.into_values().map(whole).collect();
        let key = |one: &SiteUse| (std::cmp::Reverse(one.count.accesses()), one.site.clone(), one.bytes);
        all.sort_by_cached_key(key);
        all
    }
}

impl Tool for OffsetUses {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            if let Some(stacks) = &mut self.stacks {
                stacks.access(at, access);
            }
            if access.kind != AccessKind::Prefetch {
                self.access(at, access);
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &mut Moment<'_>, event: &Event<String>) -> Result<(), Error> {
        if let Some(stacks) = &mut self.stacks {
            stacks.event(at, event);
        }
        if let Event::Gap(gap) = event {
            self.missing += gap.count;
        }
        Ok(())
    }
}

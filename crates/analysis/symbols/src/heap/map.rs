//! All blocks of one process, numbered, live and released.

use std::{collections::HashMap, sync::Arc};

use memref::{Allocation, AllocationKind, VirtAddr};

use super::{
    block::{AllocationSite, BlockHit, BlockId, BlockState, HeapBlock, HeapChange, SiteId, forge},
    rounding::Rounding,
    spans::{self, SpanMap},
};

/// Blocks are kept in chunks that clones share.
const CHUNK: usize = 4096;
/// An owner in the span map is a block's index and two bits for its state.
const MAX_BLOCKS: usize = 1 << 30;

/// The dynamic memory of one process at one point of its run.
///
/// A clone (for a forked child, which keeps the numbering) shares the tables with its origin and copies what either
/// writes afterwards: 64 KiB of block table once, and for each 2 MiB of address space written to its node (12 KiB) and
/// the lists of its pages.
#[derive(Clone, Debug)]
pub struct HeapMap {
    spans: SpanMap,
    chunks: Vec<Arc<Vec<HeapBlock>>>,
    block_count: usize,
    rounding: Rounding,
    sites: Arc<Vec<AllocationSite>>,
    site_of: Arc<HashMap<AllocationSite, SiteId>>,
}

impl Default for HeapMap {
    fn default() -> Self {
        Self::new()
    }
}

fn owner(block: BlockId, state: BlockState) -> u32 {
    block.0 << 2 | state as u32
}

impl BlockHit {
    /// A number for the block and its state: four times that of the block, and more.
    pub(crate) fn owner(&self) -> u32 {
        owner(self.block, self.state)
    }
}

fn block_of(owner: u32) -> (BlockId, BlockState) {
    let state = match owner & 3 {
        0 => BlockState::Live,
        1 => BlockState::Freed,
        _ => BlockState::Unmapped,
    };
    (BlockId(owner >> 2), state)
}

/// The first byte after those that the block owned at first: a mapping has whole pages.
fn owned_end(block: &HeapBlock, kind: AllocationKind) -> VirtAddr {
    let mapping = matches!(kind, AllocationKind::Mmap | AllocationKind::Mremap);
    let bytes = if mapping {
        block.len.min(spans::END.0).next_multiple_of(VirtAddr::PAGE_BYTES)
    } else {
        block.extent()
    };
    VirtAddr(block.start.0.saturating_add(bytes))
}

impl HeapMap {
    /// A process that has allocated nothing yet.
    pub fn new() -> Self {
        Self {
            spans: SpanMap::new(),
            chunks: Vec::new(),
            block_count: 0,
            rounding: Rounding::default(),
            sites: Arc::default(),
            site_of: Arc::default(),
        }
    }

    /// Applies one event. Events come in the session's order.
    pub fn apply(&mut self, event: &Allocation) -> HeapChange {
        match event.kind {
            AllocationKind::Malloc | AllocationKind::Calloc | AllocationKind::Mmap => {
                self.allocate(event, None)
            }
            AllocationKind::Realloc => {
                let given = self.get(event.old_addr).filter(|hit| hit.offset == 0);
                let of = |state| given.filter(|hit| hit.state == state).map(|hit| hit.block);
                let (old, freed) = (of(BlockState::Live), of(BlockState::Freed));
                if let Some(old) = old {
                    self.release(old, BlockState::Freed);
                }
                match (self.allocate(event, old), freed) {
                    (HeapChange::Allocated(new), Some(freed)) => HeapChange::AllocatedForFreed { freed, new },
                    (change, _) => change,
                }
            }
            AllocationKind::Mremap => {
                let old =
                    self.get(event.old_addr).filter(|hit| hit.state == BlockState::Live).map(|hit| hit.block);
                self.unmap(event.old_addr, event.old_len);
                self.allocate(event, old)
            }
            AllocationKind::Free => self.free(event.addr),
            AllocationKind::Munmap => {
                self.unmap(event.addr, event.len);
                HeapChange::Unmapped
            }
            AllocationKind::Brk => HeapChange::Ignored,
        }
    }

    /// The block that owns a byte, or did until its release.
    #[inline]
    pub fn get(&self, addr: VirtAddr) -> Option<BlockHit> {
        self.get_span(addr).2
    }

    /// As [`get`](Self::get), with a range around `addr` (first byte, first byte after) for which the answer is the
    /// same, but for the offset.
    pub fn get_span(&self, addr: VirtAddr) -> (VirtAddr, VirtAddr, Option<BlockHit>) {
        let span = self.spans.get(addr);
        let hit = span.owner.map(block_of).and_then(|(block, state)| {
            let start = self.block(block)?.start;
            Some(BlockHit { block, offset: addr.0.wrapping_sub(start.0), state })
        });
        (span.start, span.end, hit)
    }

    /// A block as it was allocated.
    pub fn block(&self, id: BlockId) -> Option<&HeapBlock> {
        let index = id.0 as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// All blocks ever allocated, in the order of their numbers.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockId, &HeapBlock)> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .enumerate()
            .map(|(i, block)| (BlockId(i as u32), block))
    }

    /// The number of blocks ever allocated.
    pub fn block_count(&self) -> usize {
        self.block_count
    }

    /// Whether a block's first byte is still its own.
    pub fn is_live(&self, id: BlockId) -> bool {
        self.block(id)
            .is_some_and(|block| self.spans.get(block.start).owner == Some(owner(id, BlockState::Live)))
    }

    /// The calls that allocated, in the order of their first allocation.
    pub fn sites(&self) -> &[AllocationSite] {
        &self.sites
    }

    /// One call that allocated.
    pub fn site(&self, id: SiteId) -> Option<&AllocationSite> {
        self.sites.get(id.0 as usize)
    }

    /// From now on a call at a known address is a new site: other code was mapped there.
    pub fn forget_sites(&mut self) {
        self.site_of = Arc::default();
    }

    /// The forged name of a block (Table II); `place` names the call, as `func1+230`.
    pub fn forged_name(&self, id: BlockId, state: BlockState, place: &str) -> Option<String> {
        let site = self.site(self.block(id)?.site)?;
        Some(forge(site.kind, state, id.number(), place))
    }

    fn site_id(&mut self, site: AllocationSite) -> SiteId {
        if let Some(&id) = self.site_of.get(&site) {
            return id;
        }
        let id = SiteId(self.sites.len() as u32);
        Arc::make_mut(&mut self.sites).push(site);
        Arc::make_mut(&mut self.site_of).insert(site, id);
        id
    }

    fn allocate(&mut self, event: &Allocation, old: Option<BlockId>) -> HeapChange {
        if self.block_count >= MAX_BLOCKS {
            return HeapChange::Full;
        }
        let site = self.site_id(AllocationSite { ip: event.ip, kind: event.kind, function: event.function });
        let new = BlockId(self.block_count as u32);
        let slack = self.slack(event);
        let block = HeapBlock { start: event.addr, len: event.len, site, slack };
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).push(block),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(block);
                self.chunks.push(Arc::new(chunk));
            }
        }
        self.block_count += 1;
        let end = owned_end(&block, event.kind);
        self.spans.fill(event.addr, end, Some(owner(new, BlockState::Live)));
        old.map_or(HeapChange::Allocated(new), |old| HeapChange::Replaced { old, new })
    }

    /// The bytes after those that were asked for which the allocator gave with them: as its rule says, but none of another
    /// live block.
    fn slack(&mut self, event: &Allocation) -> u32 {
        if matches!(event.kind, AllocationKind::Mmap | AllocationKind::Mremap) {
            return 0;
        }
        let before = self.get(event.addr).and_then(|hit| Some((hit, *self.block(hit.block)?)));
        if before.is_some_and(|(hit, block)| hit.state == BlockState::Live && hit.offset >= block.len.max(1))
        {
            // It begins in what the rule gave to another one.
            self.rounding = Rounding::Slots;
        }
        let old = before.filter(|(hit, _)| hit.offset == 0).map(|(_, block)| block.extent());
        let asked = event.addr.0.saturating_add(event.len.max(1));
        let wanted = event.addr.0.saturating_add(self.rounding.usable(event.addr, event.len, old));
        let (mut end, wanted) = (VirtAddr(asked), VirtAddr(wanted));
        while end < wanted {
            let span = self.spans.get(end);
            let (block, state) = match span.owner.map(block_of) {
                Some((block, state)) => (self.block(block), state),
                None => (None, BlockState::Freed),
            };
            if state == BlockState::Live {
                self.rounding = Rounding::Slots;
                break;
            }
            let begins = block.is_some_and(|block| block.start == end);
            if begins && self.rounding == Rounding::Slots {
                break;
            }
            end = span.end.min(wanted);
        }
        u32::try_from(end.0.saturating_sub(event.addr.0.saturating_add(event.len))).unwrap_or(u32::MAX)
    }

    /// Other memory was mapped there: what was released there before is forgotten.
    pub fn forget_released(&mut self, start: VirtAddr, len: u64) {
        let end = VirtAddr(start.0.saturating_add(len));
        self.spans.retain(start, end, |owner| block_of(owner).1 == BlockState::Live);
    }

    fn free(&mut self, addr: VirtAddr) -> HeapChange {
        match self.get(addr) {
            Some(BlockHit { block, offset: 0, state: BlockState::Live }) => {
                self.release(block, BlockState::Freed);
                HeapChange::Released(block)
            }
            Some(BlockHit { block, offset: 0, .. }) => HeapChange::FreedTwice(block),
            _ => HeapChange::Unknown,
        }
    }

    /// The bytes that are still the block's become released.
    fn release(&mut self, id: BlockId, state: BlockState) {
        let Some(&block) = self.block(id) else { return };
        let live = owner(id, BlockState::Live);
        let kind = self.site(block.site).map_or(AllocationKind::Malloc, |site| site.kind);
        let end = owned_end(&block, kind);
        self.spans.replace(block.start, end, |old| if old == live { owner(id, state) } else { old });
    }

    /// The kernel takes back whole pages, whoever they belong to.
    fn unmap(&mut self, addr: VirtAddr, len: u64) {
        let end = addr.0.saturating_add(len).min(spans::END.0).next_multiple_of(VirtAddr::PAGE_BYTES);
        self.spans.replace(addr, VirtAddr(end), |old| match block_of(old) {
            (block, BlockState::Live) => owner(block, BlockState::Unmapped),
            _ => old,
        });
    }
}

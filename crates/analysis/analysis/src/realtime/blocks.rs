//! The block or region of a traced process that an address belongs to.

use std::collections::{BTreeMap, HashMap};

use memref::VirtAddr;
use rtvm::replay::BlockId;

/// Entries of the caches by page. Like the Virtual Regions Cache they are never invalidated: whether an entry is right is
/// seen in the block that it names.
const CACHED: usize = 1 << 12;
/// Memory beside the heap becomes a region for each such part of it.
const CHUNK_BYTES: u64 = 1 << 21;

/// What a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeKind {
    /// A block of the heap.
    Block,
    /// What the program mapped.
    Mapping,
    /// A part of its other memory.
    Chunk,
}

#[derive(Clone, Copy, Debug)]
struct NumberedRange {
    start: VirtAddr,
    /// Zero where the number is unused.
    len: u64,
    kind: RangeKind,
}

/// A block or mapping, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRange {
    pub(crate) id: BlockId,
    pub(crate) kind: RangeKind,
    pub(crate) start: VirtAddr,
    pub(crate) len: u64,
}

/// Blocks and regions of one process.
#[derive(Debug)]
pub(crate) struct NumberedBlocks {
    slots: Vec<NumberedRange>,
    unused: Vec<BlockId>,
    live: BTreeMap<VirtAddr, BlockId>,
    /// Released blocks that nothing has taken the place of: start to end.
    released: BTreeMap<VirtAddr, VirtAddr>,
    chunks: HashMap<u64, BlockId>,
    block_cache: Vec<BlockId>,
    /// Page and chunk.
    chunk_cache: Vec<(u64, BlockId)>,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A block or region, and the bytes from its start.
    Known(BlockId, u64),
    /// A new part of the memory beside the heap, which has to be made: its number and bytes.
    NewChunk(BlockId, u64, u64),
    /// A block that was released.
    Released,
}

fn slot_of(page: u64) -> usize {
    page as usize & (CACHED - 1)
}

impl Default for NumberedBlocks {
    fn default() -> Self {
        Self {
            slots: vec![],
            unused: vec![],
            live: BTreeMap::new(),
            released: BTreeMap::new(),
            chunks: HashMap::new(),
            block_cache: vec![BlockId::MAX; CACHED],
            chunk_cache: vec![(u64::MAX, 0); CACHED],
        }
    }
}

impl NumberedBlocks {
    fn number(&mut self, slot: NumberedRange) -> BlockId {
        if let Some(id) = self.unused.pop() {
            self.slots[id as usize] = slot;
            return id;
        }
        self.slots.push(slot);
        (self.slots.len() - 1) as BlockId
    }

    /// The block or mapping that begins at an address.
    pub(crate) fn starting_at(&self, start: VirtAddr) -> Option<(BlockId, RangeKind)> {
        let id = *self.live.get(&start)?;
        let slot = &self.slots[id as usize];
        Some((id, slot.kind))
    }

    /// Blocks and mappings that have bytes in a range.
    pub(crate) fn overlapping(&self, start: VirtAddr, len: u64) -> Vec<PlacedRange> {
        let of = |id: BlockId| {
            let slot = self.slots[id as usize];
            PlacedRange { id, kind: slot.kind, start: slot.start, len: slot.len }
        };
        let before = self.live.range(..start).next_back().map(|(_, &id)| of(id));
        let mut found: Vec<_> =
            before.filter(|range| range.start.0.saturating_add(range.len) > start.0).into_iter().collect();
        found.extend(self.live.range(start..VirtAddr(start.0.saturating_add(len))).map(|(_, &id)| of(id)));
        found
    }

    /// A new block or mapping; nothing else may be in its range.
    pub(crate) fn insert(&mut self, start: VirtAddr, len: u64, kind: RangeKind) -> BlockId {
        let id = self.number(NumberedRange { start, len: len.max(1), kind });
        self.place(id, start, len);
        id
    }

    fn place(&mut self, id: BlockId, start: VirtAddr, len: u64) {
        self.live.insert(start, id);
        let end = VirtAddr(start.0.saturating_add(len.max(1)));
        let gone: Vec<VirtAddr> = self
            .released
            .range(..end)
            .rev()
            .take_while(|&(_, &released_end)| released_end > start)
            .map(|(&released, _)| released)
            .collect();
        for released in gone {
            self.released.remove(&released);
        }
        let (first, last) = (start.page_number(), VirtAddr(end.0 - 1).page_number());
        if last - first >= CACHED as u64 {
            self.chunk_cache.fill((u64::MAX, 0));
        } else {
            for page in first..=last {
                let entry = &mut self.chunk_cache[slot_of(page)];
                if entry.0 == page {
                    entry.0 = u64::MAX;
                }
            }
        }
    }

    /// A block moves, and keeps its number.
    pub(crate) fn replace(&mut self, id: BlockId, start: VirtAddr, len: u64) {
        let old = self.slots[id as usize];
        self.live.remove(&old.start);
        self.slots[id as usize] = NumberedRange { start, len: len.max(1), ..old };
        self.place(id, start, len);
    }

    /// A block or mapping ends. `remember` says whether accesses to it are accesses to released memory.
    pub(crate) fn remove(&mut self, id: BlockId, remember: bool) {
        let slot = &mut self.slots[id as usize];
        let (start, end) = (slot.start, VirtAddr(slot.start.0.saturating_add(slot.len)));
        slot.len = 0;
        self.live.remove(&start);
        self.unused.push(id);
        if remember {
            self.released.insert(start, end);
        }
    }

    /// Whether a number is a block of the heap.
    pub(crate) fn is_heap(&self, id: BlockId) -> bool {
        self.slots[id as usize].kind == RangeKind::Block
    }

    /// Whether a released block begins there.
    pub(crate) fn was_released(&self, start: VirtAddr) -> bool {
        self.released.contains_key(&start)
    }

    /// Where an access goes.
    #[inline]
    pub(crate) fn target(&mut self, addr: VirtAddr) -> Target {
        let page = addr.page_number();
        let cached = self.block_cache[slot_of(page)];
        if let Some(slot) = self.slots.get(cached as usize)
            && let offset = addr.0.wrapping_sub(slot.start.0)
            && offset < slot.len
        {
            return Target::Known(cached, offset);
        }
        let (of, chunk) = self.chunk_cache[slot_of(page)];
        if of == page {
            return Target::Known(chunk, addr.0 & (CHUNK_BYTES - 1));
        }
        self.search(addr)
    }

    fn search(&mut self, addr: VirtAddr) -> Target {
        let page = addr.page_number();
        if let Some((_, &id)) = self.live.range(..=addr).next_back() {
            let slot = self.slots[id as usize];
            let offset = addr.0 - slot.start.0;
            if offset < slot.len {
                self.block_cache[slot_of(page)] = id;
                return Target::Known(id, offset);
            }
        }
        if self.released.range(..=addr).next_back().is_some_and(|(_, &end)| addr < end) {
            return Target::Released;
        }
        let number = addr.0 / CHUNK_BYTES;
        let offset = addr.0 & (CHUNK_BYTES - 1);
        let Some(&id) = self.chunks.get(&number) else {
            // Its range lies outside of `live`, and is never asked for by containment: it has no length here.
            let id = self.number(NumberedRange { start: VirtAddr(0), len: 0, kind: RangeKind::Chunk });
            self.chunks.insert(number, id);
            return Target::NewChunk(id, CHUNK_BYTES, offset);
        };
        // A page on which nothing of the heap lies can be told from the page alone, until a block is put there.
        let start = addr.page_start();
        if self.overlapping(start, VirtAddr::PAGE_BYTES).is_empty()
            && self
                .released
                .range(..start.offset(VirtAddr::PAGE_BYTES))
                .next_back()
                .is_none_or(|(_, &end)| end <= start)
        {
            self.chunk_cache[slot_of(page)] = (page, id);
        }
        Target::Known(id, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_find_their_blocks() {
        let mut blocks = NumberedBlocks::default();
        let a = blocks.insert(VirtAddr(0x1000), 0x100, RangeKind::Block);
        let b = blocks.insert(VirtAddr(0x1100), 0x2000, RangeKind::Block);
        for _ in 0..2 {
            assert_eq!(blocks.target(VirtAddr(0x1000)), Target::Known(a, 0));
            assert_eq!(blocks.target(VirtAddr(0x10ff)), Target::Known(a, 0xff));
            assert_eq!(blocks.target(VirtAddr(0x30ff)), Target::Known(b, 0x1fff));
        }
        blocks.remove(a, true);
        assert!(blocks.was_released(VirtAddr(0x1000)));
        assert_eq!(blocks.target(VirtAddr(0x1000)), Target::Released);
        assert_eq!(blocks.target(VirtAddr(0x1100)), Target::Known(b, 0));
        let c = blocks.insert(VirtAddr(0x1010), 0x10, RangeKind::Block);
        assert_eq!(blocks.target(VirtAddr(0x1010)), Target::Known(c, 0));
        assert_eq!(blocks.target(VirtAddr(0x2000)), Target::Known(b, 0xf00));
        blocks.replace(b, VirtAddr(0x9000), 0x10);
        assert_eq!(blocks.target(VirtAddr(0x9008)), Target::Known(b, 8));
        assert_eq!(blocks.overlapping(VirtAddr(0x1000), 0x100_000).len(), 2);
    }

    #[test]
    fn memory_beside_the_heap_comes_in_chunks() {
        let mut blocks = NumberedBlocks::default();
        let addr = 5 * CHUNK_BYTES + 0x1234;
        let Target::NewChunk(chunk, CHUNK_BYTES, 0x1234) = blocks.target(VirtAddr(addr)) else {
            panic!("a new chunk")
        };
        for _ in 0..3 {
            assert_eq!(blocks.target(VirtAddr(addr)), Target::Known(chunk, 0x1234));
        }
        // A block that is put where the cache says there is none.
        let block = blocks.insert(VirtAddr(addr - 4), 16, RangeKind::Block);
        assert_eq!(blocks.target(VirtAddr(addr)), Target::Known(block, 4));
        assert_eq!(blocks.target(VirtAddr(addr + 0x100)), Target::Known(chunk, 0x1334));
        assert_eq!(blocks.target(VirtAddr(addr)), Target::Known(block, 4));
        blocks.remove(block, false);
        assert_eq!(blocks.target(VirtAddr(addr)), Target::Known(chunk, 0x1234));
    }
}

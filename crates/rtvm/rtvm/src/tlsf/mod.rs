//! The two-level segregated fit allocator (Masmano, Ripoll, Crespo and Real, 2004): malloc and free in constant time.
//!
//! Boundary tags are in the managed memory, so touching them maps pages; other effects on pages are up
//! to the [`HeapMemory`]. The same code runs over the models and over real memory ([`crate::RtHeap`]).
//! A block is a tag of 16 bytes and its payload; addresses are offsets in the heap.

mod classes;
mod memory;

pub use classes::{GRANULE, MAX_BLOCK, MIN_BLOCK, TAG_BYTES};
pub use memory::{BlockSpan, HeapMemory, Merge, TagWord};

use crate::Error;
use classes::{Class, FIRSTS, SECONDS, class_of, round_up};

/// Words of control data: which first levels have blocks, which second levels of each, and the heads of the lists.
pub const CONTROL_WORDS: usize = 1 + FIRSTS + FIRSTS * SECONDS;

const FREE: u64 = 1;
const DIRTY: u64 = 2;
/// In use as far as the heap goes, but released: a thread's cache has it.
const CACHED: u64 = 4;
const SIZE: u64 = ((1 << 48) - 1) & !(GRANULE - 1);
const SEAL: u64 = !((1 << 48) - 1);
/// No block: offsets are multiples of the granule.
const NONE: u64 = 1;

/// Bits that a tag of this block has and others most likely have not.
#[inline]
const fn seal(block: u64) -> u64 {
    (block ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15) & SEAL
}

/// Bytes of the block that a request takes, tag included; `None`: more than any heap has.
#[inline]
pub fn block_bytes(bytes: u64) -> Option<u64> {
    let bytes = bytes.checked_add(TAG_BYTES + GRANULE - 1)? & !(GRANULE - 1);
    (bytes <= MAX_BLOCK / 2).then(|| bytes.max(MIN_BLOCK))
}

/// A heap.
#[derive(Debug)]
pub struct Tlsf<M> {
    memory: M,
    end: u64,
}

/// A tag's size word, taken apart.
#[derive(Clone, Copy)]
struct Tag {
    bytes: u64,
    free: bool,
    dirty: bool,
    cached: bool,
}

/// What a tag's size word says of the block in use at `block`: its bytes, tag included.
///
/// # Errors
/// [`Error::NotABlock`] or [`Error::AlreadyFree`], with the address of the payload.
#[inline]
pub fn used_bytes(word: u64, block: u64, heap_bytes: u64) -> Result<u64, Error> {
    let addr = block + TAG_BYTES;
    let bytes = word & SIZE;
    if word & SEAL != seal(block) || bytes < MIN_BLOCK || bytes > heap_bytes - block {
        return Err(Error::NotABlock { addr });
    }
    if word & (FREE | CACHED) != 0 {
        return Err(Error::AlreadyFree { addr });
    }
    Ok(bytes)
}

/// The size word of a block in use that a cache takes, or gives out again.
#[inline]
pub const fn with_cached(word: u64, cached: bool) -> u64 {
    if cached { word | CACHED } else { word & !CACHED }
}

// What malloc and free consist of is inlined always: results with errors would go through memory otherwise, a quarter of
// the time of a call.
impl<M: HeapMemory> Tlsf<M> {
    /// An empty heap over `bytes`, rounded down to a granule. The first [`MIN_BLOCK`] bytes must be writable.
    ///
    /// # Errors
    /// Where there are too few or too many bytes.
    pub fn new(memory: M, bytes: u64) -> Result<Self, Error> {
        let end = bytes & !(GRANULE - 1);
        if !(MIN_BLOCK..=MAX_BLOCK).contains(&end) {
            return Err(Error::OutOfAddressSpace { bytes });
        }
        let mut heap = Self { memory, end };
        heap.memory.set_tag(0, TagWord::Before, NONE);
        heap.insert(BlockSpan { start: 0, end }, false);
        Ok(heap)
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory. Its control words and tags must stay as they are.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Bytes of the heap.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    #[inline(always)]
    fn read(&mut self, block: u64) -> Result<Tag, Error> {
        let word = self.memory.tag(block, TagWord::Size);
        let tag = Tag {
            bytes: word & SIZE,
            free: word & FREE != 0,
            dirty: word & DIRTY != 0,
            cached: word & CACHED != 0,
        };
        if word & SEAL != seal(block) || tag.bytes > self.end - block {
            return Err(Error::Corrupt { addr: block + TAG_BYTES });
        }
        Ok(tag)
    }

    #[inline]
    fn write(&mut self, block: BlockSpan, flags: u64) {
        self.memory.set_tag(block.start, TagWord::Size, block.len() | flags | seal(block.start));
    }

    #[inline]
    fn head(class: Class) -> usize {
        1 + FIRSTS + class.first * SECONDS + class.second
    }

    /// The word of a list head: zero is "none", so that zeroed control words are an empty heap.
    #[inline]
    fn first_of(&mut self, class: Class) -> u64 {
        match self.memory.control(Self::head(class)) {
            0 => NONE,
            word => word & !1,
        }
    }

    #[inline]
    fn set_first(&mut self, class: Class, block: u64) {
        let word = if block == NONE { 0 } else { block | 1 };
        self.memory.set_control(Self::head(class), word);
    }

    /// Writes the tag of a free block and puts it at the head of its list.
    #[inline(always)]
    fn insert(&mut self, block: BlockSpan, dirty: bool) {
        self.write(block, FREE | if dirty { DIRTY } else { 0 });
        let class = class_of(block.len());
        let next = self.first_of(class);
        self.memory.set_tag(block.start, TagWord::Next, next);
        self.memory.set_tag(block.start, TagWord::Previous, NONE);
        self.set_first(class, block.start);
        if next == NONE {
            let firsts = self.memory.control(0);
            let seconds = self.memory.control(1 + class.first);
            self.memory.set_control(0, firsts | 1 << class.first);
            self.memory.set_control(1 + class.first, seconds | 1 << class.second);
        } else {
            self.memory.set_tag(next, TagWord::Previous, block.start);
        }
        self.memory.listed(block, dirty, true);
    }

    /// Takes a free block off its list.
    #[inline(always)]
    fn remove(&mut self, block: BlockSpan, dirty: bool) {
        self.memory.listed(block, dirty, false);
        let class = class_of(block.len());
        let next = self.memory.tag(block.start, TagWord::Next);
        let previous = self.memory.tag(block.start, TagWord::Previous);
        if next != NONE {
            self.memory.set_tag(next, TagWord::Previous, previous);
        }
        if previous != NONE {
            self.memory.set_tag(previous, TagWord::Next, next);
            return;
        }
        self.set_first(class, next);
        if next == NONE {
            let seconds = self.memory.control(1 + class.first) & !(1 << class.second);
            self.memory.set_control(1 + class.first, seconds);
            if seconds == 0 {
                let firsts = self.memory.control(0);
                self.memory.set_control(0, firsts & !(1 << class.first));
            }
        }
    }

    /// A free block that has `bytes`, of the smallest class all of whose blocks have them.
    #[inline]
    fn find(&mut self, bytes: u64) -> Option<u64> {
        let class = class_of(round_up(bytes));
        let seconds = self.memory.control(1 + class.first) & (!0 << class.second);
        let class = if seconds != 0 {
            Class { first: class.first, second: seconds.trailing_zeros() as usize }
        } else {
            let firsts = self.memory.control(0) & !((2 << class.first) - 1);
            if firsts == 0 {
                return None;
            }
            let first = firsts.trailing_zeros() as usize;
            Class { first, second: self.memory.control(1 + first).trailing_zeros() as usize }
        };
        Some(self.first_of(class))
    }

    #[inline]
    fn block_bytes(bytes: u64) -> Option<u64> {
        block_bytes(bytes)
    }

    /// Gives `bytes` bytes at a multiple of 16.
    ///
    /// # Errors
    /// [`Error::OutOfAddressSpace`], or what the memory says.
    pub fn malloc(&mut self, bytes: u64) -> Result<u64, Error> {
        self.place(GRANULE, bytes)
    }

    /// Gives `bytes` bytes at a multiple of `align`, which is a power of two.
    ///
    /// # Errors
    /// [`Error::BadAlignment`], [`Error::OutOfAddressSpace`], or what the memory says.
    pub fn memalign(&mut self, align: u64, bytes: u64) -> Result<u64, Error> {
        if !align.is_power_of_two() || align > MAX_BLOCK / 4 {
            return Err(Error::BadAlignment { align });
        }
        self.place(align, bytes)
    }

    /// Without an alignment, half of it is not needed.
    #[inline(always)]
    fn place(&mut self, align: u64, bytes: u64) -> Result<u64, Error> {
        let too_much = Error::OutOfAddressSpace { bytes };
        let need = Self::block_bytes(bytes).ok_or(too_much)?;
        // Room to move the block up to the next multiple, with a free block before it.
        let slack = if align > GRANULE { align + MIN_BLOCK } else { 0 };
        let free = self.find(need + slack).ok_or(too_much)?;
        let tag = self.read(free)?;
        let free = BlockSpan { start: free, end: free + tag.bytes };
        let mut start = free.start;
        if align > GRANULE {
            start = (free.start + TAG_BYTES).next_multiple_of(align) - TAG_BYTES;
            if start > free.start && start - free.start < MIN_BLOCK {
                start = (free.start + MIN_BLOCK + TAG_BYTES).next_multiple_of(align) - TAG_BYTES;
            }
        }
        let rest = start + need;
        let end = if free.end - rest >= MIN_BLOCK { rest } else { free.end };
        self.occupy(free, tag.dirty, BlockSpan { start, end })?;
        Ok(start + TAG_BYTES)
    }

    /// Makes a part of a free block a block in use; what is before and after it stays free.
    #[inline(always)]
    fn occupy(&mut self, free: BlockSpan, dirty: bool, block: BlockSpan) -> Result<(), Error> {
        let BlockSpan { start, end } = block;
        let (mut cuts, mut len) = ([0; 2], 0);
        for (cut, made) in [(start, start > free.start), (end, end < free.end)] {
            if made {
                cuts[len] = cut;
                len += 1;
            }
        }
        self.memory.carve(free, &cuts[..len], block)?;
        self.remove(free, dirty);
        if start > free.start {
            self.insert(BlockSpan { start: free.start, end: start }, dirty);
            self.memory.set_tag(start, TagWord::Before, free.start);
        }
        if end < free.end {
            self.memory.set_tag(end, TagWord::Before, start);
            self.insert(BlockSpan { start: end, end: free.end }, dirty);
        }
        if len > 0 && free.end < self.end {
            self.memory.set_tag(free.end, TagWord::Before, if end < free.end { end } else { start });
        }
        self.write(block, 0);
        Ok(())
    }

    /// The block in use whose payload begins at `addr`.
    #[inline(always)]
    fn used(&mut self, addr: u64) -> Result<BlockSpan, Error> {
        let wrong = Error::NotABlock { addr };
        let start = addr.checked_sub(TAG_BYTES).ok_or(wrong)?;
        if !start.is_multiple_of(GRANULE) || addr >= self.end {
            return Err(wrong);
        }
        let tag = self.read(start).map_err(|_| wrong)?;
        if tag.free || tag.cached {
            return Err(Error::AlreadyFree { addr });
        }
        if tag.bytes < MIN_BLOCK {
            return Err(wrong);
        }
        Ok(BlockSpan { start, end: start + tag.bytes })
    }

    /// The block after one, where there is one, and what its tag says.
    #[inline(always)]
    fn after(&mut self, block: BlockSpan) -> Result<Option<(BlockSpan, Tag)>, Error> {
        if block.end >= self.end {
            return Ok(None);
        }
        let tag = self.read(block.end)?;
        if self.memory.tag(block.end, TagWord::Before) != block.start {
            return Err(Error::Corrupt { addr: block.end + TAG_BYTES });
        }
        Ok(Some((BlockSpan { start: block.end, end: block.end + tag.bytes }, tag)))
    }

    /// Releases a block.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`], or [`Error::Corrupt`] where the program wrote over a tag. Nothing has
    /// changed then.
    pub fn free(&mut self, addr: u64) -> Result<(), Error> {
        let freed = self.used(addr)?;
        let right = self.after(freed)?.filter(|(_, tag)| tag.free);
        let before = self.memory.tag(freed.start, TagWord::Before);
        let left = match before {
            NONE => None,
            before if before >= freed.start => return Err(Error::Corrupt { addr }),
            before => {
                let tag = self.read(before)?;
                if before + tag.bytes != freed.start {
                    return Err(Error::Corrupt { addr });
                }
                tag.free.then_some((BlockSpan { start: before, end: freed.start }, tag))
            }
        };
        let mut merged = freed;
        let mut dirty = false;
        if let Some((block, tag)) = right {
            self.remove(block, tag.dirty);
            self.memory.erase_tag(block.start);
            (merged.end, dirty) = (block.end, tag.dirty);
        }
        if let Some((block, tag)) = left {
            self.remove(block, tag.dirty);
            self.memory.erase_tag(freed.start);
            (merged.start, dirty) = (block.start, dirty | tag.dirty);
        }
        if merged != freed && merged.end < self.end {
            self.memory.set_tag(merged.end, TagWord::Before, merged.start);
        }
        let merge = Merge {
            merged,
            freed,
            left: left.is_some(),
            right: right.is_some(),
            at_end: merged.end == self.end,
        };
        dirty |= self.memory.merge(&merge);
        self.insert(merged, dirty);
        Ok(())
    }

    /// Bytes that the payload at `addr` really has.
    ///
    /// # Errors
    /// As [`Tlsf::free`].
    pub fn usable(&mut self, addr: u64) -> Result<u64, Error> {
        Ok(self.used(addr)?.len() - TAG_BYTES)
    }

    /// Changes the size of a block, and its place where that is needed. Its bytes are kept up to the smaller size.
    ///
    /// Where pages can't change hands inside a block ([`HeapMemory::RESIZES`]), a block grows by moving, and moves to
    /// become smaller if that gives a page back. Moving is linear in the bytes that are kept; all else is constant.
    ///
    /// # Errors
    /// As [`Tlsf::malloc`] and [`Tlsf::free`]; the block is as it was then.
    pub fn realloc(&mut self, addr: u64, bytes: u64) -> Result<u64, Error> {
        let block = self.used(addr)?;
        let need = Self::block_bytes(bytes).ok_or(Error::OutOfAddressSpace { bytes })?;
        let old = block.len();
        if M::RESIZES {
            if need <= old {
                self.cut(block, need)?;
                return Ok(addr);
            }
            if let Some((after, tag)) = self.after(block)?.filter(|(_, tag)| tag.free)
                && old + after.len() >= need
            {
                self.remove(after, tag.dirty);
                self.memory.erase_tag(after.start);
                let whole = BlockSpan { start: block.start, end: after.end };
                self.write(whole, 0);
                if whole.end < self.end {
                    self.memory.set_tag(whole.end, TagWord::Before, whole.start);
                }
                // What is left of the free block was not used: it may be all of the arena.
                self.memory.clean(true);
                let cut = self.cut(whole, need);
                self.memory.clean(false);
                cut?;
                return Ok(addr);
            }
        } else if need <= old && old - need < self.memory.page_bytes() {
            return Ok(addr);
        }
        let moved = match self.malloc(bytes) {
            Ok(moved) => moved,
            // A smaller block that finds no other place stays.
            Err(_) if need <= old => return Ok(addr),
            Err(error) => return Err(error),
        };
        if let Err(error) = self.memory.copy(addr, moved, (old - TAG_BYTES).min(bytes)) {
            self.free(moved)?;
            return if need <= old { Ok(addr) } else { Err(error) };
        }
        self.free(addr)?;
        Ok(moved)
    }

    /// Releases what a block has beyond `need` bytes.
    fn cut(&mut self, block: BlockSpan, need: u64) -> Result<(), Error> {
        let rest = BlockSpan { start: block.start + need, end: block.end };
        if rest.len() < MIN_BLOCK {
            return Ok(());
        }
        self.memory.set_tag(rest.start, TagWord::Before, block.start);
        self.write(rest, 0);
        if rest.end < self.end {
            self.memory.set_tag(rest.end, TagWord::Before, rest.start);
        }
        self.write(BlockSpan { start: block.start, end: rest.start }, 0);
        self.free(rest.start + TAG_BYTES)
    }

    /// Where the free block that begins at `start` ends.
    ///
    /// # Errors
    /// Where none begins there, or its tag was written over.
    pub fn free_end(&mut self, start: u64) -> Result<u64, Error> {
        let tag = self.read(start)?;
        if tag.free { Ok(start + tag.bytes) } else { Err(Error::NotABlock { addr: start + TAG_BYTES }) }
    }

    /// Takes a part of a free block out of the heap's hands for a while: it looks like a block in use. For giving its pages
    /// back without holding up others; [`Tlsf::give_back`] ends that. The part grows where too little would be left beside it.
    ///
    /// # Errors
    /// Where no free block begins at `start`, the part is not inside it, or a tag was written over.
    pub fn take_out(&mut self, start: u64, part: BlockSpan) -> Result<BlockSpan, Error> {
        let tag = self.read(start)?;
        let block = BlockSpan { start, end: start + tag.bytes };
        let inside = block.start <= part.start && part.start < part.end && part.end <= block.end;
        if !tag.free || !inside {
            return Err(Error::NotABlock { addr: start + TAG_BYTES });
        }
        let mut part = BlockSpan { start: part.start & !(GRANULE - 1), end: part.end & !(GRANULE - 1) };
        if part.start - block.start < MIN_BLOCK {
            part.start = block.start;
        }
        if part.end.saturating_sub(part.start) < MIN_BLOCK {
            part.end = part.start + MIN_BLOCK;
        }
        if part.end > block.end || block.end - part.end < MIN_BLOCK {
            part.end = block.end;
        }
        self.occupy(block, tag.dirty, part)?;
        Ok(part)
    }

    /// Puts a block back that [`Tlsf::take_out`] took, merged with its neighbours.
    ///
    /// # Errors
    /// As [`Tlsf::free`].
    pub fn give_back(&mut self, block: BlockSpan) -> Result<(), Error> {
        self.free(block.start + TAG_BYTES)
    }

    /// Goes through all blocks and lists; for tests and for finding who wrote over a tag. Linear.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&mut self) -> Result<HeapCensus, Error> {
        let mut walk = HeapCensus::default();
        let (mut at, mut before, mut was_free) = (0, NONE, false);
        while at < self.end {
            let tag = self.read(at)?;
            let wrong = Error::Corrupt { addr: at + TAG_BYTES };
            if tag.bytes < MIN_BLOCK
                || self.memory.tag(at, TagWord::Before) != before
                || (was_free && tag.free)
            {
                return Err(wrong);
            }
            if tag.free {
                walk.free_blocks += 1;
                walk.free_bytes += tag.bytes;
                walk.largest_free = walk.largest_free.max(tag.bytes);
            } else {
                walk.used_blocks += 1;
                walk.used_bytes += tag.bytes;
                walk.cached_blocks += u64::from(tag.cached);
                walk.cached_bytes += if tag.cached { tag.bytes } else { 0 };
            }
            (before, was_free) = (at, tag.free);
            at += tag.bytes;
        }
        let mut listed = 0;
        for first in 0..FIRSTS {
            for second in 0..SECONDS {
                let class = Class { first, second };
                let (mut at, mut previous) = (self.first_of(class), NONE);
                let marked = self.memory.control(1 + first) >> second & 1 != 0
                    && self.memory.control(0) >> first & 1 != 0;
                if marked != (at != NONE) {
                    return Err(Error::Corrupt { addr: at });
                }
                while at != NONE {
                    let tag = self.read(at)?;
                    let fits = tag.free && class_of(tag.bytes) == class;
                    if !fits
                        || self.memory.tag(at, TagWord::Previous) != previous
                        || listed > walk.free_blocks
                    {
                        return Err(Error::Corrupt { addr: at + TAG_BYTES });
                    }
                    listed += 1;
                    (previous, at) = (at, self.memory.tag(at, TagWord::Next));
                }
            }
        }
        if listed != walk.free_blocks {
            return Err(Error::Corrupt { addr: TAG_BYTES });
        }
        Ok(walk)
    }
}

/// What a heap consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapCensus {
    /// Blocks in use.
    pub used_blocks: u64,
    /// Their bytes, tags included.
    pub used_bytes: u64,
    /// Those of them that caches hold.
    pub cached_blocks: u64,
    /// Their bytes.
    pub cached_bytes: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// Bytes of the largest of them.
    pub largest_free: u64,
}

//! The arena as the memory of a heap: tags by pointer, control words beside it, and a list of free blocks whose pages wait to
//! be given back.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::tlsf::{BlockSpan, CONTROL_WORDS, HeapMemory, Merge, TagWord};

/// Bytes of a listed block that hold its tag, its links, the links of the list, and the range that waits.
pub(super) const LISTED_BYTES: u64 = 64;
const NEXT_DIRTY: u64 = 32;
const PREVIOUS_DIRTY: u64 = 40;
const DIRTY_START: u64 = 48;
const DIRTY_END: u64 = 56;
const NONE: u64 = u64::MAX;
const NO_RANGE: BlockSpan = BlockSpan { start: 0, end: 0 };
/// Fewer pages than that are not worth the tags that giving them back takes, a page on either side.
pub(super) const FEWEST_PAGES: u64 = 4;

/// The smallest range with both.
fn hull(a: BlockSpan, b: BlockSpan) -> BlockSpan {
    if a.is_empty() {
        return b;
    }
    if b.is_empty() {
        return a;
    }
    BlockSpan { start: a.start.min(b.start), end: a.end.max(b.end) }
}

fn common(a: BlockSpan, b: BlockSpan) -> BlockSpan {
    let both = BlockSpan { start: a.start.max(b.start), end: a.end.min(b.end) };
    if both.is_empty() { NO_RANGE } else { both }
}

/// See the module.
#[derive(Debug)]
pub(super) struct ArenaMemory {
    base: NonNull<u8>,
    control: [u64; CONTROL_WORDS],
    /// Pages that are collected have this many bits; none are where it is `None`.
    page_bits: Option<u32>,
    /// The first block of the list.
    dirty: u64,
    /// What waits in the blocks that the running operation took off their lists.
    pending: BlockSpan,
    /// Whether the block that is being released has given its pages back already.
    clean: bool,
    #[cfg(test)]
    pub(super) touches: core::cell::Cell<u64>,
}

impl ArenaMemory {
    pub(super) fn new(base: NonNull<u8>, page_bits: Option<u32>) -> Self {
        Self {
            base,
            control: [0; CONTROL_WORDS],
            page_bits,
            dirty: NONE,
            pending: NO_RANGE,
            clean: false,
            #[cfg(test)]
            touches: core::cell::Cell::new(0),
        }
    }

    /// An operation begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.pending = NO_RANGE;
    }

    fn touch(&self) {
        #[cfg(test)]
        self.touches.set(self.touches.get() + 1);
    }

    /// The address of an offset, which is below the arena's bytes.
    #[inline]
    pub(super) fn pointer(&self, offset: u64) -> NonNull<u8> {
        // SAFETY: callers have offsets of blocks, or of words of them, which lie in the arena; `RtHeap::new` asks for an arena
        // that is one object.
        unsafe { self.base.add(offset as usize) }
    }

    #[inline]
    fn word(&self, offset: u64) -> u64 {
        self.touch();
        // SAFETY: in the arena as above, at a multiple of 8 because blocks begin at multiples of 16 and the arena of 4096;
        // tags are the heap's own, and every bit pattern is a number. Atomic, because caches mark blocks without the
        // heap's lock (`Blocks`): they order nothing by it.
        unsafe { self.pointer(offset).cast::<AtomicU64>().as_ref().load(Ordering::Relaxed) }
    }

    #[inline]
    fn set_word(&mut self, offset: u64, word: u64) {
        self.touch();
        // SAFETY: in the arena, at a multiple of 8; the heap writes to tags, and to payloads of free blocks alone, which have no other owner.
        unsafe { self.pointer(offset).cast::<AtomicU64>().as_ref().store(word, Ordering::Relaxed) };
    }

    /// The whole pages of a block after what the list needs, in bytes.
    #[inline]
    pub(super) fn whole_bytes(&self, block: BlockSpan) -> BlockSpan {
        let Some(bits) = self.page_bits else { return NO_RANGE };
        let mask = (1_u64 << bits) - 1;
        common(
            BlockSpan { start: (block.start + LISTED_BYTES + mask) & !mask, end: block.end & !mask },
            BlockSpan { start: 0, end: u64::MAX },
        )
    }

    /// Bytes less one of a page.
    #[inline]
    pub(super) fn page_mask(&self) -> u64 {
        (1 << self.page_bits.unwrap_or(12)) - 1
    }

    /// A block with pages that wait, and these.
    pub(super) fn some_dirty(&self) -> Option<(u64, BlockSpan)> {
        let block = self.dirty;
        let waits = || BlockSpan { start: self.word(block + DIRTY_START), end: self.word(block + DIRTY_END) };
        (block != NONE).then(|| (block, waits()))
    }

    /// The first `bytes` bytes that wait in the first block of the list do so no longer.
    pub(super) fn skip(&mut self, bytes: u64) {
        let Some((block, waits)) = self.some_dirty() else { return };
        let rest = BlockSpan { start: waits.start + bytes, end: waits.end };
        if !self.is_linked(rest) {
            self.unlink(block);
        }
        let rest = if rest.is_empty() { NO_RANGE } else { rest };
        self.set_word(block + DIRTY_START, rest.start);
        self.set_word(block + DIRTY_END, rest.end);
    }

    /// Whether a block with these pages is in the list: a few pages wait until more of their neighbours do.
    #[inline]
    fn is_linked(&self, waits: BlockSpan) -> bool {
        !waits.is_empty() && waits.len() >= FEWEST_PAGES * (self.page_mask() + 1)
    }

    fn link(&mut self, block: u64) {
        let next = self.dirty;
        self.set_word(block + NEXT_DIRTY, next);
        self.set_word(block + PREVIOUS_DIRTY, NONE);
        if next != NONE {
            self.set_word(next + PREVIOUS_DIRTY, block);
        }
        self.dirty = block;
    }

    fn unlink(&mut self, block: u64) {
        let (next, previous) = (self.word(block + NEXT_DIRTY), self.word(block + PREVIOUS_DIRTY));
        if next != NONE {
            self.set_word(next + PREVIOUS_DIRTY, previous);
        }
        if previous != NONE {
            self.set_word(previous + NEXT_DIRTY, next);
        } else {
            self.dirty = next;
        }
    }
}

impl HeapMemory for ArenaMemory {
    const RESIZES: bool = true;

    fn page_bytes(&self) -> u64 {
        1 << self.page_bits.unwrap_or(12)
    }

    #[inline]
    fn control(&mut self, index: usize) -> u64 {
        self.touch();
        self.control[index]
    }

    #[inline]
    fn set_control(&mut self, index: usize, word: u64) {
        self.touch();
        self.control[index] = word;
    }

    #[inline]
    fn tag(&mut self, block: u64, field: TagWord) -> u64 {
        self.word(block + field.offset())
    }

    #[inline]
    fn set_tag(&mut self, block: u64, field: TagWord, word: u64) {
        self.set_word(block + field.offset(), word);
    }

    /// A tombstone: a second free of the block finds no block.
    #[inline]
    fn erase_tag(&mut self, block: u64) {
        self.set_word(block + TagWord::Size.offset(), 0);
    }

    #[inline]
    fn carve(&mut self, _: BlockSpan, _: &[u64], _: BlockSpan) -> Result<(), Error> {
        Ok(())
    }

    fn clean(&mut self, clean: bool) {
        self.clean = clean;
    }

    #[inline]
    fn merge(&mut self, merge: &Merge) -> bool {
        if self.page_bits.is_none() {
            return false;
        }
        let mask = self.page_bytes() - 1;
        let own = if self.clean {
            // The page with the tag of the rest, which was cut off there and waits: now it is whole.
            let start = merge.freed.end & !mask;
            let shared = BlockSpan { start, end: start + mask + 1 };
            if merge.right && self.pending.start == shared.end { shared } else { NO_RANGE }
        } else {
            // Its own bytes; the pages that it shared with free neighbours come with it.
            BlockSpan { start: merge.freed.start & !mask, end: (merge.freed.end + mask) & !mask }
        };
        self.pending = hull(self.pending, own);
        self.pending = common(self.pending, self.whole_bytes(merge.merged));
        !self.pending.is_empty()
    }

    #[inline]
    fn listed(&mut self, block: BlockSpan, dirty: bool, on: bool) {
        if !dirty {
            return;
        }
        let whole = self.whole_bytes(block);
        // Too small to have the words of the list: its pages are not whole, and nothing waits.
        if whole.is_empty() {
            return;
        }
        if on {
            let waits = common(self.pending, whole);
            self.set_word(block.start + DIRTY_START, waits.start);
            self.set_word(block.start + DIRTY_END, waits.end);
            if self.is_linked(waits) {
                self.link(block.start);
            }
            return;
        }
        let waits = BlockSpan {
            start: self.word(block.start + DIRTY_START),
            end: self.word(block.start + DIRTY_END),
        };
        if self.is_linked(waits) {
            self.unlink(block.start);
        }
        self.pending = hull(self.pending, waits);
    }

    fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: two payloads of this heap of at least `bytes` bytes each, which do not overlap: one was made while the other
        // was in use.
        unsafe { self.pointer(from).copy_to_nonoverlapping(self.pointer(to), bytes as usize) };
        Ok(())
    }
}

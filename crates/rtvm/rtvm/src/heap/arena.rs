//! The arena as the memory of a heap: tags by pointer, control words
//! beside it, and a list of free blocks whose pages wait to be given back.
//!
//! Each waiting range has the period in which it was released, so that pages go back only when they have not been used for a while. The
//! list begins with the most recently released range. If a part of a range is used, the rest keeps its period, and goes to the end of the
//! list if it is the oldest: whatever the order of calls, the end of the list ages, and unused ranges move to its end. When ranges merge,
//! the period of the larger one counts, so a small block that comes and goes beside a large free one does not keep that one young.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::tlsf::{BlockSpan, CONTROL_WORDS, HeapMemory, Merge, TagWord};

/// Bytes of a listed block that hold its tag, its links, the links of the list, and the range that waits.
pub(super) const LISTED_BYTES: u64 = 64;
pub(super) const NEXT_DIRTY: u64 = 32;
pub(super) const PREVIOUS_DIRTY: u64 = 40;
const DIRTY_START: u64 = 48;
const DIRTY_END: u64 = 56;
/// No block.
pub(super) const NONE: u64 = u64::MAX;
const NO_RANGE: BlockSpan = BlockSpan { start: 0, end: 0 };
/// The bits of the word at [`DIRTY_START`] that hold the period: pages have 256 bytes at least.
const PERIOD_BITS: u64 = 0xff;
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

/// Pages that wait, and when they were released, in periods modulo 256.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRange {
    pub(super) pages: BlockSpan,
    pub(super) period: u8,
}

const NOTHING: WaitingRange = WaitingRange { pages: NO_RANGE, period: 0 };

impl WaitingRange {
    /// The smallest range with both; the larger one's period.
    fn with(self, other: Self) -> Self {
        let bytes = |range: Self| if range.pages.is_empty() { 0 } else { range.pages.len() };
        let larger = if bytes(self) > bytes(other) { self } else { other };
        Self { pages: hull(self.pages, other.pages), period: larger.period }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct ArenaMemory {
    base: NonNull<u8>,
    control: [u64; CONTROL_WORDS],
    /// Pages that are collected have this many bits; none are where it is `None`.
    page_bits: Option<u32>,
    /// The first block of the list, which was put there last.
    pub(super) newest: u64,
    /// The last one.
    pub(super) oldest: u64,
    /// The period that runs.
    pub(super) period: u8,
    /// What waits in the blocks that the running operation took off their lists.
    pending: WaitingRange,
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
            newest: NONE,
            oldest: NONE,
            period: 0,
            pending: NOTHING,
            clean: false,
            #[cfg(test)]
            touches: core::cell::Cell::new(0),
        }
    }

    /// An operation begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.pending = NOTHING;
    }

    /// The next period begins.
    pub(super) fn pass_period(&mut self) {
        self.period = self.period.wrapping_add(1);
    }

    /// Periods since one, modulo 256.
    #[inline]
    pub(super) fn age(&self, period: u8) -> u8 {
        self.period.wrapping_sub(period)
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

    pub(super) fn waits(&self, block: u64) -> WaitingRange {
        let (start, end) = (self.word(block + DIRTY_START), self.word(block + DIRTY_END));
        WaitingRange {
            pages: BlockSpan { start: start & !PERIOD_BITS, end },
            period: (start & PERIOD_BITS) as u8,
        }
    }

    fn set_waits(&mut self, block: u64, waits: WaitingRange) {
        let pages = if waits.pages.is_empty() { NO_RANGE } else { waits.pages };
        self.set_word(block + DIRTY_START, pages.start | u64::from(waits.period));
        self.set_word(block + DIRTY_END, pages.end);
    }

    /// The block at the end of the list, what waits in it, and since how many periods.
    pub(super) fn oldest_waiting(&self) -> Option<(u64, BlockSpan, u8)> {
        let block = self.oldest;
        (block != NONE).then(|| {
            let waits = self.waits(block);
            (block, waits.pages, self.age(waits.period))
        })
    }

    /// The first `bytes` bytes that wait in the block at the end of the list do so no longer.
    pub(super) fn skip(&mut self, bytes: u64) {
        let block = self.oldest;
        if block == NONE {
            return;
        }
        let mut waits = self.waits(block);
        waits.pages.start += bytes;
        if !self.is_linked(waits.pages) {
            self.unlink(block);
        }
        self.set_waits(block, waits);
    }

    /// Whether a block with these pages is in the list: a few pages wait until more of their neighbours do.
    #[inline]
    pub(super) fn is_linked(&self, waits: BlockSpan) -> bool {
        !waits.is_empty() && waits.len() >= FEWEST_PAGES * (self.page_mask() + 1)
    }

    /// Puts a block at the beginning of the list, or at its end where nothing there waits for longer.
    fn link(&mut self, block: u64, period: u8) {
        let (next, last) = (self.newest, self.oldest);
        let age = self.age(period);
        // One word of the last block; not where the pages were released just now, as most are.
        if age > 0 && last != NONE && age >= self.age(self.word(last + DIRTY_START) as u8) {
            self.set_word(block + NEXT_DIRTY, NONE);
            self.set_word(block + PREVIOUS_DIRTY, last);
            self.set_word(last + NEXT_DIRTY, block);
            self.oldest = block;
            return;
        }
        self.set_word(block + NEXT_DIRTY, next);
        self.set_word(block + PREVIOUS_DIRTY, NONE);
        if next != NONE {
            self.set_word(next + PREVIOUS_DIRTY, block);
        } else {
            self.oldest = block;
        }
        self.newest = block;
    }

    fn unlink(&mut self, block: u64) {
        let (next, previous) = (self.word(block + NEXT_DIRTY), self.word(block + PREVIOUS_DIRTY));
        if next != NONE {
            self.set_word(next + PREVIOUS_DIRTY, previous);
        } else {
            self.oldest = previous;
        }
        if previous != NONE {
            self.set_word(previous + NEXT_DIRTY, next);
        } else {
            self.newest = next;
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
            let beside = merge.right && self.pending.pages.start == shared.end;
            WaitingRange { pages: if beside { shared } else { NO_RANGE }, period: self.pending.period }
        } else {
            // Its own bytes; the pages that it shared with free neighbours come with it.
            let pages = BlockSpan { start: merge.freed.start & !mask, end: (merge.freed.end + mask) & !mask };
            WaitingRange { pages, period: self.period }
        };
        self.pending = self.pending.with(own);
        self.pending.pages = common(self.pending.pages, self.whole_bytes(merge.merged));
        !self.pending.pages.is_empty()
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
            let waits = WaitingRange { pages: common(self.pending.pages, whole), ..self.pending };
            self.set_waits(block.start, waits);
            if self.is_linked(waits.pages) {
                self.link(block.start, waits.period);
            }
            return;
        }
        let waits = self.waits(block.start);
        if self.is_linked(waits.pages) {
            self.unlink(block.start);
        }
        self.pending = self.pending.with(waits);
    }

    fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: two payloads of this heap of at least `bytes` bytes each, which do not overlap: one was made while the other
        // was in use.
        unsafe { self.pointer(from).copy_to_nonoverlapping(self.pointer(to), bytes as usize) };
        Ok(())
    }
}

//! A thread's cache of small blocks, so that most calls take no lock.
//!
//! Blocks of up to [`MOST_BYTES`], by size in steps of 16 bytes. A class has two magazines of at most [`BATCH`] blocks: malloc
//! takes from the one, free puts into it; when it is empty or full the other one takes its place; when that does not help
//! either, a whole magazine goes to or comes from the other threads ([`Shelf`]), and only then the heap is asked, for
//! [`BATCH`] blocks in one go. Who frees a block caches it, whoever asked for it.
//!
//! To the heap a cached block is in use, with a mark in its tag: so that freeing it again is an error, as it is without cache.
//! Start reading at [`ThreadCache::take`].

use std::ptr::{NonNull, null_mut};

use rtvm::heap::Blocks;

use crate::Shelf;

/// The most blocks of a magazine, and so of what one call moves under the lock.
pub const BATCH: usize = 16;
/// The largest block that is cached, its tag included.
pub const MOST_BYTES: usize = 1024;
/// Classes: sizes are multiples of 16.
pub(crate) const CLASSES: usize = MOST_BYTES / 16 + 1;
/// Bytes that the caches of one thread and the shelves hold at most: a term of the arena that a program needs.
pub const THREAD_BYTES: usize = 2 * BATCH * 16 * CLASSES * (CLASSES - 1) / 2;
/// See [`THREAD_BYTES`].
pub const SHELF_BYTES: usize = crate::depot::SLOTS * BATCH * 16 * CLASSES * (CLASSES - 1) / 2;

/// What a cached block's payload begins with. The first of a magazine that lies on a shelf has the number of blocks, too:
/// the smallest payload is 16 bytes.
#[repr(C)]
struct Link {
    next: *mut Link,
    count: usize,
}

/// A list of blocks.
#[derive(Clone, Copy, Debug)]
struct Magazine {
    first: *mut Link,
    count: usize,
}

const EMPTY: Magazine = Magazine { first: null_mut(), count: 0 };

impl Magazine {
    fn push(&mut self, block: NonNull<u8>) {
        let link = block.cast::<Link>().as_ptr();
        // SAFETY: the payload of a block that its owner gave up, of at least 16 bytes at a multiple of 16.
        unsafe { (*link).next = self.first };
        (self.first, self.count) = (link, self.count + 1);
    }

    fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: linked by `push`, and nobody else's since.
        self.first = unsafe { (*block.as_ptr()).next };
        self.count -= 1;
        Some(block.cast())
    }
}

/// The cache of one thread.
#[derive(Debug)]
pub struct ThreadCache {
    current: [Magazine; CLASSES],
    other: [Magazine; CLASSES],
}

impl ThreadCache {
    /// An empty one.
    pub const fn new() -> Self {
        Self { current: [EMPTY; CLASSES], other: [EMPTY; CLASSES] }
    }

    /// The class of blocks of so many bytes, tag included; `None`: too large.
    pub(crate) fn class(block_bytes: usize) -> Option<usize> {
        (block_bytes <= MOST_BYTES).then_some(block_bytes / 16)
    }

    /// A block of that class, if the cache or the shelf has one.
    pub(crate) fn take(&mut self, class: usize, shelf: &Shelf, blocks: Blocks) -> Option<NonNull<u8>> {
        if self.current[class].count == 0 {
            std::mem::swap(&mut self.current[class], &mut self.other[class]);
        }
        if self.current[class].count == 0
            && let Some(first) = shelf.take()
        {
            let first = first as *mut Link;
            // SAFETY: a magazine that `put` left, now this thread's alone.
            self.current[class] = Magazine { first, count: unsafe { (*first).count } };
        }
        let block = self.current[class].pop()?;
        blocks.set_cached(block, false);
        Some(block)
    }

    /// Keeps a block that the heap made in advance. There is room: the class is empty but for these.
    pub(crate) fn fill(&mut self, class: usize, block: NonNull<u8>, blocks: Blocks) {
        blocks.set_cached(block, true);
        self.current[class].push(block);
    }

    /// Keeps a block. Where there is no room, the blocks that have to go to the heap.
    pub(crate) fn put(
        &mut self,
        class: usize,
        block: NonNull<u8>,
        shelf: &Shelf,
        blocks: Blocks,
    ) -> Option<Overflow> {
        let mut overflow = None;
        if self.current[class].count == BATCH {
            std::mem::swap(&mut self.current[class], &mut self.other[class]);
            if self.current[class].count == BATCH {
                overflow = Self::leave(std::mem::replace(&mut self.current[class], EMPTY), shelf);
            }
        }
        blocks.set_cached(block, true);
        self.current[class].push(block);
        overflow
    }

    fn leave(full: Magazine, shelf: &Shelf) -> Option<Overflow> {
        // SAFETY: the first block of a magazine of this thread.
        unsafe { (*full.first).count = full.count };
        (!shelf.leave(full.first as usize)).then_some(Overflow(full))
    }

    /// All blocks, magazine by magazine; nothing is left.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Overflow> {
        let all = std::mem::take(self);
        all.current.into_iter().chain(all.other).filter(|magazine| magazine.count > 0).map(Overflow)
    }
}

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}

/// Blocks, at most [`BATCH`], that go back to the heap.
#[derive(Debug)]
pub(crate) struct Overflow(Magazine);

impl Overflow {
    /// The next block, no longer marked as cached.
    pub(crate) fn next(&mut self, blocks: Blocks) -> Option<NonNull<u8>> {
        let block = self.0.pop()?;
        blocks.set_cached(block, false);
        Some(block)
    }
}

//! A thread's cache of blocks, so that most calls take no lock.
//!
//! A size class ([`crate::classes`]) has two magazines of at most [`BATCH`](crate::BATCH) blocks. malloc takes
//! from one of them, and free puts into it. When it is empty or full, the other one takes its place. If that does
//! not help either, a whole magazine is exchanged with the other threads ([`Shelf`]). Only then is the heap used,
//! for one magazine of blocks at once. The thread that frees a block caches it, whichever thread allocated it.
//!
//! To the heap a cached block is in use, with a mark in its tag. Freeing it again is
//! therefore an error, as it is without a cache. Start reading at [`ThreadCache::take`].

use std::ptr::{NonNull, null_mut};

use rtvm::heap::Blocks;

use crate::Shelf;
use crate::classes::{CLASSES, MAGAZINES_BYTES, room};

/// Bytes that the caches of one thread and the shelves hold at most: a term of the arena that a program needs.
pub const THREAD_BYTES: usize = 2 * MAGAZINES_BYTES;
/// See [`THREAD_BYTES`].
pub const SHELF_BYTES: usize = crate::depot::SLOTS * MAGAZINES_BYTES;

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
    #[inline]
    fn push(&mut self, block: NonNull<u8>) {
        let link = block.cast::<Link>().as_ptr();
        // SAFETY: the payload of a block that its owner gave up, of at least 16 bytes at a multiple of 16.
        unsafe { (*link).next = self.first };
        (self.first, self.count) = (link, self.count + 1);
    }

    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        // SAFETY: linked by `push`, and nobody else's since.
        self.first = unsafe { (*block.as_ptr()).next };
        self.count -= 1;
        Some(block.cast())
    }
}

/// The magazines of one class; half a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
struct ClassCache {
    current: Magazine,
    other: Magazine,
}

const UNUSED: ClassCache = ClassCache { current: EMPTY, other: EMPTY };

/// The cache of one thread.
#[derive(Debug)]
pub struct ThreadCache {
    classes: [ClassCache; CLASSES],
    /// How many blocks of a class the heap is asked for next time.
    asks: [u8; CLASSES],
}

impl ThreadCache {
    /// An empty one.
    pub const fn new() -> Self {
        Self { classes: [UNUSED; CLASSES], asks: [1; CLASSES] }
    }

    /// A block of the current magazine, which most calls find.
    #[inline(always)]
    pub(crate) fn take_quickly(&mut self, class: usize, blocks: Blocks) -> Option<NonNull<u8>> {
        let block = self.classes[class].current.pop()?;
        blocks.set_cached(block, false);
        Some(block)
    }

    /// Keeps a block in the current magazine, where it has room.
    #[inline(always)]
    pub(crate) fn put_quickly(&mut self, class: usize, block: NonNull<u8>, blocks: Blocks) -> bool {
        let magazine = &mut self.classes[class].current;
        let has_room = magazine.count < room(class);
        if has_room {
            blocks.set_cached(block, true);
            magazine.push(block);
        }
        has_room
    }

    /// How many blocks of a class to ask the heap for: twice as many as last time, up to a magazine. Threads that need a few
    /// blocks of each size get few.
    pub(crate) fn ask(&mut self, class: usize) -> usize {
        let ask = self.asks[class];
        self.asks[class] = ask.saturating_mul(2).min(room(class) as u8);
        usize::from(ask)
    }

    /// A block of that class, if the cache or the shelf has one.
    #[inline]
    pub(crate) fn take(&mut self, class: usize, shelf: &Shelf, blocks: Blocks) -> Option<NonNull<u8>> {
        let magazines = &mut self.classes[class];
        let block = match magazines.current.pop() {
            Some(block) => block,
            None => magazines.change_empty(shelf)?,
        };
        blocks.set_cached(block, false);
        Some(block)
    }

    /// Keeps a block that the heap made in advance. There is room: the class is empty but for these.
    pub(crate) fn fill(&mut self, class: usize, block: NonNull<u8>, blocks: Blocks) {
        blocks.set_cached(block, true);
        self.classes[class].current.push(block);
    }

    /// Keeps a block. Where there is no room, the blocks that have to go to the heap.
    #[inline]
    pub(crate) fn put(
        &mut self,
        class: usize,
        block: NonNull<u8>,
        shelf: &Shelf,
        blocks: Blocks,
    ) -> Option<Overflow> {
        let magazines = &mut self.classes[class];
        let overflow = if magazines.current.count >= room(class) {
            magazines.change_full(room(class), shelf)
        } else {
            None
        };
        if overflow.is_some() {
            self.asks[class] = 1;
        }
        blocks.set_cached(block, true);
        magazines.current.push(block);
        overflow
    }

    /// All blocks, magazine by magazine; nothing is left.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Overflow> {
        let all = std::mem::take(self).classes;
        let magazines = all.into_iter().flat_map(|class| [class.current, class.other]);
        magazines.filter(|magazine| magazine.count > 0).map(Overflow)
    }
}

impl Default for ThreadCache {
    fn default() -> Self {
        Self::new()
    }
}

impl ClassCache {
    /// Replaces the current magazine, which is empty, and takes a block of the new one.
    #[cold]
    fn change_empty(&mut self, shelf: &Shelf) -> Option<NonNull<u8>> {
        std::mem::swap(&mut self.current, &mut self.other);
        if self.current.count == 0
            && let Some(first) = shelf.take()
        {
            let first = first as *mut Link;
            // SAFETY: a magazine that `change_full` left, now this thread's alone.
            self.current = Magazine { first, count: unsafe { (*first).count } };
        }
        self.current.pop()
    }

    /// Replaces the current magazine, which is full, by one with room. What has to go to the heap, where the shelf is full, too.
    #[cold]
    fn change_full(&mut self, room: usize, shelf: &Shelf) -> Option<Overflow> {
        std::mem::swap(&mut self.current, &mut self.other);
        if self.current.count < room {
            return None;
        }
        let full = std::mem::replace(&mut self.current, EMPTY);
        // SAFETY: the first block of a magazine of this thread, which is not empty.
        unsafe { (*full.first).count = full.count };
        (!shelf.leave(full.first as usize)).then_some(Overflow(full))
    }
}

/// Blocks, at most [`BATCH`](crate::BATCH), that go back to the heap.
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

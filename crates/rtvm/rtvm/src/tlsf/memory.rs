//! What the allocator requires of the memory that holds its tags.

use super::MIN_BLOCK;
use crate::Error;

/// A word of a block's tag, or of a free block's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagWord {
    /// Where the block before it begins.
    Before = 0,
    /// Its bytes, its flags, and a seal.
    Size = 1,
    /// The next free block of its class.
    Next = 2,
    /// The previous free block of its class.
    Previous = 3,
}

impl TagWord {
    /// Bytes from the start of the block.
    pub const fn offset(self) -> u64 {
        self as u64 * 8
    }
}

/// The bytes `start..end` of a block, tag included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpan {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl BlockSpan {
    /// Bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether it has no byte.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The pages that lie whole after the tag and the links, by number: what a free block does not need.
    pub const fn whole_pages(self, page_bits: u32) -> (u32, u32) {
        let first = (self.start + MIN_BLOCK).div_ceil(1 << page_bits) as u32;
        let end = (self.end >> page_bits) as u32;
        (first, if end < first { first } else { end })
    }
}

/// What a release made out of its neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Merge {
    /// The free block that there is now.
    pub merged: BlockSpan,
    /// The block that was released.
    pub freed: BlockSpan,
    /// Whether the block before it was free.
    pub left: bool,
    /// Whether the block after it was free.
    pub right: bool,
    /// Whether the free block is the last one of the heap.
    pub at_end: bool,
}

/// The memory of a heap: words of control data, tags, and pages.
pub trait HeapMemory {
    /// Whether a block that is in use can give up a part of its pages, or take on more, in constant time.
    const RESIZES: bool;

    /// Bytes of a page: a block that would become smaller by less stays where it is.
    fn page_bytes(&self) -> u64;

    /// A word of the bitmaps and list heads. They start as zero.
    fn control(&mut self, index: usize) -> u64;
    /// Writes one.
    fn set_control(&mut self, index: usize, word: u64);

    /// A word of a tag. Zero where there is none.
    fn tag(&mut self, block: u64, field: TagWord) -> u64;
    /// Writes one. The page was prepared by [`HeapMemory::carve`].
    fn set_tag(&mut self, block: u64, field: TagWord, word: u64);
    /// The tag will not be asked for any more: its block became part of another one.
    fn erase_tag(&mut self, block: u64);

    /// A part of the free block is about to be used as `block`; at `cuts` the remaining parts, or the block, begin. Makes
    /// sure that their tags can be written.
    ///
    /// # Errors
    /// Where that is not possible. Nothing has changed then.
    fn carve(&mut self, free: BlockSpan, cuts: &[u64], block: BlockSpan) -> Result<(), Error>;

    /// A block was released: whole pages inside the merged one can be given back. Its tag and links are in place. Returns
    /// whether the merged block still holds pages that should be given back some time.
    fn merge(&mut self, merge: &Merge) -> bool;

    /// A free block is put on a list, or taken from it.
    fn listed(&mut self, block: BlockSpan, dirty: bool, on: bool) {
        let _ = (block, dirty, on);
    }

    /// Whether what is released from here on was free already, so that its pages wait only if they waited before.
    fn clean(&mut self, clean: bool) {
        let _ = clean;
    }

    /// Copies a payload to another one, which does not overlap it.
    fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Error>;
}

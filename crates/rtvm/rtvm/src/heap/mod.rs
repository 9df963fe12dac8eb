//! A real allocator: TLSF over an arena of real memory, with a stated worst case and a stated memory requirement.
//!
//! [`RtHeap`] is the heap itself, for one user at a time; [`RtAlloc`] puts a lock around it and is a
//! [`core::alloc::GlobalAlloc`]. Where the arena comes from, who unmaps its pages, and the C interface are handled in
//! `crates/rtvm/rtvm-alloc`. Unmapping by the kernel is linear in the number of pages, so no call here does it. Instead, released
//! whole pages are kept in a list of ranges ([`RtHeap::begin_return`]) that a helper gives back while the heap stays usable.
#![allow(unsafe_code)]

mod arena;
mod blocks;
mod global;

use core::ptr::NonNull;

use arena::ArenaMemory;
pub use blocks::Blocks;
pub use global::{RawLock, RtAlloc, TicketLock};

use crate::Error;
use crate::tlsf::{BlockSpan, HeapCensus, HeapMemory, MIN_BLOCK, TAG_BYTES, Tlsf};

/// Words that the longest malloc touches, whatever the heap looks like.
pub const MALLOC_TOUCHES: u64 = 24 + 16;
/// Words that the longest memalign touches.
pub const MEMALIGN_TOUCHES: u64 = 34 + 21;
/// Words that the longest free touches.
pub const FREE_TOUCHES: u64 = 31 + 19;

/// A heap over an arena.
#[derive(Debug)]
pub struct RtHeap {
    tlsf: Tlsf<ArenaMemory>,
    /// What [`RtHeap::begin_return`] took out and [`RtHeap::end_return`] did not put back yet: blocks and their bytes.
    out_blocks: u64,
    out_bytes: u64,
}

// SAFETY: the arena belongs to the heap alone (`RtHeap::new`), so the heap can go to another thread with it.
unsafe impl Send for RtHeap {}

/// Pages on their way back to the kernel.
#[derive(Debug)]
#[must_use = "the block stays out of the heap until `end_return`"]
pub struct Return {
    block: BlockSpan,
    /// The first page.
    pub pages: NonNull<u8>,
    /// Bytes, a multiple of the page size.
    pub bytes: usize,
}

// SAFETY: it names memory that nobody uses until it goes back to the heap.
unsafe impl Send for Return {}

/// Released pages that can be given back next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The first page.
    pub first: NonNull<u8>,
    /// Bytes, a multiple of the page size.
    pub bytes: usize,
    /// Calls of [`RtHeap::pass_period`] since most of them were released, modulo 256.
    pub periods: u8,
}

impl RtHeap {
    /// A heap over `bytes` bytes at `base`. With `page_bytes`, released pages of that size are collected for
    /// [`RtHeap::begin_return`]; without, all memory stays.
    ///
    /// # Safety
    /// The bytes are readable and writable, at a multiple of 4096, as long as the heap or any block of it is used, and
    /// nothing else uses them but the blocks' owners.
    ///
    /// # Errors
    /// Where the arena is too small, too large, or the pages are no power of two from 256 bytes on.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize, page_bytes: Option<usize>) -> Result<Self, Error> {
        if let Some(align) = page_bytes.filter(|page| !page.is_power_of_two() || *page < 256) {
            return Err(Error::BadAlignment { align: align as u64 });
        }
        let page_bits = page_bytes.map(usize::ilog2);
        if (bytes as u64) < MIN_BLOCK {
            return Err(Error::OutOfAddressSpace { bytes: bytes as u64 });
        }
        let memory = ArenaMemory::new(base, page_bits);
        Ok(Self { tlsf: Tlsf::new(memory, bytes as u64)?, out_blocks: 0, out_bytes: 0 })
    }

    /// Bytes that an arena needs so that no request of at most `largest` bytes ever fails while at most `live_blocks`
    /// blocks of together `live_bytes` bytes are live, this one included, and `returning` bytes are on their way back to
    /// the kernel at a time. `None` where that is more than 64 bits count.
    ///
    /// Why: a request fails only where no free block has its size, rounded up by at most 1/32. Two free blocks never lie
    /// beside each other, so there is at most one more than blocks in use. Hence blocks in use, plus that many free blocks
    /// just too small, fill every arena in which a request fails (docs/rtvm.md).
    pub fn arena_bytes(live_bytes: u64, live_blocks: u64, largest: u64, returning: u64) -> Option<u64> {
        // A tag, and rounding up to a granule or the smallest block.
        let overhead = live_blocks.checked_mul(TAG_BYTES + MIN_BLOCK)?;
        let request = largest.checked_add(TAG_BYTES + MIN_BLOCK)?;
        let too_small = request.checked_add(request / 32)?;
        let free_blocks = live_blocks.checked_add(2)?;
        live_bytes
            .checked_add(overhead)?
            .checked_add(returning)?
            .checked_add(free_blocks.checked_mul(too_small)?)
    }

    /// Its blocks, for a cache that hands them out.
    pub fn blocks(&self) -> Blocks {
        Blocks { base: self.pointer(0), bytes: self.tlsf.bytes() }
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.tlsf.bytes()
    }

    /// Bytes of the block that a request of `bytes` bytes takes, its tag included.
    #[inline]
    pub fn block_bytes(bytes: usize) -> Option<usize> {
        crate::tlsf::block_bytes(bytes as u64).map(|bytes| bytes as usize)
    }

    fn begin(&mut self) {
        self.tlsf.memory_mut().begin();
    }

    fn pointer(&self, addr: u64) -> NonNull<u8> {
        self.tlsf.memory().pointer(addr)
    }

    fn addr(&self, block: NonNull<u8>) -> Result<u64, Error> {
        let wrong = Error::NotABlock { addr: block.as_ptr() as u64 };
        let offset = (block.as_ptr() as u64).checked_sub(self.pointer(0).as_ptr() as u64);
        offset.filter(|offset| *offset < self.tlsf.bytes()).ok_or(wrong)
    }

    /// The same error with the program's address.
    fn shown(&self, error: Error) -> Error {
        let at = |addr: u64| (self.pointer(0).as_ptr() as u64).wrapping_add(addr);
        match error {
            Error::NotABlock { addr } => Error::NotABlock { addr: at(addr) },
            Error::AlreadyFree { addr } => Error::AlreadyFree { addr: at(addr) },
            Error::Corrupt { addr } => Error::Corrupt { addr: at(addr) },
            other => other,
        }
    }

    /// Gives `bytes` bytes at a multiple of 16. Touches at most [`MALLOC_TOUCHES`] words.
    ///
    /// # Errors
    /// [`Error::OutOfAddressSpace`].
    pub fn malloc(&mut self, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.begin();
        let addr = self.tlsf.malloc(bytes as u64).map_err(|e| self.shown(e))?;
        Ok(self.pointer(addr))
    }

    /// Gives `bytes` bytes at a multiple of `align`. Touches at most [`MEMALIGN_TOUCHES`] words.
    ///
    /// # Errors
    /// [`Error::BadAlignment`], also where the arena itself is not aligned to that, or [`Error::OutOfAddressSpace`].
    pub fn memalign(&mut self, align: usize, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.begin();
        if align <= 16 && align.is_power_of_two() {
            return self.malloc(bytes);
        }
        // The heap knows offsets alone.
        let base = self.pointer(0).as_ptr() as usize;
        if align.is_power_of_two() && !base.is_multiple_of(align) {
            return Err(Error::BadAlignment { align: align as u64 });
        }
        let addr = self.tlsf.memalign(align as u64, bytes as u64).map_err(|e| self.shown(e))?;
        Ok(self.pointer(addr))
    }

    /// Gives zeros. Linear in `bytes`, because of them.
    ///
    /// # Errors
    /// [`Error::OutOfAddressSpace`], also where `count * size` is more than 64 bits count.
    pub fn calloc(&mut self, count: usize, size: usize) -> Result<NonNull<u8>, Error> {
        let bytes = count.checked_mul(size).ok_or(Error::OutOfAddressSpace { bytes: u64::MAX })?;
        let block = self.malloc(bytes)?;
        // SAFETY: the block has `bytes` bytes, and nobody else knows it yet.
        unsafe { block.as_ptr().write_bytes(0, bytes) };
        Ok(block)
    }

    /// Releases a block. Touches at most [`FREE_TOUCHES`] words.
    ///
    /// # Safety
    /// Nobody uses the block any more. Whether there is such a block at all is checked, as far as its tag and those of its
    /// neighbours tell.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`] or [`Error::Corrupt`]; nothing has changed then.
    pub unsafe fn free(&mut self, block: NonNull<u8>) -> Result<(), Error> {
        self.begin();
        let addr = self.addr(block)?;
        self.tlsf.free(addr).map_err(|e| self.shown(e))
    }

    /// Changes the size of a block: in place where its own bytes or a free block after it do, which takes a constant
    /// number of touches; by moving it elsewhere otherwise, which is linear in its bytes.
    ///
    /// # Safety
    /// As [`RtHeap::free`], for the old place.
    ///
    /// # Errors
    /// As [`RtHeap::malloc`] and [`RtHeap::free`]; the block is as it was then.
    pub unsafe fn realloc(&mut self, block: NonNull<u8>, bytes: usize) -> Result<NonNull<u8>, Error> {
        self.begin();
        let addr = self.addr(block)?;
        let addr = self.tlsf.realloc(addr, bytes as u64).map_err(|e| self.shown(e))?;
        Ok(self.pointer(addr))
    }

    /// Bytes that a block really has.
    ///
    /// # Errors
    /// As [`RtHeap::free`].
    pub fn usable(&mut self, block: NonNull<u8>) -> Result<usize, Error> {
        let addr = self.addr(block)?;
        self.tlsf.usable(addr).map(|bytes| bytes as usize).map_err(|e| self.shown(e))
    }

    /// The released pages that come next to be given back: those that have waited for longest. Constant time.
    pub fn waiting(&self) -> Option<Waiting> {
        let (_, waits, periods) = self.tlsf.memory().oldest_waiting()?;
        Some(Waiting { first: self.pointer(waits.start), bytes: waits.len() as usize, periods })
    }

    /// Another period has passed, by which the age of released pages is counted: how long one is, the caller knows.
    pub fn pass_period(&mut self) {
        self.tlsf.memory_mut().pass_period();
    }

    /// Forgets the first `bytes` bytes, whole pages, of what [`RtHeap::waiting`] said, if it still says `first`: they are
    /// not resident, and giving them back would first touch them. Constant time.
    pub fn skip_waiting(&mut self, first: NonNull<u8>, bytes: usize) {
        let page = self.tlsf.memory().page_mask() as usize + 1;
        if self.waiting().is_some_and(|next| next.first == first && bytes <= next.bytes)
            && bytes.is_multiple_of(page)
        {
            self.tlsf.memory_mut().skip(bytes as u64);
        }
    }

    /// Takes up to `most` bytes of the pages that [`RtHeap::waiting`] names out of the heap, so that they can be unmapped
    /// while others use it. Constant time. `None` where there is nothing to give back.
    ///
    /// Taking out writes tags, into the first and the last of these pages: none that was not used gets used by it.
    pub fn begin_return(&mut self, most: usize) -> Option<Return> {
        self.begin();
        let (start, waits, _) = self.tlsf.memory().oldest_waiting()?;
        // A tag that was written over: nothing is given back from there.
        let block_end = self.tlsf.free_end(start).ok()?;
        let mask = self.tlsf.memory().page_mask();
        let most = (most as u64 & !mask).max(arena::FEWEST_PAGES * (mask + 1));
        let mut end = waits.end.min(waits.start.saturating_add(most));
        if end < block_end & !mask {
            // The tag of the rest goes into the last page.
            end -= mask + 1;
        }
        // The block's own tag may do for the part's: it is in the page before.
        let own = start + arena::LISTED_BYTES;
        let begin = if own + mask >= waits.start { start } else { waits.start };
        let block = self.tlsf.take_out(start, BlockSpan { start: begin, end }).ok()?;
        let pages = self.tlsf.memory().whole_bytes(block);
        if pages.is_empty() {
            self.begin();
            self.tlsf.memory_mut().clean(true);
            let _ = self.tlsf.give_back(block);
            self.tlsf.memory_mut().clean(false);
            return None;
        }
        self.out_blocks += 1;
        self.out_bytes += block.len();
        Some(Return { block, pages: self.pointer(pages.start), bytes: pages.len() as usize })
    }

    /// Puts them back, unmapped or not. Constant time.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a tag was written over meanwhile.
    pub fn end_return(&mut self, pages: Return) -> Result<(), Error> {
        self.begin();
        self.out_blocks -= 1;
        self.out_bytes -= pages.block.len();
        self.tlsf.memory_mut().clean(true);
        let result = self.tlsf.give_back(pages.block).map_err(|e| self.shown(e));
        self.tlsf.memory_mut().clean(false);
        result
    }

    /// Goes through the whole heap; linear. Pages on their way back to the kernel count as free: no program holds them.
    ///
    /// # Errors
    /// The first tag that was written over.
    pub fn check(&mut self) -> Result<HeapCensus, Error> {
        let mut census = self.tlsf.check().map_err(|e| self.shown(e))?;
        census.used_blocks -= self.out_blocks;
        census.used_bytes -= self.out_bytes;
        census.free_blocks += self.out_blocks;
        census.free_bytes += self.out_bytes;
        Ok(census)
    }

    /// Words touched so far.
    #[cfg(test)]
    fn touches(&self) -> u64 {
        self.tlsf.memory().touches.get()
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;

//! Operations of a block cache on blocks in use, without the heap's lock.
//!
//! Only the owner of a block changes its size word while it is in use, so a cache that owns the blocks it holds
//! may mark them there. Releases of neighbouring blocks, under the lock, read the word, which is why it is atomic.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::tlsf::{TAG_BYTES, TagWord, used_bytes, with_cached};

/// The blocks of one heap.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    pub(super) base: NonNull<u8>,
    pub(super) bytes: u64,
}

// SAFETY: it names the arena, and changes a word of it through references to an atomic only.
unsafe impl Send for Blocks {}
// SAFETY: shared references change words of the arena as atomics only.
unsafe impl Sync for Blocks {}

impl Blocks {
    fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: callers have offsets of tags in the arena, at multiples of 8, which lives as long as any block is used.
        unsafe { self.base.add(offset as usize).cast::<AtomicU64>().as_ref() }
    }

    /// Bytes of a block in use, tag included. Touches two words.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`] (also where a cache has it), or [`Error::Corrupt`] where the tag after
    /// it was written over.
    #[inline]
    pub fn used_bytes(&self, block: NonNull<u8>) -> Result<usize, Error> {
        let (addr, base) = (block.as_ptr() as u64, self.base.as_ptr() as u64);
        let wrong = Error::NotABlock { addr };
        let start = addr.checked_sub(base + TAG_BYTES).ok_or(wrong)?;
        if !start.is_multiple_of(16) || start >= self.bytes {
            return Err(wrong);
        }
        let word = self.word(start + TagWord::Size.offset()).load(Ordering::Relaxed);
        let bytes = used_bytes(word, start, self.bytes).map_err(|error| match error {
            Error::AlreadyFree { .. } => Error::AlreadyFree { addr },
            _ => wrong,
        })?;
        let next = start + bytes;
        // As long as a block is in use, nobody changes what the next one says of it.
        if next < self.bytes && self.word(next + TagWord::Before.offset()).load(Ordering::Relaxed) != start {
            return Err(Error::Corrupt { addr: base + next + TAG_BYTES });
        }
        Ok(bytes as usize)
    }

    /// Marks a block as released to a cache, or as given out again. The caller owns it.
    #[inline]
    pub fn set_cached(&self, block: NonNull<u8>, cached: bool) {
        let start = block.as_ptr() as u64 - self.base.as_ptr() as u64 - TAG_BYTES;
        let word = self.word(start + TagWord::Size.offset());
        word.store(with_cached(word.load(Ordering::Relaxed), cached), Ordering::Relaxed);
    }
}

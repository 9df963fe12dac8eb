//! Memory shared by two processes, accessed as atomic words: reading it is well-defined whatever the other side does with it.
//!
//! A region has no owner and no protocol of its own; both are up to its users (docs/protocol.md, *Writing*). Bytes are published
//! by storing a word with release ordering after them; the other side loads that word with acquire ordering before it reads them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

const PAGE_BYTES: usize = memref::VirtAddr::PAGE_BYTES as usize;

/// Mapped memory, all zeros at first, unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    memory: OwnedFd,
}

// SAFETY: the memory is only reached through atomics, and the mapping lives as long as the region.
unsafe impl Send for Region {}
// SAFETY: the memory is only reached through atomics, which allow any sharing.
unsafe impl Sync for Region {}

impl Region {
    /// Makes memory of `len` bytes that other processes can map too. Its pages are allocated as they are used.
    ///
    /// # Errors
    /// Where the kernel refuses the memory.
    pub fn create(len: usize) -> io::Result<Self> {
        let memory = rustix::fs::memfd_create("memtap", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, len as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(memory, len, false)
    }

    /// Maps memory that another process made, with its pages.
    ///
    /// # Errors
    /// Where it is shorter than `len`, might be cut, or can't be mapped.
    pub fn open(memory: OwnedFd, len: usize) -> io::Result<Self> {
        // Without the seal its maker could cut it, and our next access would be our death.
        let sealed = rustix::fs::fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK);
        let there = u64::try_from(rustix::fs::fstat(&memory)?.st_size).unwrap_or(0);
        if !sealed || there < len as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory is short or not sealed"));
        }
        Self::map(memory, len, true)
    }

    fn map(memory: OwnedFd, len: usize, populate: bool) -> io::Result<Self> {
        if len == 0 || !len.is_multiple_of(PAGE_BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "shared memory is a number of whole pages",
            ));
        }
        let flags = if populate { MapFlags::SHARED | MapFlags::POPULATE } else { MapFlags::SHARED };
        // SAFETY: a new mapping of a file of at least this length, which is sealed against becoming shorter.
        let base = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                &memory,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave no address"))?;
        Ok(Self { base, len, memory })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte; it always has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is mapped: for those who hand out pointers. Bytes that another thread or process may touch at the same time
    /// must only be accessed atomically.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for the life of `self`, page-aligned, initialised (zeros at first), and atomics allow any sharing.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 8) }
    }

    #[inline]
    fn bytes(&self) -> &[AtomicU8] {
        // SAFETY: mapped for the life of `self`, initialised (zeros at first), and atomics allow any sharing.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len) }
    }

    /// Stores bytes, relaxed. Those beyond the end are left out.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        if rest.is_empty() && at.is_multiple_of(8) {
            let place = self.words().get(at / 8..).unwrap_or(&[]);
            for (place, word) in place.iter().zip(words) {
                place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            }
            return;
        }
        for (place, byte) in self.bytes().get(at..).unwrap_or(&[]).iter().zip(bytes) {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    /// Loads bytes, relaxed, and appends them. Those beyond the end are left out.
    pub fn read(&self, at: usize, len: usize, into: &mut Vec<u8>) {
        let end = at.saturating_add(len).min(self.len);
        into.reserve(end.saturating_sub(at));
        let mut at = at;
        if at.is_multiple_of(8) {
            let words = self.words().get(at / 8..end / 8).unwrap_or(&[]);
            let (blocks, words) = words.as_chunks::<8>();
            for block in blocks {
                let mut bytes = [0; 64];
                for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(block) {
                    *place = word.load(Ordering::Relaxed).to_ne_bytes();
                }
                into.extend_from_slice(&bytes);
            }
            for word in words {
                into.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            at += (blocks.len() * 8 + words.len()) * 8;
        }
        into.extend(self.bytes().get(at..end).unwrap_or(&[]).iter().map(|byte| byte.load(Ordering::Relaxed)));
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing borrowed from `self` outlives it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_mappings_show_the_same_bytes() {
        let ours = Region::create(8192).unwrap();
        let theirs = Region::open(ours.as_fd().try_clone_to_owned().unwrap(), 8192).unwrap();
        let data: Vec<u8> = (0..=255).collect();
        for at in [0, 8, 13, 4000] {
            theirs.write(at, &data);
            let mut read = Vec::new();
            ours.read(at, data.len(), &mut read);
            assert_eq!(read, data, "{at}");
        }
        let mut read = Vec::new();
        ours.read(8190, 100, &mut read);
        assert_eq!(read.len(), 2);
        theirs.write(8191, &data);
        ours.read(8191, 1, &mut read);
        assert_eq!(read[2], 0);
    }

    #[test]
    fn memory_that_may_be_cut_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        assert!(Region::open(file.into(), 8192).is_err());
        let short = Region::create(4096).unwrap();
        assert!(Region::open(short.as_fd().try_clone_to_owned().unwrap(), 8192).is_err());
        assert!(Region::create(5).is_err());
    }
}

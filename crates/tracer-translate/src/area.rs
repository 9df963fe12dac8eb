//! Memory for code, near the code that is translated into it: distances of 32 bits must reach both ways.

use alloc::vec::Vec;
use tracee::sys;

use crate::place::Block;

/// Bytes of one area. Pages are taken when they are first written.
const AREA_BYTES: u64 = 128 << 20;
/// How far code may be from its area: what it refers to may be as far again.
const REACH: u64 = 0x5000_0000;

/// One stretch of code memory.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) next: u64,
    /// Its blocks, in the order of their code.
    pub(crate) blocks: Vec<Block>,
    /// For each mode: where a branch goes on whose first place in the table is another target's.
    pub(crate) probes: [u64; 3],
}

impl Area {
    /// Makes one for the code at `near`.
    pub(crate) fn new(near: u64) -> Option<Self> {
        let rwx = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        let near = near & !0xffff;
        let step = 0x0400_0000u64;
        // Below first: above an executable grows its heap.
        let below = (1..20).filter_map(|n| near.checked_sub(AREA_BYTES + n * step));
        let above = (8..20).rev().map(|n| near + n * step);
        for at in below.chain(above) {
            if at < 0x1_0000 || at + AREA_BYTES >= 1 << 47 {
                continue;
            }
            // SAFETY: NOREPLACE replaces nothing.
            let result = unsafe { sys::mmap(at, AREA_BYTES, rwx, flags, -1, 0) };
            if result as u64 == at {
                sys::note_own(at, AREA_BYTES);
                return Some(Self { start: at, next: at, blocks: Vec::new(), probes: [0; 3] });
            }
            if !sys::failed(result) {
                // SAFETY: an older kernel took the address as a hint; nobody knows of the mapping.
                unsafe { sys::munmap(result as u64, AREA_BYTES) };
            }
        }
        None
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No thread executes anything of it, or comes back to it.
    pub(crate) unsafe fn unmap(&self) {
        // SAFETY: the caller's promise.
        unsafe { sys::munmap(self.start, AREA_BYTES) };
    }

    pub(crate) fn serves(&self, addr: u64) -> bool {
        addr.abs_diff(self.start) < REACH && self.next + (1 << 16) < self.start + AREA_BYTES
    }

    pub(crate) fn contains(&self, addr: u64) -> bool {
        (self.start..self.next).contains(&addr)
    }

    /// Appends code that was made for `self.next`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        // SAFETY: `serves` left 64 KiB, more than one block takes; the memory behind `next` is nobody's yet.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next as *mut u8, bytes.len()) };
        self.next += bytes.len() as u64;
    }
}

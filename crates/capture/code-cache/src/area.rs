//! Memory for code, allocated near the code that is translated into it: 32-bit displacements must reach both ways.

use alloc::vec::Vec;
use tracee::sys;

use crate::assembler::Assembler;
use crate::place::CachedBlock;

/// Bytes of one area, and of smaller ones where there is no room for that between what the program has mapped. Pages are taken
/// as they are needed.
const AREA_BYTES: [u64; 3] = [128 << 20, 8 << 20, 1 << 20];
/// Above code at least that much is left for its heap.
const HEAP_BYTES: u64 = 0x2000_0000;
/// How far code may be from its area: what it refers to may be as far again.
const REACH: u64 = 0x5000_0000;

/// Bytes of an area whose pages are taken at once.
const TAKEN_BYTES: u64 = 64 << 10;

/// One stretch of code memory.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) start: u64,
    end: u64,
    pub(crate) next: u64,
    /// Where pages begin that were not asked for yet.
    untaken: u64,
    /// Its blocks, in the order of their code.
    pub(crate) blocks: Vec<CachedBlock>,
}

impl Area {
    /// Makes one for the code at `near`.
    pub(crate) fn new(near: u64) -> Option<Self> {
        AREA_BYTES.iter().find_map(|&bytes| Self::with(near & !0xffff, bytes))
    }

    fn with(near: u64, bytes: u64) -> Option<Self> {
        let rwx = sys::PROT_READ | sys::PROT_WRITE | sys::PROT_EXEC;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        let step = bytes / 2;
        // Below first: above an executable grows its heap.
        let below = (1..(REACH - bytes) / step).filter_map(|n| near.checked_sub(bytes + n * step));
        let above = (HEAP_BYTES / step..REACH / step).rev().map(|n| near + n * step);
        for at in below.chain(above) {
            if at < 0x1_0000 || at + bytes >= 1 << 47 {
                continue;
            }
            // SAFETY: NOREPLACE replaces nothing.
            let result = unsafe { sys::mmap(at, bytes, rwx, flags, -1, 0) };
            if result as u64 == at {
                sys::note_own(at, bytes);
                return Some(Self { start: at, end: at + bytes, next: at, untaken: at, blocks: Vec::new() });
            }
            if !sys::failed(result) {
                // SAFETY: an older kernel took the address as a hint; nobody knows of the mapping.
                unsafe { sys::munmap(result as u64, bytes) };
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
        unsafe { sys::munmap(self.start, self.end - self.start) };
    }

    pub(crate) fn serves(&self, addr: u64) -> bool {
        addr.abs_diff(self.start) < REACH && self.has_room()
    }

    /// Whether there is room for one block, or what else is made at once.
    pub(crate) fn has_room(&self) -> bool {
        self.next + (1 << 16) < self.end
    }

    pub(crate) fn contains(&self, addr: u64) -> bool {
        (self.start..self.next).contains(&addr)
    }

    /// Appends code that was made for `self.next`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let end = self.next + bytes.len() as u64;
        if end > self.untaken {
            let from = core::mem::replace(&mut self.untaken, end.next_multiple_of(TAKEN_BYTES));
            // SAFETY: memory of the area.
            unsafe { sys::populate(from, self.untaken - from) };
        }
        // SAFETY: `serves` left 64 KiB, more than one block takes; the memory after `next` is nobody's yet.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next as *mut u8, bytes.len()) };
        self.next += bytes.len() as u64;
    }

    /// Appends code that branches lead to and that is no block's, at the beginning of a fetch. Returns where it is.
    pub(crate) fn append_entry(&mut self, emit: impl FnOnce(u64) -> Assembler) -> u64 {
        let at = self.next.next_multiple_of(16);
        let code = emit(at);
        self.next = at;
        self.append(code.bytes());
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_many_mappings_there_is_a_smaller_one() {
        let near = 0x2000_0000_0000u64;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_FIXED_NOREPLACE;
        let crowd: Vec<u64> = (0..192).map(|n| near - 3 * 0x4000_0000 / 2 + n * (16 << 20)).collect();
        for &at in &crowd {
            // SAFETY: NOREPLACE replaces nothing.
            assert_eq!(unsafe { sys::mmap(at, 4096, sys::PROT_NONE, flags, -1, 0) } as u64, at);
        }
        let area = Area::new(near + (8 << 20)).expect("there are 16 MiB between any two");
        assert_eq!(area.end - area.start, 8 << 20);
        assert!(area.serves(near));
        // SAFETY: nothing runs there; the mappings are this test's.
        unsafe {
            area.unmap();
            crowd.iter().for_each(|&at| {
                sys::munmap(at, 4096);
            });
        }
        let area = Area::new(near).expect("there is room again");
        assert_eq!(area.end - area.start, 128 << 20);
        // SAFETY: nothing runs in the area.
        unsafe { area.unmap() };
    }
}

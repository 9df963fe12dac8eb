//! Copies of the pages that code was last read from: a page holds about thirty blocks, and reading it takes a system call.
//!
//! A copy is as valid as the code translated from it: [`CodePages::forget`] is called for every change that the cache is told of.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::engine::Environment;

const PAGE_BYTES: usize = 4096;
/// How many pages there are copies of: each has one place.
const PLACES: usize = 32;

/// The copies, by place.
#[derive(Debug)]
pub(crate) struct CodePages {
    places: Vec<Option<CodePage>>,
}

#[derive(Debug)]
struct CodePage {
    start: u64,
    bytes: Box<[u8; PAGE_BYTES]>,
}

fn place(start: u64) -> usize {
    (start / PAGE_BYTES as u64) as usize % PLACES
}

impl CodePages {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new() }
    }

    /// Reads code; the number of bytes that could be read.
    pub(crate) fn read(&mut self, addr: u64, into: &mut [u8], environment: &impl Environment) -> usize {
        let mut done = 0;
        while done < into.len() {
            let at = addr.wrapping_add(done as u64);
            let offset = at as usize % PAGE_BYTES;
            let Some(page) = self.page(at - offset as u64, environment) else { break };
            let count = (PAGE_BYTES - offset).min(into.len() - done);
            let Some(part) = into.get_mut(done..done + count) else { break };
            let Some(bytes) = page.get(offset..offset + count) else { break };
            part.copy_from_slice(bytes);
            done += count;
        }
        done
    }

    /// The bytes of a page, if all of it can be read.
    fn page(&mut self, start: u64, environment: &impl Environment) -> Option<&[u8; PAGE_BYTES]> {
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        let place = self.places.get_mut(place(start))?;
        if place.as_ref().is_none_or(|page| page.start != start) {
            let mut bytes = place.take().map_or_else(|| Box::new([0; PAGE_BYTES]), |page| page.bytes);
            if environment.read(start, &mut *bytes) < PAGE_BYTES {
                return None;
            }
            *place = Some(CodePage { start, bytes });
        }
        place.as_ref().map(|page| &*page.bytes)
    }

    /// Forgets what was read from a range.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        for place in &mut self.places {
            if place.as_ref().is_some_and(|page| page.start < end && page.start + PAGE_BYTES as u64 > start) {
                *place = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::{Defined, Mode};

    /// Two pages of code and nothing after them.
    struct Memory {
        start: u64,
        bytes: [Cell<u8>; 2 * PAGE_BYTES],
        reads: Cell<u32>,
    }

    impl Environment for Memory {
        fn read(&self, addr: u64, into: &mut [u8]) -> usize {
            self.reads.set(self.reads.get() + 1);
            let from = (addr - self.start) as usize;
            let found = self.bytes.get(from..).unwrap_or(&[]);
            for (to, from) in into.iter_mut().zip(found) {
                *to = from.get();
            }
            into.len().min(found.len())
        }

        fn resolve(&self, addr: u64, _: Mode) -> u64 {
            addr
        }

        fn is_stop(&self, _: u64) -> bool {
            false
        }

        fn is_own(&self, _: u64) -> bool {
            false
        }

        fn define(&mut self, _: u32, _: Defined<'_>) -> bool {
            true
        }
    }

    #[test]
    fn a_page_is_read_once_until_it_changes() {
        let start = 0x7f00_0000_0000;
        let bytes = core::array::from_fn(|at| Cell::new(at as u8));
        let memory = Memory { start, bytes, reads: Cell::new(0) };
        let mut pages = CodePages::new();
        let mut into = [0; 512];
        let across = start + PAGE_BYTES as u64 - 100;
        for _ in 0..3 {
            assert_eq!(pages.read(across, &mut into, &memory), 512);
            assert_eq!(into[99..101], [255, 0]);
            assert_eq!(pages.read(start + 7, &mut into, &memory), 512);
            assert_eq!(into[..2], [7, 8]);
        }
        assert_eq!(memory.reads.get(), 2);
        // The end of what can be read.
        assert_eq!(pages.read(start + 2 * PAGE_BYTES as u64 - 3, &mut into, &memory), 3);

        let before = memory.reads.get();
        memory.bytes[7].set(70);
        pages.forget(start + PAGE_BYTES as u64, start + 2 * PAGE_BYTES as u64);
        assert_eq!((pages.read(start + 7, &mut into, &memory), into[0]), (512, 7));
        pages.forget(start + 8, start + 9);
        assert_eq!((pages.read(start + 7, &mut into, &memory), into[0]), (512, 70));
        assert_eq!(memory.reads.get(), before + 1);
        // Two pages with the same place.
        let other = Memory { start: start + (PLACES * PAGE_BYTES) as u64, ..memory };
        assert_eq!((pages.read(other.start + 9, &mut into, &other), into[0]), (512, 9));
        assert_eq!((pages.read(start + 9, &mut into, &Memory { start, ..other }), into[0]), (512, 9));
    }
}

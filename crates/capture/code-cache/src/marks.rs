//! The stretches of memory that hold watched bytes: blocks look them up before each access.
//!
//! There are two bytes for each *line* of 256 bytes: one for loads and one for stores. A byte is nonzero if such an access that
//! begins in the line can touch watched bytes. A line is therefore also marked for watched bytes up to 63 bytes after it, because
//! the longest access that is looked up has 64. The table is a window of 8 GiB of address space that code reaches by absolute
//! address, indexed by bits 8 to 39 of an address. Lines a TiB apart share their marks; a mark only makes the tracer look closely.
//! Only the parts of the table that are marked or looked up are committed: a page for half a MiB of the program's memory.

use core::sync::atomic::{AtomicU8, Ordering};

use tracee::sys;

/// Bits of an address inside of a line.
pub(crate) const LINE_BITS: u8 = 8;
/// Bytes of a line.
pub const LINE_BYTES: u64 = 1 << LINE_BITS;
/// The longest access that a line's mark holds good for.
pub(crate) const REACH: u64 = 64;
/// Below 2 GiB, and above the tables of indirect branches (`table`).
const BASE: u64 = 0x7f80_0000;
const BYTES: u64 = 2 << 32;

/// Loads of a line are looked at.
pub const LOADS: u8 = 1;
/// Stores to a line are looked at.
pub const STORES: u8 = 2;

/// The table of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks(());

impl Marks {
    /// For tests of what is emitted: it is never looked at.
    #[cfg(test)]
    pub(crate) const UNMAPPED: Self = Self(());

    /// Makes an empty one, of which a process can have one. `None` where its place is taken.
    pub fn new() -> Option<Self> {
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE replaces nothing.
        let result = unsafe { sys::mmap(BASE, BYTES, rw, flags, -1, 0) };
        if result as u64 == BASE {
            sys::note_own(BASE, BYTES);
            return Some(Self(()));
        }
        if !sys::failed(result) {
            // SAFETY: an older kernel took the address as a hint; nobody knows of the mapping.
            unsafe { sys::munmap(result as u64, BYTES) };
        }
        None
    }

    /// Its address, which fits into 31 bits. A line's two bytes are at twice its number.
    pub(crate) fn base(self) -> u32 {
        BASE as u32
    }

    /// The lines from whose accesses bytes of a range can be reached are looked at from now on, too: [`LOADS`], [`STORES`].
    pub fn add(self, start: u64, end: u64, bits: u8) {
        for line in lines(start, end) {
            let [loads, stores] = self.words(line);
            if bits & LOADS != 0 {
                loads.store(LOADS, Ordering::Relaxed);
            }
            if bits & STORES != 0 {
                stores.store(STORES, Ordering::Relaxed);
            }
        }
    }

    /// Those lines are looked at as `of` says of a line that begins at that address, and where what can be reached from it
    /// ends.
    pub fn set(self, start: u64, end: u64, of: impl Fn(u64, u64) -> u8) {
        for line in lines(start, end) {
            let bits = of(line, line + LINE_BYTES + REACH - 1);
            let [loads, stores] = self.words(line);
            loads.store(bits & LOADS, Ordering::Relaxed);
            stores.store(bits & STORES, Ordering::Relaxed);
        }
    }

    fn words(self, line: u64) -> [&'static AtomicU8; 2] {
        let word = (BASE + (line >> LINE_BITS & 0xffff_ffff) * 2) as *const AtomicU8;
        // SAFETY: two bytes of the table, which is never unmapped; code that looks at them meanwhile sees the old or the
        // new ones.
        unsafe { [&*word, &*word.add(1)] }
    }
}

/// The lines from whose accesses bytes of a range can be reached.
fn lines(start: u64, end: u64) -> impl Iterator<Item = u64> {
    let first = start.saturating_sub(REACH - 1) >> LINE_BITS;
    (first..end.div_ceil(LINE_BYTES)).map(|number| number << LINE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_from_which_an_access_reaches_watched_bytes_are_marked() {
        let marks = Marks::new().expect("nothing else is there");
        assert!(Marks::new().is_none());
        let check = |line: u64, expect: [u8; 2]| {
            let found = marks.words(line).map(|word| word.load(Ordering::Relaxed));
            assert_eq!(found, expect, "{line:#x}");
        };
        let at = 0x7fff_1234_5600;
        // An access of 64 bytes that begins 63 bytes before a range reaches it.
        marks.add(at + 63, at + 64, STORES);
        check(at - 256, [0, 0]);
        check(at, [0, STORES]);
        marks.add(at + 256 + 62, at + 256 + 63, LOADS);
        check(at, [LOADS, STORES]);
        check(at + 256, [LOADS, 0]);
        check(at + 512, [0, 0]);
        // Lines a TiB apart are one.
        check(at + (1 << 40), [LOADS, STORES]);
        marks.set(at + 256 + 62, at + 256 + 63, |line, reach| {
            assert_eq!(reach - line, 256 + 63);
            if line == at { STORES } else { 0 }
        });
        check(at, [0, STORES]);
        check(at + 256, [0, 0]);
    }
}

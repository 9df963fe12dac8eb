//! The words that a thread's thunks write: its calls by function, with some further words in front.
//!
//! | word | |
//! |---|---|
//! | -2 | calls of probes that are traps |
//! | -1 | calls of all others |
//! | 0... | calls by function |

use crate::probe_table::CAPACITY;
use patch::{PAGE_BYTES, arena, sys};

/// Where the words before the first function's are, in bytes from it.
pub(crate) const TRAPS_AT: i8 = -16;
pub(crate) const CALLS_AT: i8 = -8;

/// The words of one thread, mapped for ever but for a scratch one. Written by that thread.
#[derive(Clone, Copy)]
pub struct ThreadCounts(*mut u64);

/// Calls by the way that they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallsSeen {
    pub(crate) by_trap: u64,
    pub(crate) otherwise: u64,
}

impl CallsSeen {
    pub(crate) fn all(self) -> u64 {
        self.by_trap + self.otherwise
    }
}

impl ThreadCounts {
    pub(crate) fn new() -> Option<Self> {
        let page = arena::map_anonymous(PAGE_BYTES + CAPACITY * size_of::<u64>())?;
        Some(Self((page + PAGE_BYTES) as *mut u64))
    }

    /// The word of the first function: what thunks count from.
    pub(crate) fn first(self) -> *mut u64 {
        self.0
    }

    fn word(self, at_bytes: i8) -> *mut u64 {
        self.0.wrapping_byte_offset(isize::from(at_bytes))
    }

    /// Entries of a function.
    #[inline]
    #[must_use]
    pub fn of(self, function: u32) -> u64 {
        // SAFETY: a word for every function; the owner may add to it while it is read.
        unsafe { self.0.add(function as usize).read_volatile() }
    }

    /// Counts a call that came by no thunk.
    pub(crate) fn count(self, function: u32) {
        // SAFETY: this thread's own words.
        unsafe {
            *self.0.add(function as usize) += 1;
            *self.word(CALLS_AT) += 1;
        }
    }

    /// All calls so far.
    #[inline]
    pub(crate) fn seen(self) -> CallsSeen {
        // SAFETY: words before the first function's, in the page that was mapped for them.
        unsafe {
            CallsSeen {
                by_trap: self.word(TRAPS_AT).read_volatile(),
                otherwise: self.word(CALLS_AT).read_volatile(),
            }
        }
    }

    /// Sets the counts of the first functions to nothing.
    pub(crate) fn clear(self, functions: u32) {
        // SAFETY: the words of the functions and those before them; no thread writes them, says the caller.
        unsafe {
            std::ptr::write_bytes(self.0, 0, functions as usize);
            self.word(TRAPS_AT).write(0);
            self.word(CALLS_AT).write(0);
        }
    }

    /// Gives a scratch one's memory back.
    pub(crate) fn unmap(self) {
        let (start, len) = (self.0 as usize - PAGE_BYTES, PAGE_BYTES + CAPACITY * size_of::<u64>());
        // SAFETY: the mapping of `new`, which nobody uses any more, says the caller.
        unsafe { sys::syscall(libc::SYS_munmap, [start, len, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_function_and_together() {
        let counts = ThreadCounts::new().unwrap();
        counts.count(3);
        assert_eq!((counts.of(3), counts.seen()), (1, CallsSeen { by_trap: 0, otherwise: 1 }));
        counts.clear(4);
        assert_eq!((counts.of(3), counts.seen()), (0, CallsSeen::default()));
        counts.unmap();
    }
}

//! The depot: threads leave full magazines of blocks here for other threads, without a lock.
//!
//! Each class has a row of slots: empty, or the first block of a magazine. Leaving a magazine takes one
//! compare-and-exchange per slot, and taking one takes one exchange per slot, so each ends after at most [`SLOTS`]
//! steps whatever other threads do (wait-free). No thread ever reads a block that it does not own, so there is no
//! memory to reclaim and no need for tags against reuse. Model-checked with loom (`tests/depot_model.rs`).

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// Magazines of a class that can be left at a time.
pub const SLOTS: usize = if cfg!(loom) { 2 } else { 8 };

/// The slots of one class; a line of the cache.
#[derive(Debug)]
#[repr(align(64))]
pub struct Shelf {
    /// Zero: empty. Written by whoever leaves (release: the magazine's links come with it) and whoever takes (acquire).
    slots: [AtomicUsize; SLOTS],
}

impl Shelf {
    /// An empty one.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { slots: [const { AtomicUsize::new(0) }; SLOTS] }
    }

    /// An empty one.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicUsize::new(0)) }
    }

    /// Leaves a magazine, a number that is not zero. `false`: there is no room, it stays the caller's.
    pub fn leave(&self, magazine: usize) -> bool {
        self.slots.iter().any(|slot| {
            slot.load(Ordering::Relaxed) == 0
                && slot.compare_exchange(0, magazine, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes one that somebody left.
    pub fn take(&self) -> Option<usize> {
        self.slots.iter().find_map(|slot| {
            let taken = if slot.load(Ordering::Relaxed) == 0 { 0 } else { slot.swap(0, Ordering::Acquire) };
            (taken != 0).then_some(taken)
        })
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new()
    }
}

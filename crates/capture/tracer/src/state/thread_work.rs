//! Per-thread counts of the translator's most frequent work: a word that all threads write would cost more than the rest of that work.

use core::sync::atomic::{AtomicU64, Ordering};

/// A count that one thread adds to and others may read.
#[derive(Default)]
pub(crate) struct OwnCount(AtomicU64);

impl OwnCount {
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Of all threads that had a state, one after the other.
#[derive(Default)]
pub(crate) struct ThreadWork {
    /// Exits of the cache.
    pub(crate) exits: OwnCount,
    /// Those of indirect branches.
    pub(crate) lookups: OwnCount,
}

impl ThreadWork {
    /// Begins anew, in a forked child.
    pub(crate) fn forget(&self) {
        self.exits.forget();
        self.lookups.forget();
    }
}

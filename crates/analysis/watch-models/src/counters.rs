//! What a unit had to do.

use serde::Serialize;

use crate::Origin;

/// Events of a unit, summed over its threads. A unit leaves at zero what it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Accesses checked.
    pub accesses: u64,
    /// Accesses to a byte that was watched for them.
    pub faults: u64,
    /// Faults taken because the unit watches more than it was told to (virtual memory).
    pub false_faults: u64,
    /// Watchpoint changes asked for, local and remote.
    pub changes: u64,
    /// Those of them for another thread.
    pub remote_changes: u64,
    /// Lookups that the unit's cache could not answer (State L1, PLB, range cache).
    pub misses: u64,
    /// Lookups in bitmapped ranges that the lookaside buffer could not answer.
    pub lookaside_misses: u64,
    /// Dirty entries that had to be stored.
    pub write_backs: u64,
    /// Changes that split an entry or went through more than one.
    pub complex_updates: u64,
    /// Ranges or lines that a software handler loaded from the backing store.
    pub software_loads: u64,
    /// Levels of the balanced tree that those loads went through.
    pub software_load_levels: u64,
    /// Ranges or lines that a software handler stored.
    pub software_stores: u64,
    /// Levels of the balanced tree that those stores went through.
    pub software_store_levels: u64,
    /// Loads from the backing store by hardware: entries of a trie, lines of a bitmap.
    pub hardware_loads: u64,
    /// Units of virtual memory whose protection changed, of those that were touched: no others are in the page table.
    pub protection_changes: u64,
    /// Entries of the trie that were written.
    pub trie_writes: u64,
    /// Entries of the trie that were read to find out whether an upper level could stand for them.
    pub trie_scans: u64,
    /// Regions that became bitmaps.
    pub to_bitmap: u64,
    /// Bitmaps that became ranges again.
    pub from_bitmap: u64,
    /// Bytes of bitmaps that were written.
    pub bitmap_bytes: u64,
}

impl Counters {
    /// Somebody asked for a change.
    pub(crate) fn note_change(&mut self, origin: Origin) {
        self.changes += 1;
        self.remote_changes += u64::from(origin == Origin::Remote);
    }

    /// Accesses per miss of the first cache, the figure of Figures 6, 8 and 10; `None` where nothing missed.
    pub fn accesses_per_miss(&self) -> Option<f64> {
        (self.misses > 0).then(|| self.accesses as f64 / self.misses as f64)
    }

    /// The same with the misses of the lookaside buffer.
    pub fn accesses_per_any_miss(&self) -> Option<f64> {
        let misses = self.misses + self.lookaside_misses;
        (misses > 0).then(|| self.accesses as f64 / misses as f64)
    }
}

//! The data that each thread keeps of a function.

use super::{
    histogram,
    strata::{Clusters, Strata},
};
use crate::probe_table;
use patch::arena;

/// The counts of one function in one thread. Written by that thread only.
#[repr(C)]
pub struct Record {
    /// Entries that the thread's thunks could not count: those that gave it its state.
    pub uncounted: u64,
    /// Calls measured from entry to exit.
    pub sampled: u64,
    /// Ticks of those.
    pub total_ticks: u64,
    /// The long ones ([`super::strata::LONG_TICKS`]), and their ticks.
    pub long: u64,
    /// See `long`.
    pub long_ticks: u64,
    /// Ticks of those outside measured calls from them.
    pub self_ticks: u64,
    /// The longest.
    pub max_ticks: u64,
    /// Those that are not inside another measured call of the function.
    pub clusters: Clusters,
    /// Calls of other functions inside of those clusters.
    pub calls_inside: u64,
    /// Measured calls under way.
    pub open: u64,
    /// Counts by bucket; null before the first.
    pub histogram: *mut u32,
}

/// A thread's records, by function.
pub struct Records {
    base: *mut Record,
    /// Written by the epoch thread, and where no other thread is.
    strata: *mut Strata,
    /// Where the next histogram goes, and what is left there.
    room: usize,
    left_bytes: usize,
}

const HISTOGRAM_BYTES: usize = histogram::BUCKETS * 4;
const ROOM_BYTES: usize = 256 * HISTOGRAM_BYTES;

impl Records {
    pub(crate) fn new() -> Option<Self> {
        let base = arena::map_anonymous(probe_table::CAPACITY * size_of::<Record>())? as *mut Record;
        let strata = arena::map_anonymous(probe_table::CAPACITY * size_of::<Strata>())? as *mut Strata;
        Some(Self { base, strata, room: 0, left_bytes: 0 })
    }

    /// The record of a function.
    #[inline]
    #[must_use]
    pub fn get(&self, function: u32) -> *mut Record {
        // SAFETY: functions are numbered below the capacity, for which room was mapped.
        unsafe { self.base.add(function as usize) }
    }

    /// The strata of a function.
    #[must_use]
    pub fn strata(&self, function: u32) -> *mut Strata {
        // SAFETY: room for as many strata was mapped as there are records.
        unsafe { self.strata.add(function as usize) }
    }

    #[inline]
    pub(super) fn count(&mut self, record: *mut Record, ticks: u64) {
        // SAFETY: this thread's own record; the histogram is null or has BUCKETS words.
        unsafe {
            if (*record).histogram.is_null() {
                (*record).histogram = self.new_histogram();
                if (*record).histogram.is_null() {
                    return;
                }
            }
            *(*record).histogram.add(histogram::bucket(ticks)) += 1;
        }
    }

    #[cold]
    fn new_histogram(&mut self) -> *mut u32 {
        if self.left_bytes < HISTOGRAM_BYTES {
            let Some(room) = arena::map_anonymous(ROOM_BYTES) else { return std::ptr::null_mut() };
            (self.room, self.left_bytes) = (room, ROOM_BYTES);
        }
        let at = self.room;
        self.room += HISTOGRAM_BYTES;
        self.left_bytes -= HISTOGRAM_BYTES;
        at as *mut u32
    }

    /// Forgets all but the calls under way, which end later.
    pub(crate) fn clear(&mut self) {
        for function in 0..probe_table::function_count() {
            let record = self.get(function);
            // SAFETY: called where no thread writes; the histogram is null or has BUCKETS words.
            unsafe {
                let (histogram, open) = ((*record).histogram, (*record).open);
                if !histogram.is_null() {
                    std::ptr::write_bytes(histogram, 0, histogram::BUCKETS);
                }
                record.write(Record { histogram, open, ..std::mem::zeroed() });
                self.strata(function).write(Strata::default());
            }
        }
    }
}

//! The watched bytes of a process, sorted by address.

use core::cell::Cell;

use code_cache::{LOADS, Marks, STORES};
use tracee::lock::Lock;

/// Watchpoints that a process can have.
pub(crate) const MAX_WATCHES: usize = 1 << 22;

/// Sites that blocks can be watched by.
pub(crate) const MAX_SITES: usize = 1024;

/// Thread-local variables that can be watched.
const MAX_LOCALS: usize = 64;

/// Watched bytes. Bit 0: reads; bit 1: writes.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) id: u32,
    pub(crate) bits: u32,
}

/// Blocks that calls in a stretch of code allocate.
#[derive(Clone, Copy)]
pub(crate) struct WatchedSite {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Which of them, from 1; 0: all.
    pub(crate) number: u64,
    pub(crate) seen: u64,
    pub(crate) id: u32,
    pub(crate) bits: u32,
}

/// A thread-local variable: where it is from the base of fs on, in every thread.
#[derive(Clone, Copy)]
pub(crate) struct Local {
    pub(crate) distance: u64,
    pub(crate) len: u64,
    pub(crate) id: u32,
    pub(crate) bits: u32,
}

pub(crate) struct List {
    pub(crate) watches: *mut Watch,
    pub(crate) len: usize,
    /// The length of the longest.
    pub(crate) longest: u64,
    /// Where the last search ended.
    pub(crate) hint: Cell<usize>,
    pub(crate) sites: *mut WatchedSite,
    pub(crate) site_count: usize,
    pub(crate) locals: [Local; MAX_LOCALS],
    pub(crate) local_count: usize,
    /// Where the program is translated: lines whose accesses are looked at.
    pub(crate) marks: Option<Marks>,
    /// TiBs of address space that ever held a watch, a bit each: they share their marks.
    pub(crate) terabytes: u128,
}

// SAFETY: memory of this process that only the holder of the lock uses.
unsafe impl Send for List {}

pub(crate) static LIST: Lock<List> = Lock::new(List {
    watches: core::ptr::null_mut(),
    len: 0,
    longest: 0,
    hint: Cell::new(0),
    sites: core::ptr::null_mut(),
    site_count: 0,
    locals: [Local { distance: 0, len: 0, id: 0, bits: 0 }; MAX_LOCALS],
    local_count: 0,
    marks: None,
    terabytes: 0,
});
fn mark_of(bits: u32) -> u8 {
    (if bits & 1 != 0 { LOADS } else { 0 }) | if bits & 2 != 0 { STORES } else { 0 }
}

/// Bits of an address inside of a TiB.
const TERABYTE_BITS: u32 = 40;

impl List {
    pub(crate) fn as_slice(&self) -> &[Watch] {
        if self.watches.is_null() {
            return &[];
        }
        // SAFETY: `len` entries were written.
        unsafe { core::slice::from_raw_parts(self.watches, self.len) }
    }

    pub(crate) fn insert(&mut self, watch: Watch) {
        if self.watches.is_null() || self.len >= MAX_WATCHES || watch.start >= watch.end {
            return;
        }
        // The recorder's list is in this order: nearly all go to the end.
        let at = match self.as_slice().last() {
            Some(last) if last.start > watch.start => {
                self.as_slice().partition_point(|other| other.start <= watch.start)
            }
            _ => self.len,
        };
        // SAFETY: `at <= len < MAX_WATCHES`: the moved entries and the new one lie inside the list's memory.
        unsafe {
            let place = self.watches.add(at);
            core::ptr::copy(place, place.add(1), self.len - at);
            place.write(watch);
        }
        self.len += 1;
        self.longest = self.longest.max(watch.end - watch.start);
        if let Some(marks) = self.marks {
            marks.add(watch.start, watch.end, mark_of(watch.bits));
        }
        for terabyte in watch.start >> TERABYTE_BITS..=(watch.end - 1) >> TERABYTE_BITS {
            self.terabytes |= 1u128.checked_shl(terabyte as u32).unwrap_or(0);
        }
    }

    /// Watched bytes of a range are gone: its lines are marked for what is left.
    pub(crate) fn unmark(&self, start: u64, end: u64) {
        let Some(marks) = self.marks else { return };
        marks.set(start, end, |line, reach| {
            let mut found = 0;
            let mut terabytes = self.terabytes;
            while terabytes != 0 {
                let base = u64::from(terabytes.trailing_zeros()) << TERABYTE_BITS;
                terabytes &= terabytes - 1;
                let start = base + (line & ((1 << TERABYTE_BITS) - 1));
                self.each(start, start + (reach - line), |watch| found |= watch.bits);
            }
            mark_of(found)
        });
    }

    /// Watches the thread-local variables of the thread whose base of fs that is. `false`: there are none, or another
    /// thread has them.
    pub(crate) fn insert_locals(&mut self, base: u64) -> bool {
        let mut some = false;
        for index in 0..self.local_count {
            let Some(&Local { distance, len, id, bits }) = self.locals.get(index) else { break };
            let start = base.wrapping_add(distance);
            let watch = Watch { start, end: start.saturating_add(len), id: id | OF_LOCAL, bits };
            let mut known = false;
            self.each(watch.start, watch.end, |other| known |= other.id == watch.id);
            if !known {
                self.insert(watch);
                some = true;
            }
        }
        some
    }

    pub(crate) fn remove_locals(&mut self, base: u64) {
        for index in 0..self.local_count {
            let Some(&Local { distance, len, id, .. }) = self.locals.get(index) else { break };
            let start = base.wrapping_add(distance);
            self.remove_found(start, |watch| watch.id == id | OF_LOCAL);
            self.unmark(start, start.saturating_add(len));
        }
    }

    /// Removes the watches that begin at an address and are such. Returns where the last of them ended.
    pub(crate) fn remove_found(&mut self, addr: u64, is_such: impl Fn(&Watch) -> bool) -> Option<u64> {
        let mut end = None;
        loop {
            let found = self.as_slice().partition_point(|watch| watch.start < addr);
            let mut same = (found..self.len)
                .map_while(|at| self.as_slice().get(at).filter(|w| w.start == addr).map(|w| (at, w)));
            let Some((at, watch)) = same.find(|(_, watch)| is_such(watch)) else { return end };
            end = end.max(Some(watch.end));
            self.remove(at);
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if at < self.len {
            // SAFETY: the entry exists; those after it move one place down.
            unsafe {
                let place = self.watches.add(at);
                core::ptr::copy(place.add(1), place, self.len - at - 1);
            }
            self.len -= 1;
        }
    }

    /// How many watches begin before an address. Most searches end where the last one did, or one further.
    pub(crate) fn count_before(&self, addr: u64) -> usize {
        let all = self.as_slice();
        let is_it = |at: usize| {
            at <= all.len()
                && at.checked_sub(1).and_then(|before| all.get(before)).is_none_or(|watch| watch.start < addr)
                && all.get(at).is_none_or(|watch| watch.start >= addr)
        };
        let hint = self.hint.get();
        let at = match [hint, hint + 1].into_iter().find(|&at| is_it(at)) {
            Some(at) => at,
            None => all.partition_point(|watch| watch.start < addr),
        };
        self.hint.set(at);
        at
    }

    /// Watches that meet a range, one after the other.
    pub(crate) fn each(&self, start: u64, end: u64, mut visit: impl FnMut(Watch)) {
        let all = self.as_slice();
        let mut at = self.count_before(end);
        while let Some(watch) = at.checked_sub(1).and_then(|before| all.get(before)) {
            if watch.start.saturating_add(self.longest) <= start {
                return;
            }
            if watch.end > start {
                visit(*watch);
            }
            at -= 1;
        }
    }
}

/// Watches of blocks, which end with the block.
pub(crate) const FROM_SITE: u32 = 1 << 31;

/// Watches of thread-local variables, which end with the thread.
const OF_LOCAL: u32 = 1 << 30;
pub(crate) const KINDS: u32 = FROM_SITE | OF_LOCAL;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(room: &mut [Watch]) -> List {
        List {
            watches: room.as_mut_ptr(),
            len: 0,
            longest: 0,
            hint: Cell::new(0),
            sites: core::ptr::null_mut(),
            site_count: 0,
            locals: [Local { distance: 0, len: 0, id: 0, bits: 0 }; MAX_LOCALS],
            local_count: 0,
            marks: None,
            terabytes: 0,
        }
    }

    proptest! {
        /// A search finds the watches that meet a range, whatever was watched and released before, and wherever the search
        /// before it ended.
        #[test]
        fn a_search_finds_what_a_walk_through_all_finds(
            changes in prop::collection::vec((0u64..64, 1u64..20, any::<bool>()), 1..60),
            searches in prop::collection::vec((0u64..80, 1u64..16), 1..30),
        ) {
            let mut room = [Watch { start: 0, end: 0, id: 0, bits: 0 }; 64];
            let mut list = list(&mut room);
            let mut model: Vec<(u64, u64, u32)> = Vec::new();
            for (id, (start, len, is_new)) in changes.into_iter().enumerate() {
                if is_new {
                    list.insert(Watch { start, end: start + len, id: id as u32, bits: 1 });
                    model.push((start, start + len, id as u32));
                } else {
                    let end = list.remove_found(start, |watch| watch.id & 1 == 0);
                    let gone = |watch: &(u64, u64, u32)| watch.0 == start && watch.2 & 1 == 0;
                    prop_assert_eq!(end, model.iter().filter(|watch| gone(watch)).map(|watch| watch.1).max());
                    model.retain(|watch| !gone(watch));
                }
                prop_assert!(list.as_slice().is_sorted_by_key(|watch| watch.start));
            }
            for (start, len) in searches {
                let mut found = Vec::new();
                list.each(start, start + len, |watch| found.push((watch.start, watch.end, watch.id)));
                found.sort_unstable();
                let mut expect: Vec<_> =
                    model.iter().copied().filter(|watch| watch.0 < start + len && start < watch.1).collect();
                expect.sort_unstable();
                prop_assert_eq!(found, expect);
            }
        }
    }
}

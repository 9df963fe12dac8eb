//! The memory that has two views: stretches with equal properties, sorted by address.

use core::sync::atomic::{AtomicU8, Ordering};

use memref::RegionKind;
use tracee::lock::Lock;
use tracee::sys;

use crate::memory::pages::{
    PAGE_READ, PAGE_TRACED, PAGE_VIEWED, PAGE_WRITE, PAGES, PAGES_AT, PAGES_BYTES, TOP,
};

/// Ranges that a process can have; the kernel's own limit of mappings is 65,530.
const MAX_RANGES: usize = 65_536;

/// One stretch of memory with two views and equal properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The rights that the program thinks it has.
    pub(crate) prot: i32,
    pub(crate) kind: RegionKind,
    pub(crate) traced: bool,
    /// Shared with forked children, as the program asked for it.
    pub(crate) shared: bool,
}

/// The ranges, in the order of addresses, in memory of our own.
pub(crate) struct Ranges {
    list: *mut Range,
    len: usize,
}

/// Those of this process.
pub(crate) static RANGES: Lock<Ranges> = Lock::new(Ranges::new());

// SAFETY: the list is memory of this process that only the holder of the lock uses.
unsafe impl Send for Ranges {}

impl Ranges {
    pub(crate) const fn new() -> Self {
        Self { list: core::ptr::null_mut(), len: 0 }
    }

    pub(crate) fn as_slice(&self) -> &[Range] {
        if self.list.is_null() {
            return &[];
        }
        // SAFETY: `len` entries were written, see `insert`.
        unsafe { core::slice::from_raw_parts(self.list, self.len) }
    }

    /// Makes room for the list and for the pages' bytes, once. For page protection: translated code has no second view of
    /// anything, so each page is one that we leave alone.
    pub(crate) fn prepare(&mut self) -> bool {
        if !self.list.is_null() {
            return true;
        }
        let rw = sys::PROT_READ | sys::PROT_WRITE;
        let Some(list) = sys::map_anonymous((MAX_RANGES * size_of::<Range>()) as u64, rw) else {
            return false;
        };
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE replaces nothing.
        let pages = unsafe { sys::mmap(PAGES_AT, PAGES_BYTES, rw, flags, -1, 0) };
        if sys::failed(pages) {
            return false;
        }
        self.list = list.cast();
        PAGES.store(pages as usize, Ordering::Release);
        true
    }

    fn position(&self, addr: u64) -> usize {
        self.as_slice().partition_point(|range| range.end <= addr)
    }

    /// The range that holds an address.
    pub(crate) fn find(&self, addr: u64) -> Option<Range> {
        self.as_slice().get(self.position(addr)).copied().filter(|range| range.start <= addr)
    }

    /// The parts of ranges between two addresses, cut to them, one after the other. `each` gets the part.
    pub(crate) fn each_within(&self, start: u64, end: u64, mut each: impl FnMut(Range)) {
        for range in self.as_slice().get(self.position(start)..).unwrap_or(&[]) {
            if range.start >= end {
                return;
            }
            each(Range { start: range.start.max(start), end: range.end.min(end), ..*range });
        }
    }

    /// The first part of a range between two addresses, cut to them.
    pub(crate) fn first_within(&self, start: u64, end: u64) -> Option<Range> {
        let range = self.as_slice().get(self.position(start)).filter(|range| range.start < end)?;
        Some(Range { start: range.start.max(start), end: range.end.min(end), ..*range })
    }

    /// Enters a range; nothing may be known of its addresses. `false` where the list is full.
    pub(crate) fn insert(&mut self, range: Range) -> bool {
        if self.list.is_null() || self.len >= MAX_RANGES {
            return false;
        }
        let at = self.position(range.start);
        // SAFETY: `at <= len < MAX_RANGES`, so both the moved entries and the new one lie inside the list's memory.
        unsafe {
            let place = self.list.add(at);
            core::ptr::copy(place, place.add(1), self.len - at);
            place.write(range);
        }
        self.len += 1;
        Self::mark(&range);
        true
    }

    /// Forgets all between two addresses, cutting ranges that reach over an end.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        self.each_within(start, end, |part| Self::write_pages(part.start, part.end, 0));
        self.cut(start, end);
    }

    /// Takes all between two addresses out of the list, but leaves what the pages' bytes say: a handler in another thread
    /// may be looking at them.
    fn cut(&mut self, start: u64, end: u64) {
        let mut at = self.position(start);
        while let Some(range) = self.as_slice().get(at).copied().filter(|range| range.start < end) {
            // SAFETY: `at < len`: the entry exists, and the ones after it move one place down.
            unsafe {
                let place = self.list.add(at);
                core::ptr::copy(place.add(1), place, self.len - at - 1);
            }
            self.len -= 1;
            if range.start < start {
                self.insert(Range { end: start, ..range });
                at += 1;
            }
            if range.end > end {
                self.insert(Range { start: end, ..range });
            }
        }
    }

    /// Changes all ranges between two addresses by `change`.
    pub(crate) fn update(&mut self, start: u64, end: u64, change: impl Fn(&mut Range)) {
        let mut at = start;
        while at < end {
            let index = self.position(at);
            let Some(range) = self.as_slice().get(index).copied().filter(|range| range.start < end) else {
                return;
            };
            let mut part = Range { start: range.start.max(start), end: range.end.min(end), ..range };
            at = part.end;
            let before = part;
            change(&mut part);
            if part != before {
                self.cut(part.start, part.end);
                self.insert(part);
            }
        }
    }

    fn mark(range: &Range) {
        let mut flags = PAGE_VIEWED;
        if range.traced {
            flags |= PAGE_TRACED;
        }
        if range.prot & sys::PROT_READ != 0 {
            flags |= PAGE_READ;
        }
        if range.prot & sys::PROT_WRITE != 0 {
            flags |= PAGE_WRITE | PAGE_READ;
        }
        Self::write_pages(range.start, range.end, flags);
    }

    fn write_pages(start: u64, end: u64, flags: u8) {
        let pages = PAGES.load(Ordering::Relaxed) as *const AtomicU8;
        if pages.is_null() || end > TOP {
            return;
        }
        for number in start >> 12..end >> 12 {
            // SAFETY: the table has a byte for each page below TOP.
            unsafe { (*pages.add(number as usize)).store(flags, Ordering::Relaxed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::pages::{PAGE_BYTES, page};

    const PAGES_USED: u64 = 32;
    const BASE: u64 = 0x7e00_0000_0000;

    #[derive(Clone, Debug)]
    enum Change {
        Insert { prot: i32, traced: bool, shared: bool },
        Remove,
        Protect { prot: i32 },
        Trace { traced: bool },
    }

    fn changes() -> impl Strategy<Value = Vec<(u64, u64, Change)>> {
        let change = prop_oneof![
            (0..8, any::<bool>(), any::<bool>()).prop_map(|(prot, traced, shared)| Change::Insert {
                prot,
                traced,
                shared
            }),
            Just(Change::Remove),
            (0..8).prop_map(|prot| Change::Protect { prot }),
            any::<bool>().prop_map(|traced| Change::Trace { traced }),
        ];
        prop::collection::vec((0..PAGES_USED, 1..PAGES_USED, change), 1..40)
    }

    /// What the byte of a page says of a range.
    fn flags(range: &Range) -> u8 {
        let mut flags = PAGE_VIEWED;
        flags |= if range.traced { PAGE_TRACED } else { 0 };
        flags |= if range.prot & sys::PROT_READ != 0 { PAGE_READ } else { 0 };
        // What can be written can be read on this processor.
        flags | if range.prot & sys::PROT_WRITE != 0 { PAGE_WRITE | PAGE_READ } else { 0 }
    }

    proptest! {
        /// The list and the bytes of the pages say what a plain list of pages says.
        #[test]
        fn ranges_are_pages_with_equal_properties(changes in changes()) {
            let mut ranges = RANGES.lock();
            prop_assert!(ranges.prepare());
            let mut model: BTreeMap<u64, Range> = BTreeMap::new();
            for (first, count, change) in changes {
                let numbers = first..(first + count).min(PAGES_USED);
                let (start, end) = (BASE + numbers.start * PAGE_BYTES, BASE + numbers.end * PAGE_BYTES);
                match change {
                    Change::Insert { prot, traced, shared } => {
                        if numbers.clone().any(|number| model.contains_key(&number)) {
                            continue;
                        }
                        let range = Range { start, end, prot, kind: RegionKind::Heap, traced, shared };
                        prop_assert!(ranges.insert(range));
                        model.extend(numbers.map(|number| (number, range)));
                    }
                    Change::Remove => {
                        ranges.remove(start, end);
                        numbers.for_each(|number| _ = model.remove(&number));
                    }
                    Change::Protect { prot } => {
                        ranges.update(start, end, |range| range.prot = prot);
                        model.range_mut(numbers).for_each(|(_, range)| range.prot = prot);
                    }
                    Change::Trace { traced } => {
                        ranges.update(start, end, |range| range.traced = traced);
                        model.range_mut(numbers).for_each(|(_, range)| range.traced = traced);
                    }
                }
                let list = ranges.as_slice();
                prop_assert!(list.iter().all(|range| range.start < range.end));
                prop_assert!(list.windows(2).all(|pair| pair[0].end <= pair[1].start));
                for number in 0..PAGES_USED {
                    let addr = BASE + number * PAGE_BYTES + 7;
                    let found = ranges.find(addr);
                    let known = model.get(&number);
                    prop_assert_eq!(
                        found.map(|range| (range.prot, range.traced, range.shared)),
                        known.map(|range| (range.prot, range.traced, range.shared))
                    );
                    prop_assert_eq!(page(addr), known.map_or(0, flags));
                }
                let mut parts = 0;
                ranges.each_within(start + PAGE_BYTES, end, |part| parts += (part.end - part.start) / PAGE_BYTES);
                let expect = model.range(first + 1..(first + count).min(PAGES_USED).max(first + 1)).count();
                prop_assert_eq!(parts as usize, expect);
            }
            ranges.remove(0, TOP);
            prop_assert!(ranges.as_slice().is_empty());
        }
    }
}

//! Watchpoints by page protection: a unit of memory with any watched byte is
//! protected, and the kernel checks which faults are hits (section 4.1.1).

use std::ops::Range;

use memref::{AccessKind, ThreadId};
use rustc_hash::FxHashMap;

use super::per_thread::PerThread;
use crate::tree::RangeTree;
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

/// A unit of virtual memory.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// What any byte of it is watched for.
    watched: Watched,
    /// Whether there was an access to it. One that nobody touched has no entry in the page table: closing eight megabytes
    /// of them takes no longer than the system call.
    touched: bool,
}

#[derive(Clone, Debug, Default)]
struct Space {
    /// The kernel's list of byte-accurate watchpoints.
    tree: RangeTree,
    /// Those that are watched or were touched.
    pages: FxHashMap<u64, Page>,
    last: Option<(u64, Watched)>,
}

/// Protection of units of memory, 4 KiB as processors have it or finer.
#[derive(Clone, Debug)]
pub struct VirtualMemory {
    unit_bytes: u64,
    threads: PerThread<Space>,
    counters: Counters,
}

impl VirtualMemory {
    /// Protects naturally aligned units of that many bytes (rounded up to a power of two).
    pub fn new(unit_bytes: u64) -> Self {
        let unit_bytes = unit_bytes.clamp(1, 1 << 40).next_power_of_two();
        Self { unit_bytes, threads: PerThread::new(), counters: Counters::default() }
    }
}

impl WatchpointUnit for VirtualMemory {
    fn kind(&self) -> UnitKind {
        UnitKind::VirtualMemory
    }

    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool {
        self.counters.accesses += 1;
        let space = self.threads.get(thread, Space::default);
        let hit = Watched::hit_by(kind);
        if hit.is_none() || len == 0 {
            return false;
        }
        let end = addr.saturating_add(len);
        let mut closed = false;
        for unit in addr / self.unit_bytes..=(end - 1) / self.unit_bytes {
            let watched = match space.last {
                Some((last, watched)) if last == unit => watched,
                _ => {
                    let page = space.pages.entry(unit).or_default();
                    page.touched = true;
                    space.last = Some((unit, page.watched));
                    page.watched
                }
            };
            // Memory that can't be read can't be written either.
            closed |= watched.meets(Watched::READ) || watched.meets(hit);
        }
        if !closed {
            return false;
        }
        let fault = space.tree.union(addr..end).meets(hit);
        self.counters.faults += u64::from(fault);
        self.counters.false_faults += u64::from(!fault);
        self.counters.software_loads += 1;
        self.counters.software_load_levels += space.tree.levels();
        fault
    }

    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin) {
        self.counters.note_change(origin);
        if range.is_empty() {
            return;
        }
        let space = self.threads.get(thread, Space::default);
        space.last = None;
        space.tree.change(range.clone(), change);
        self.counters.software_stores += 1;
        self.counters.software_store_levels += space.tree.levels();
        let (first, last) = (range.start / self.unit_bytes, (range.end - 1) / self.unit_bytes);
        for unit in first..=last {
            let start = unit * self.unit_bytes;
            let whole = range.start <= start && range.end >= start.saturating_add(self.unit_bytes);
            let watched = match change {
                Change::Set(watched) if whole => watched,
                _ => space.tree.union(start..start.saturating_add(self.unit_bytes)),
            };
            let page = space.pages.entry(unit).or_default();
            self.counters.protection_changes += u64::from(page.touched && page.watched != watched);
            page.watched = watched;
            if watched.is_none() && !page.touched {
                space.pages.remove(&unit);
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_nobody_touched_are_closed_for_nothing() {
        let mut unit = VirtualMemory::new(4096);
        let (thread, stack) = (ThreadId(0), 0..2048 * 4096);
        unit.set(thread, stack.clone(), Watched::BOTH);
        assert_eq!((unit.counters().changes, unit.counters().protection_changes), (1, 0));
        // Touched when it was closed: opened now, and closed again with all others.
        assert!(unit.check(thread, 4096, 8, AccessKind::Load));
        unit.remove(thread, 4096..8192, Watched::BOTH);
        assert_eq!(unit.counters().protection_changes, 1);
        unit.set(thread, stack, Watched::BOTH);
        assert_eq!(unit.counters().protection_changes, 2);
    }
}

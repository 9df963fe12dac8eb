//! Watchpoints by page protection: a unit with any watched byte is closed, and the kernel sorts the faults (section 4.1.1).

use std::ops::Range;

use memref::{AccessKind, ThreadId};
use rustc_hash::FxHashMap;

use super::per_thread::PerThread;
use crate::tree::RangeTree;
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

#[derive(Clone, Debug, Default)]
struct Space {
    /// The kernel's list of byte-accurate watchpoints.
    tree: RangeTree,
    /// What any byte of a unit is watched for; units without a watchpoint are not in it.
    closed: FxHashMap<u64, Watched>,
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
                    let watched = space.closed.get(&unit).copied().unwrap_or_default();
                    space.last = Some((unit, watched));
                    watched
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
            let old = if watched.is_none() {
                space.closed.remove(&unit)
            } else {
                space.closed.insert(unit, watched)
            };
            self.counters.protection_changes += u64::from(old.unwrap_or_default() != watched);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

//! MemTracker: a small cache of packed watchpoint bits beside the data cache
//! (section 4.1.1, State L1). As in the paper, a software handler runs on a miss.

use std::ops::Range;

use memref::{AccessKind, ThreadId};

use super::per_thread::PerThread;
use crate::bits::{self, BitPair, PAIR_BYTES};
use crate::sets::Sets;
use crate::tree::RangeTree;
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

/// Program bytes that a line of 64 bytes speaks of.
const LINE_BYTES: u64 = 256;
const PAIRS: usize = (LINE_BYTES / PAIR_BYTES) as usize;

/// Sizes of the cache.
#[derive(Clone, Copy, Debug)]
pub struct MemTrackerOptions {
    /// Bytes of watchpoint bits: 4 KiB.
    pub cache_bytes: usize,
    /// Lines a set: 4.
    pub ways: usize,
}

impl Default for MemTrackerOptions {
    fn default() -> Self {
        Self { cache_bytes: 4096, ways: 4 }
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Its number; `u64::MAX`: empty.
    number: u64,
    used: u64,
    dirty: bool,
    bits: [BitPair; PAIRS],
}

const EMPTY: Line =
    Line { number: u64::MAX, used: 0, dirty: false, bits: [BitPair { read: 0, write: 0 }; PAIRS] };

#[derive(Clone, Debug)]
struct CoreCache {
    lines: Vec<Line>,
    sets: Sets,
    clock: u64,
    tree: RangeTree,
}

impl CoreCache {
    fn new(options: &MemTrackerOptions) -> Self {
        let sets = Sets::new(options.cache_bytes / 64, options.ways);
        Self { lines: vec![EMPTY; sets.lines()], sets, clock: 0, tree: RangeTree::default() }
    }

    /// The line of that number, loaded where it is missing.
    #[inline]
    fn line(&mut self, number: u64, counters: &mut Counters) -> &mut Line {
        self.clock += 1;
        let clock = self.clock;
        let set = self.sets.of(number);
        let found = set.clone().find(|&at| self.lines[at].number == number);
        let at = found.unwrap_or_else(|| self.load(number, set, counters));
        let line = &mut self.lines[at];
        line.used = clock;
        line
    }

    #[inline(never)]
    fn load(&mut self, number: u64, set: Range<usize>, counters: &mut Counters) -> usize {
        counters.misses += 1;
        let at = set.min_by_key(|&at| self.lines[at].used).unwrap_or(0);
        self.write_back(at, counters);
        counters.software_loads += 1;
        counters.software_load_levels += self.tree.levels();
        self.lines[at] = Line { number, bits: self.tree.pairs(number * LINE_BYTES), ..EMPTY };
        at
    }

    /// Empties a place.
    fn write_back(&mut self, at: usize, counters: &mut Counters) {
        let line = std::mem::replace(&mut self.lines[at], EMPTY);
        if !line.dirty || line.number == u64::MAX {
            return;
        }
        counters.write_backs += 1;
        let base = line.number * LINE_BYTES;
        let mut start = 0;
        while start < LINE_BYTES {
            let end = bits::run_end(&line.bits, start);
            let watched = line.bits[(start / PAIR_BYTES) as usize].get(start % PAIR_BYTES);
            counters.software_stores += 1;
            counters.software_store_levels += self.tree.levels();
            self.tree.set(base + start..base + end, watched);
            start = end;
        }
    }
}

/// The unit.
#[derive(Clone, Debug)]
pub struct MemTracker {
    options: MemTrackerOptions,
    cores: PerThread<CoreCache>,
    counters: Counters,
}

impl MemTracker {
    /// A unit of these sizes.
    pub fn new(options: MemTrackerOptions) -> Self {
        Self { options, cores: PerThread::new(), counters: Counters::default() }
    }
}

impl WatchpointUnit for MemTracker {
    fn kind(&self) -> UnitKind {
        UnitKind::MemTracker
    }

    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool {
        self.counters.accesses += 1;
        let hit = Watched::hit_by(kind);
        if hit.is_none() {
            return false;
        }
        let core = self.cores.get(thread, || CoreCache::new(&self.options));
        let end = addr.saturating_add(len);
        let mut at = addr;
        let mut fault = false;
        while at < end {
            let number = at / LINE_BYTES;
            let base = number * LINE_BYTES;
            let stop = end.min(base.saturating_add(LINE_BYTES));
            let line = core.line(number, &mut self.counters);
            fault |= bits::union(&line.bits, at - base, stop - base).meets(hit);
            at = stop;
        }
        self.counters.faults += u64::from(fault);
        fault
    }

    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin) {
        self.counters.note_change(origin);
        if range.is_empty() {
            return;
        }
        let core = self.cores.get(thread, || CoreCache::new(&self.options));
        // Whole lines go to the backing store as one range; the ends are changed in the cache.
        let first = range.start.div_ceil(LINE_BYTES);
        let last = range.end / LINE_BYTES;
        let mut ends = vec![range.clone()];
        if first < last {
            ends = vec![range.start..first * LINE_BYTES, last * LINE_BYTES..range.end];
            for at in 0..core.lines.len() {
                if (first..last).contains(&core.lines[at].number) {
                    core.write_back(at, &mut self.counters);
                }
            }
            core.tree.change(first * LINE_BYTES..last * LINE_BYTES, change);
            self.counters.software_stores += 1;
            self.counters.software_store_levels += core.tree.levels();
        }
        for end in ends {
            let mut at = end.start;
            while at < end.end {
                let number = at / LINE_BYTES;
                let base = number * LINE_BYTES;
                let stop = end.end.min(base.saturating_add(LINE_BYTES));
                let line = core.line(number, &mut self.counters);
                bits::change(&mut line.bits, at - base, stop - base, change);
                line.dirty = true;
                at = stop;
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

//! MemTracker: a small cache of packed watchpoint bits beside the data cache (section 4.1.1, State L1). As in the paper, a
//! software handler runs where it misses.

use std::ops::Range;

use memref::{AccessKind, ThreadId};

use super::per_thread::PerThread;
use crate::tree::RangeTree;
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

/// Program bytes that a line of 64 bytes speaks of.
const LINE_BYTES: u64 = 256;
const WORDS: usize = (LINE_BYTES / 64) as usize;

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
    read: [u64; WORDS],
    write: [u64; WORDS],
    dirty: bool,
    used: u64,
}

const EMPTY: Line = Line { number: u64::MAX, read: [0; WORDS], write: [0; WORDS], dirty: false, used: 0 };

impl Line {
    fn words(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
        (0..WORDS).filter_map(move |word| {
            let (low, high) = (word as u64 * 64, word as u64 * 64 + 64);
            let (from, to) = (from.max(low), to.min(high));
            let bits = |upto: u64| if upto == 64 { u64::MAX } else { (1_u64 << upto) - 1 };
            (from < to).then(|| (word, bits(to - low) & !bits(from - low)))
        })
    }

    #[inline]
    fn meets(&self, from: u64, to: u64, watched: Watched) -> bool {
        let (read, write) = (watched.meets(Watched::READ), watched.meets(Watched::WRITE));
        if from / 64 == (to - 1) / 64 {
            let word = (from / 64) as usize;
            let bits = (u64::MAX >> (64 - (to - from))) << (from % 64);
            return read && self.read[word] & bits != 0 || write && self.write[word] & bits != 0;
        }
        Self::words(from, to)
            .any(|(word, bits)| read && self.read[word] & bits != 0 || write && self.write[word] & bits != 0)
    }

    fn change(&mut self, from: u64, to: u64, change: Change) {
        for (word, bits) in Self::words(from, to) {
            for (place, bit) in
                [(&mut self.read[word], Watched::READ), (&mut self.write[word], Watched::WRITE)]
            {
                match change {
                    Change::Set(new) if new.meets(bit) => *place |= bits,
                    Change::Set(_) => *place &= !bits,
                    Change::Add(more) if more.meets(bit) => *place |= bits,
                    Change::Remove(less) if less.meets(bit) => *place &= !bits,
                    _ => {}
                }
            }
        }
    }

    /// Runs of equal bits, as offsets.
    fn runs(&self) -> Vec<(Range<u64>, Watched)> {
        let get = |offset: u64| {
            let (word, bit) = ((offset / 64) as usize, offset % 64);
            Watched::from_bits((self.read[word] >> bit & 1 | (self.write[word] >> bit & 1) << 1) as u8)
        };
        let mut runs = Vec::new();
        let mut start = 0;
        for offset in 1..=LINE_BYTES {
            if offset == LINE_BYTES || get(offset) != get(start) {
                runs.push((start..offset, get(start)));
                start = offset;
            }
        }
        runs
    }
}

#[derive(Clone, Debug)]
struct CoreCache {
    lines: Vec<Line>,
    ways: usize,
    clock: u64,
    tree: RangeTree,
}

impl CoreCache {
    fn new(options: &MemTrackerOptions) -> Self {
        let ways = options.ways.max(1);
        let sets = (options.cache_bytes / 64 / ways).max(1);
        Self { lines: vec![EMPTY; sets * ways], ways, clock: 0, tree: RangeTree::default() }
    }

    #[inline]
    fn set(&self, number: u64) -> Range<usize> {
        let set = (number % (self.lines.len() / self.ways) as u64) as usize * self.ways;
        set..set + self.ways
    }

    /// The line of that number, loaded where it is missing.
    #[inline]
    fn line(&mut self, number: u64, counters: &mut Counters) -> &mut Line {
        self.clock += 1;
        let clock = self.clock;
        let set = self.set(number);
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
        let base = number * LINE_BYTES;
        let mut line = Line { number, ..EMPTY };
        self.tree.each(base..base.saturating_add(LINE_BYTES), |piece, watched| {
            if !watched.is_none() {
                line.change(piece.start - base, piece.end - base, Change::Set(watched));
            }
        });
        self.lines[at] = line;
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
        for (run, watched) in line.runs() {
            counters.software_stores += 1;
            counters.software_store_levels += self.tree.levels();
            self.tree.set(base + run.start..base + run.end, watched);
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
            fault |= core.line(number, &mut self.counters).meets(at - base, stop - base, hit);
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
                line.change(at - base, stop - base, change);
                line.dirty = true;
                at = stop;
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

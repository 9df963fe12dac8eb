//! The range cache, and the paper's own design on top of it: bitmapped ranges with a
//! lookaside buffer, and bitmaps inside entries (sections 2.3.1 to 2.3.3, Figure 3).

use std::collections::BTreeSet;
use std::ops::Range;

use memref::{AccessKind, ThreadId};
use rustc_hash::FxHashMap;

use super::per_thread::PerThread;
use crate::bits::{BLOCK_BYTES, BlockBits};
use crate::sets::Sets;
use crate::slots::{CacheSlot, Slots};
use crate::tree::RangeTree;
use crate::{Change, Counters, Origin, UnitKind, Watched, WatchpointUnit};

/// Program bytes that a lookaside line of 64 bytes speaks of.
const LINE_BYTES: u64 = 256;

/// Sizes and thresholds.
#[derive(Clone, Copy, Debug)]
pub struct RangeCacheOptions {
    /// Entries of the range cache: 128 alone, 64 with bitmaps.
    pub entries: usize,
    /// Whether a block may become a bitmap.
    pub bitmaps: bool,
    /// A 4 KiB block of more ranges than this becomes a bitmap when it is loaded: 16.
    pub to_bitmap_above: usize,
    /// A bitmap of fewer ranges than this becomes ranges when it is stored: 4.
    pub from_bitmap_below: usize,
    /// Bytes of the lookaside buffer: 2 KiB.
    pub lookaside_bytes: usize,
    /// Its lines a set: 2.
    pub lookaside_ways: usize,
    /// Bytes that an entry's own bitmap can speak of; 0: none. The paper has 16 on a 32-bit machine; the pointer bits of a
    /// 64-bit one hold 32.
    pub on_chip_bytes: u64,
}

impl RangeCacheOptions {
    /// The range cache alone.
    pub const fn range_cache() -> Self {
        Self { entries: 128, bitmaps: false, on_chip_bytes: 0, ..Self::hybrid() }
    }

    /// The paper's design.
    pub const fn hybrid() -> Self {
        Self {
            entries: 64,
            bitmaps: true,
            to_bitmap_above: 16,
            from_bitmap_below: 4,
            lookaside_bytes: 2048,
            lookaside_ways: 2,
            on_chip_bytes: 32,
        }
    }
}

/// The status bits of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CachedBits {
    Uniform(Watched),
    /// Two bits a byte, from the entry's start.
    OnChip(u64),
    /// A bitmap in memory: its place.
    Bitmap(u32),
}

impl Default for CachedBits {
    fn default() -> Self {
        Self::Uniform(Watched::NONE)
    }
}

type CachedRange = CacheSlot<CachedBits>;

impl CacheSlot<CachedBits> {
    /// The bits of `range` as an on-chip bitmap that begins there. Only for entries that are no bitmap in memory.
    fn bits(&self, range: &Range<u64>) -> u64 {
        let len = range.end - range.start;
        let all = if len >= 32 { u64::MAX } else { (1 << (2 * len)) - 1 };
        match self.status {
            CachedBits::Uniform(watched) => all & (0x5555_5555_5555_5555 * u64::from(watched.bits())),
            CachedBits::OnChip(bits) => bits >> (2 * (range.start - self.start)) & all,
            CachedBits::Bitmap(_) => 0,
        }
    }

    /// The part of it inside `range`.
    fn part(&self, range: Range<u64>) -> Self {
        let status = match self.status {
            CachedBits::OnChip(_) => on_chip(self.bits(&range), range.end - range.start),
            other => other,
        };
        Self { start: range.start, end: range.end, status, dirty: self.dirty }
    }

    /// Its runs of equal watchpoints. Only for entries that are no bitmap in memory.
    fn runs(&self) -> Vec<(Range<u64>, Watched)> {
        let CachedBits::OnChip(bits) = self.status else {
            let CachedBits::Uniform(watched) = self.status else { return Vec::new() };
            return vec![(self.start..self.end, watched)];
        };
        let get = |at: u64| Watched::from_bits((bits >> (2 * (at - self.start))) as u8);
        let mut runs = Vec::new();
        let mut start = self.start;
        for at in self.start + 1..=self.end {
            if at == self.end || get(at) != get(start) {
                runs.push((start..at, get(start)));
                start = at;
            }
        }
        runs
    }
}

/// Bits as a status: uniform where all are equal.
fn on_chip(bits: u64, len: u64) -> CachedBits {
    let all = if len >= 32 { u64::MAX } else { (1 << (2 * len)) - 1 };
    let watched = Watched::from_bits(bits as u8);
    if bits == all & (0x5555_5555_5555_5555 * u64::from(watched.bits())) {
        CachedBits::Uniform(watched)
    } else {
        CachedBits::OnChip(bits)
    }
}

/// The lookaside buffer: tags only, because a change evicts, so its bits are always those in memory.
#[derive(Clone, Debug)]
struct Lookaside {
    /// Lines by set, the last used first.
    lines: Vec<u64>,
    sets: Sets,
}

impl Lookaside {
    fn new(options: &RangeCacheOptions) -> Self {
        let sets = Sets::new(options.lookaside_bytes / 64, options.lookaside_ways);
        Self { lines: vec![u64::MAX; sets.lines()], sets }
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        &mut self.lines[self.sets.of(line)]
    }

    /// Whether the line was there; it is now.
    #[inline]
    fn use_line(&mut self, line: u64) -> bool {
        let set = self.set(line);
        if set[0] == line {
            return true;
        }
        let at = set.iter().position(|&other| other == line);
        let last = set.len() - 1;
        set[..=at.unwrap_or(last)].rotate_right(1);
        set[0] = line;
        at.is_some()
    }

    fn evict(&mut self, range: &Range<u64>) {
        let (first, last) = (range.start / LINE_BYTES, (range.end - 1) / LINE_BYTES);
        // A line alone is in its set; where it's many, all sets are looked through.
        let lines = if first == last { self.set(first) } else { &mut self.lines[..] };
        for line in lines {
            if (first..=last).contains(line) {
                *line = u64::MAX;
            }
        }
    }
}

/// One thread's part: its cache, and its watchpoints in memory. An entry of the cache stands above a bitmap, and that
/// above the tree.
#[derive(Clone, Debug)]
struct CoreRanges {
    options: RangeCacheOptions,
    cache: Slots<CachedBits>,
    lookaside: Lookaside,
    tree: RangeTree,
    /// Which bitmap a block has, by its first byte, and these blocks in order.
    places: FxHashMap<u64, u32>,
    blocks: BTreeSet<u64>,
    bitmaps: Vec<BlockBits>,
    unused: Vec<u32>,
}

impl CoreRanges {
    fn new(options: &RangeCacheOptions) -> Self {
        Self {
            options: *options,
            cache: Slots::new(options.entries),
            lookaside: Lookaside::new(options),
            tree: RangeTree::default(),
            places: FxHashMap::default(),
            blocks: BTreeSet::new(),
            bitmaps: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Makes an entry; where there is no room, another one is given up.
    fn insert(&mut self, entry: CachedRange, counters: &mut Counters) {
        if let Some(old) = self.cache.insert(entry) {
            self.write_back(&old, counters);
        }
    }

    /// The eviction handler.
    fn write_back(&mut self, entry: &CachedRange, counters: &mut Counters) {
        if !entry.dirty {
            return;
        }
        counters.write_backs += 1;
        if let CachedBits::Bitmap(place) = entry.status {
            counters.software_stores += 1;
            counters.software_store_levels += self.tree.levels();
            if self.bitmaps[place as usize].ranges() < self.options.from_bitmap_below {
                counters.from_bitmap += 1;
                let bits = self.bitmaps[place as usize].clone();
                self.drop_bitmap(entry.start);
                self.tree.set_block(entry.start / BLOCK_BYTES, bits);
            }
            return;
        }
        for (range, watched) in entry.runs() {
            counters.software_stores += 1;
            counters.software_store_levels += self.tree.levels();
            self.store(range, watched, counters);
        }
    }

    fn drop_bitmap(&mut self, block: u64) {
        if let Some(place) = self.places.remove(&block) {
            self.blocks.remove(&block);
            self.unused.push(place);
        }
    }

    /// Stores a range where it belongs in memory: in bitmaps where its blocks are such, else in the tree.
    fn store(&mut self, range: Range<u64>, watched: Watched, counters: &mut Counters) {
        let mut at = range.start;
        let first = range.start & !(BLOCK_BYTES - 1);
        let blocks: Vec<u64> = self.blocks.range(first..range.end).copied().collect();
        for block in blocks {
            let end = block + BLOCK_BYTES;
            if range.start <= block && range.end >= end {
                self.drop_bitmap(block);
                continue;
            }
            let (from, to) = (range.start.max(block), range.end.min(end));
            if at < from {
                self.tree.set(at..from, watched);
            }
            let place = self.places[&block];
            self.bitmaps[place as usize].change(from - block, to - block, Change::Set(watched));
            counters.bitmap_bytes += (to - from).div_ceil(4);
            at = to;
        }
        if at < range.end {
            self.tree.set(at..range.end, watched);
        }
    }

    /// The miss handler: brings in what is known about `addr`.
    #[inline(never)]
    fn load(&mut self, addr: u64, counters: &mut Counters) -> CachedRange {
        counters.misses += 1;
        counters.software_loads += 1;
        counters.software_load_levels += self.tree.levels();
        let block = addr & !(BLOCK_BYTES - 1);
        if self.options.bitmaps && (self.places.contains_key(&block) || self.becomes_bitmap(block, counters))
        {
            return self.load_bitmap(block, addr, counters);
        }
        let (mut range, watched) = self.tree.get(addr);
        if let Some(&before) = self.blocks.range(..addr).next_back() {
            range.start = range.start.max(before + BLOCK_BYTES);
        }
        if let Some(&next) = self.blocks.range(addr..).next() {
            range.end = range.end.min(next);
        }
        let space = self.cache.space(addr);
        let (start, end) = (range.start.max(space.start), range.end.min(space.end));
        let entry = CachedRange { start, end, status: CachedBits::Uniform(watched), dirty: false };
        self.insert(entry, counters);
        entry
    }

    /// Makes a block a bitmap if it has many ranges.
    fn becomes_bitmap(&mut self, block: u64, counters: &mut Counters) -> bool {
        // One range is no bitmap, whatever the options say.
        if self.tree.ranges_of_block(block / BLOCK_BYTES) <= self.options.to_bitmap_above.max(1) {
            return false;
        }
        let bits = self.tree.block(block / BLOCK_BYTES);
        self.tree.set(block..block + BLOCK_BYTES, Watched::NONE);
        counters.to_bitmap += 1;
        counters.bitmap_bytes += BLOCK_BYTES / 4;
        let place = match self.unused.pop() {
            Some(place) => {
                self.bitmaps[place as usize] = bits;
                place
            }
            None => {
                self.bitmaps.push(bits);
                self.bitmaps.len() as u32 - 1
            }
        };
        self.places.insert(block, place);
        self.blocks.insert(block);
        true
    }

    fn load_bitmap(&mut self, block: u64, addr: u64, counters: &mut Counters) -> CachedRange {
        let whole = block..block + BLOCK_BYTES;
        // What the cache knows better goes into the bitmap.
        while let Some(entry) = self.cache.first_in(&whole) {
            self.cache.remove(entry.start);
            let (from, to) = (entry.start.max(whole.start), entry.end.min(whole.end));
            self.write_back(&entry.part(from..to), counters);
            if entry.start < from {
                self.insert(entry.part(entry.start..from), counters);
            }
            if to < entry.end {
                self.insert(entry.part(to..entry.end), counters);
            }
        }
        let Some(&place) = self.places.get(&block) else {
            // The whole block was written as one range: it is no bitmap any more.
            return self.load(addr, counters);
        };
        self.lookaside.evict(&whole);
        let entry = CachedRange {
            start: whole.start,
            end: whole.end,
            status: CachedBits::Bitmap(place),
            dirty: false,
        };
        self.insert(entry, counters);
        entry
    }

    /// Changes a part of a bitmap that the cache has.
    fn change_bitmap(
        &mut self,
        entry: &CachedRange,
        place: u32,
        part: Range<u64>,
        change: Change,
        counters: &mut Counters,
    ) {
        let bits = &mut self.bitmaps[place as usize];
        bits.change(part.start - entry.start, part.end - entry.start, change);
        counters.bitmap_bytes += (part.end - part.start).div_ceil(4);
        self.lookaside.evict(&part);
        self.cache.update(entry.start, entry.status, true);
    }

    /// The entry of the cache that holds `addr`, where that is a bitmap that `range` does not replace as a whole.
    fn bitmap_in_part(&mut self, addr: u64, range: &Range<u64>) -> Option<(CachedRange, u32)> {
        if !self.options.bitmaps {
            return None;
        }
        let entry = self.cache.first_in(&(addr..addr + 1))?;
        let CachedBits::Bitmap(place) = entry.status else { return None };
        (entry.start < range.start || entry.end > range.end).then_some((entry, place))
    }

    /// `set local wp`. Returns whether that went through more than one entry or split one.
    fn set(&mut self, mut range: Range<u64>, watched: Watched, counters: &mut Counters) -> bool {
        let mut touched = 0;
        let mut split = false;
        if let Some((entry, place)) = self.bitmap_in_part(range.start, &range) {
            let end = range.end.min(entry.end);
            self.change_bitmap(&entry, place, range.start..end, Change::Set(watched), counters);
            range.start = end;
            touched += 1;
        }
        if !range.is_empty()
            && let Some((entry, place)) = self.bitmap_in_part(range.end - 1, &range)
        {
            self.change_bitmap(&entry, place, entry.start..range.end, Change::Set(watched), counters);
            range.end = entry.start;
            touched += 1;
        }
        if range.is_empty() {
            return touched > 1;
        }
        while let Some(entry) = self.cache.first_in(&range) {
            touched += 1;
            self.cache.remove(entry.start);
            split |= entry.start < range.start && entry.end > range.end;
            if entry.start < range.start {
                self.insert(entry.part(entry.start..range.start), counters);
            }
            if entry.end > range.end {
                self.insert(entry.part(range.end..entry.end), counters);
            }
        }
        let entry = CachedRange {
            start: range.start,
            end: range.end,
            status: CachedBits::Uniform(watched),
            dirty: true,
        };
        self.insert_merged(entry, counters);
        split || touched > 1
    }

    /// Makes an entry one with its neighbours where they have the same watchpoints, or fit into one on-chip bitmap.
    fn insert_merged(&mut self, mut entry: CachedRange, counters: &mut Counters) {
        loop {
            let before = self.cache.ending_at(entry.start);
            let after = self.cache.starting_at(entry.end);
            let one = [before, after].into_iter().flatten().find_map(|other| {
                let (first, second) = if other.start < entry.start { (other, entry) } else { (entry, other) };
                if matches!(other.status, CachedBits::Bitmap(_)) {
                    return None;
                }
                let len = second.end - first.start;
                let status =
                    if matches!(first.status, CachedBits::Uniform(_)) && first.status == second.status {
                        first.status
                    } else if len <= self.options.on_chip_bytes {
                        let low = first.bits(&(first.start..first.end));
                        let high = second.bits(&(second.start..second.end));
                        on_chip(low | high << (2 * (first.end - first.start)), len)
                    } else {
                        return None;
                    };
                let merged = CachedRange { start: first.start, end: second.end, status, dirty: true };
                Some((other.start, merged))
            });
            let Some((other, merged)) = one else { break };
            self.cache.remove(other);
            entry = merged;
        }
        self.insert(entry, counters);
    }

    /// `add local wp` and `rm local wp`.
    fn update(&mut self, range: Range<u64>, change: Change, counters: &mut Counters) -> bool {
        let mut at = range.start;
        let mut pieces = 0;
        let mut complex = false;
        while at < range.end {
            let entry = match self.cache.find(at) {
                Some(entry) => entry,
                None => self.load(at, counters),
            };
            let part = at..range.end.min(entry.end);
            at = part.end;
            pieces += 1;
            match entry.status {
                CachedBits::Bitmap(place) => self.change_bitmap(&entry, place, part, change, counters),
                _ => {
                    for (run, old) in entry.part(part).runs() {
                        let new = change.apply(old);
                        if new != old {
                            complex |= self.set(run, new, counters);
                        }
                    }
                }
            }
        }
        complex || pieces > 1
    }
}

/// A range cache, with or without the paper's bitmaps.
#[derive(Clone, Debug)]
pub struct RangeCache {
    options: RangeCacheOptions,
    cores: PerThread<CoreRanges>,
    counters: Counters,
}

impl RangeCache {
    /// A unit of these sizes.
    pub fn new(options: RangeCacheOptions) -> Self {
        let options = RangeCacheOptions {
            entries: options.entries.max(4),
            on_chip_bytes: options.on_chip_bytes.min(32),
            ..options
        };
        Self { options, cores: PerThread::new(), counters: Counters::default() }
    }

    /// `read rc entry`: the ranges that a thread's cache holds just now, by address, unwatched ones included; bitmaps as
    /// what all their bytes together are watched for.
    pub fn entries(&mut self, thread: ThreadId) -> Vec<(Range<u64>, Watched)> {
        let core = self.cores.get(thread, || CoreRanges::new(&self.options));
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(entry) = core.cache.first_in(&(at..u64::MAX)) {
            match entry.status {
                CachedBits::Bitmap(place) => {
                    let union = core.bitmaps[place as usize].union(0, BLOCK_BYTES);
                    all.push((entry.start..entry.end, union));
                }
                _ => all.extend(entry.runs()),
            }
            at = entry.end;
        }
        all
    }
}

impl WatchpointUnit for RangeCache {
    fn kind(&self) -> UnitKind {
        if self.options.bitmaps { UnitKind::RangeCacheBitmap } else { UnitKind::RangeCache }
    }

    #[inline]
    fn check(&mut self, thread: ThreadId, addr: u64, len: u64, kind: AccessKind) -> bool {
        let counters = &mut self.counters;
        counters.accesses += 1;
        let hit = Watched::hit_by(kind);
        if hit.is_none() {
            return false;
        }
        let core = self.cores.get(thread, || CoreRanges::new(&self.options));
        let end = addr.saturating_add(len);
        let mut at = addr;
        let mut fault = false;
        while at < end {
            let entry = match core.cache.find(at) {
                Some(entry) => entry,
                None => core.load(at, counters),
            };
            let stop = end.min(entry.end);
            fault |= match entry.status {
                CachedBits::Uniform(watched) => watched.meets(hit),
                CachedBits::OnChip(_) => {
                    let mask = 0x5555_5555_5555_5555 * u64::from(hit.bits());
                    entry.bits(&(at..stop)) & mask != 0
                }
                CachedBits::Bitmap(place) => {
                    for line in at / LINE_BYTES..=(stop - 1) / LINE_BYTES {
                        if !core.lookaside.use_line(line) {
                            counters.lookaside_misses += 1;
                            counters.hardware_loads += 1;
                        }
                    }
                    core.bitmaps[place as usize].meets(at - entry.start, stop - entry.start, hit)
                }
            };
            at = stop;
        }
        counters.faults += u64::from(fault);
        fault
    }

    fn change(&mut self, thread: ThreadId, range: Range<u64>, change: Change, origin: Origin) {
        let counters = &mut self.counters;
        counters.note_change(origin);
        if range.is_empty() {
            return;
        }
        let core = self.cores.get(thread, || CoreRanges::new(&self.options));
        let complex = match change {
            Change::Set(watched) => core.set(range, watched, counters),
            _ => core.update(range, change, counters),
        };
        counters.complex_updates += u64::from(complex);
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

//! All units give the same answers as a model with one byte of bits for each byte of memory.
//!
//! `MEMTAP_WATCH_OPS` is the number of random operations; `cargo xtask bench watch` makes 10^7 in a release build.

use memref::{AccessKind, ThreadId};
use watch_models::{
    Change, MemTracker, MemTrackerOptions, Mondriaan, MondriaanOptions, Origin, RangeCache,
    RangeCacheOptions, SoftwareMap, UnitKind, VirtualMemory, Watched, WatchpointUnit,
};

const BASE: u64 = 0x7f12_3456_0000 - 5 * 4096;
const BYTES: u64 = 20 * 4096;
const THREADS: u32 = 3;

/// A small generator of numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn units() -> Vec<Box<dyn WatchpointUnit>> {
    let small = RangeCacheOptions { entries: 4, ..RangeCacheOptions::hybrid() };
    let eager = RangeCacheOptions {
        entries: 8,
        to_bitmap_above: 2,
        from_bitmap_below: 6,
        lookaside_bytes: 128,
        on_chip_bytes: 16,
        ..RangeCacheOptions::hybrid()
    };
    let mut units: Vec<Box<dyn WatchpointUnit>> = UnitKind::ALL.into_iter().map(UnitKind::build).collect();
    units.push(Box::new(SoftwareMap::default()));
    units.push(Box::new(VirtualMemory::new(64)));
    units.push(Box::new(VirtualMemory::new(1 << 16)));
    units.push(Box::new(MemTracker::new(MemTrackerOptions { cache_bytes: 256, ways: 2 })));
    units.push(Box::new(Mondriaan::new(MondriaanOptions { entries: 5 })));
    units.push(Box::new(RangeCache::new(small)));
    units.push(Box::new(RangeCache::new(eager)));
    units
}

fn change(random: &mut Random) -> Change {
    let watched = Watched::from_bits(random.below(4) as u8);
    match random.below(4) {
        0 | 1 => Change::Set(watched),
        2 => Change::Add(watched),
        _ => Change::Remove(watched),
    }
}

/// The units after that many operations.
fn agree(ops: u64, seed: u64) -> Vec<Box<dyn WatchpointUnit>> {
    let mut random = Random(seed);
    let mut bytes = vec![vec![Watched::NONE; BYTES as usize]; THREADS as usize];
    let mut units = units();
    for op in 0..ops {
        let thread = random.below(THREADS.into()) as u32;
        let map = &mut bytes[thread as usize];
        let thread = ThreadId(thread);
        // Phases of large ranges, of fragments, and of both near each other.
        let place = match (op >> 12) % 3 {
            0 => random.below(BYTES),
            1 => 6 * 4096 + random.below(2 * 4096),
            _ => random.below(BYTES / 64) * 64,
        };
        if random.below(4) == 0 {
            let len = match random.below(8) {
                0 => random.below(BYTES),
                1 => 4096,
                2 | 3 => 64,
                _ => 1 + random.below(24),
            };
            let len = len.min(BYTES - place);
            let change = change(&mut random);
            let origin = if random.below(2) == 0 { Origin::Local } else { Origin::Remote };
            for byte in &mut map[place as usize..(place + len) as usize] {
                *byte = change.apply(*byte);
            }
            for unit in &mut units {
                unit.change(thread, BASE + place..BASE + place + len, change, origin);
            }
            continue;
        }
        let len = if random.below(16) == 0 { 1 + random.below(600) } else { 1 << random.below(7) };
        let len = len.min(BYTES - place);
        let kind = AccessKind::ALL[random.below(4) as usize];
        let hit = Watched::hit_by(kind);
        let expected = map[place as usize..(place + len) as usize].iter().any(|byte| byte.meets(hit));
        for unit in &mut units {
            let found = unit.check(thread, BASE + place, len, kind);
            assert_eq!(found, expected, "{:?}: {kind:?} of {len} at {place:#x}, operation {op}", unit.kind());
        }
    }
    // The runs reached what the units are there for.
    let counters = |kind: UnitKind| *units.iter().find(|unit| unit.kind() == kind).unwrap().counters();
    let hybrid = counters(UnitKind::RangeCacheBitmap);
    assert!(hybrid.to_bitmap > 0 && hybrid.lookaside_misses > 0 && hybrid.write_backs > 0);
    assert!(units.iter().any(|unit| unit.counters().from_bitmap > 0));
    assert!(counters(UnitKind::MemTracker).write_backs > 0);
    assert!(counters(UnitKind::Mondriaan).trie_scans > 0);
    assert!(counters(UnitKind::VirtualMemory).false_faults > 0);
    assert_eq!(counters(UnitKind::RangeCache).faults, counters(UnitKind::Software).faults);
    units
}

#[test]
fn units_agree_with_a_byte_map() {
    let ops = std::env::var("MEMTAP_WATCH_OPS").ok().and_then(|ops| ops.parse().ok()).unwrap_or(60_000);
    agree(ops, 0x1234_5678_9abc_def1);
}

/// What the models count is what they are for: a faster simulation counts the same. The file has what the first one did,
/// which went through a tree and through sorted lists; a model that changes changes its line.
#[test]
fn units_count_what_they_always_did() {
    let units = agree(30_000, 0x0fed_cba9_8765_4321);
    let counted: String =
        units.iter().map(|unit| format!("{} {:?}\n", unit.kind().name(), unit.counters())).collect();
    assert_eq!(counted, include_str!("counters.txt"));
}

#[test]
fn both_ends_of_a_program_s_addresses_are_watched() {
    for unit in &mut units() {
        let thread = ThreadId(0);
        let end = 0x7fff_ffff_f000_u64;
        unit.set(thread, end..end + 64, Watched::WRITE);
        assert!(unit.check(thread, end + 63, 8, AccessKind::Store), "{:?}", unit.kind());
        assert!(!unit.check(thread, end + 64, 8, AccessKind::Store), "{:?}", unit.kind());
        unit.set(thread, 0..1, Watched::READ);
        assert!(unit.check(thread, 0, 1, AccessKind::Load), "{:?}", unit.kind());
        assert!(!unit.check(thread, 0, 1, AccessKind::Store), "{:?}", unit.kind());
    }
}

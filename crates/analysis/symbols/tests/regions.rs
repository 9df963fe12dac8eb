//! The region map against a model by page, and the resolver's caches against a resolver without any.

mod support;

use std::collections::HashMap;

use memref::{Allocation, AllocationKind, RegionChange, RegionEvent, RegionKind, VirtAddr};
use proptest::prelude::*;
use support::{allocation, region, resolver};
use symbols::{RegionMap, SearchPath};

const PAGES: u64 = 24;
const BASE: u64 = 0x7000_0000;

fn event() -> impl Strategy<Value = RegionEvent<String>> {
    let kinds = prop::sample::select(vec![RegionKind::Heap, RegionKind::Anonymous, RegionKind::Stack]);
    (prop::sample::select(RegionChange::ALL), kinds, 0..PAGES, 0..8u64, 0..4u8).prop_map(
        |(change, kind, start, len, rights)| RegionEvent {
            rights,
            name: if kind == RegionKind::Heap { "[heap]".into() } else { String::new() },
            ..region(1, change, kind, BASE + start * 4096, len.min(PAGES - start) * 4096)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn as_a_map_of_pages(events in prop::collection::vec(event(), 0..40)) {
        let mut map = RegionMap::default();
        let mut model: HashMap<u64, (RegionKind, u8)> = HashMap::new();
        for event in &events {
            map.apply(event);
            for page in (event.start.0..event.start.0 + event.len).step_by(4096) {
                let place = model.get_mut(&page);
                match (event.change, place) {
                    (RegionChange::Unmap, _) => { model.remove(&page); }
                    (RegionChange::Map, _) => { model.insert(page, (event.kind, event.rights)); }
                    (RegionChange::Change, Some(place)) => *place = (event.kind, event.rights),
                    (RegionChange::Change, None) => {}
                }
            }
            for page in 0..PAGES {
                let addr = BASE + page * 4096;
                let found = map.find(VirtAddr(addr + 5)).and_then(|id| map.region(id));
                prop_assert_eq!(found.map(|r| (r.kind, r.rights)), model.get(&addr).copied());
                prop_assert!(found.is_none_or(|r| r.start.0 <= addr && addr < r.start.0 + r.len && r.until.is_none()));
                let (start, end, same) = map.find_range(VirtAddr(addr));
                prop_assert!(start.0 <= addr && addr < end.0);
                prop_assert_eq!(same, map.find(VirtAddr(addr)));
            }
            let ranges: Vec<_> = map.ranges().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }

    #[test]
    fn cached_answers_are_never_stale(
        steps in prop::collection::vec((0..6u8, event(), 0..PAGES * 32, 0..600u64, prop::collection::vec(0..PAGES * 4096, 1..20)), 1..40)
    ) {
        let mut cached = resolver(SearchPath::default());
        let mut kept = Vec::new();
        for (what, region_event, addr, len, asked) in &steps {
            let addr = BASE + addr * 128;
            match what {
                0 => cached.apply_region(region_event),
                1 | 2 => { cached.apply_allocation(&allocation(AllocationKind::Malloc, 0x1000, addr, *len)); }
                3 => { cached.apply_allocation(&allocation(AllocationKind::Free, 0x1000, addr, 0)); }
                4 => {
                    let old_addr = VirtAddr(BASE + (addr - BASE) / 2 / 128 * 128);
                    let event = Allocation { old_addr, ..allocation(AllocationKind::Realloc, 0x1000, addr, *len) };
                    cached.apply_allocation(&event);
                }
                _ => {
                    let event = allocation(AllocationKind::Munmap, 0x1000, addr & !4095, *len * 16);
                    cached.apply_allocation(&event);
                }
            }
            // A forked copy begins with empty caches.
            let mut fresh = cached.fork(cached.process());
            for offset in asked {
                let addr = VirtAddr(BASE + offset);
                prop_assert_eq!(cached.resolve_data(addr), fresh.resolve_data(addr));
                let (variable, range) = match len % 2 {
                    0 => cached.data_range(addr),
                    _ => cached.whole_data_range(addr),
                };
                prop_assert!(range.contains(&addr));
                let part = addr..range.end.min(addr.offset(len * 16 + 1));
                kept.push((part, cached.data_version(), variable));
            }
            // What is said to hold still does, at each place where it could have ended.
            for (range, version, variable) in &kept {
                if cached.holds_since(range.clone(), *version) {
                    let first = range.start.0;
                    for byte in [first, range.end.0 - 1].into_iter().chain((first / 128 * 128 + 128..range.end.0).step_by(128)) {
                        prop_assert_eq!(fresh.resolve_data(VirtAddr(byte)).variable, *variable);
                    }
                }
                prop_assert!(!fresh.holds_since(range.clone(), *version), "it is another resolver");
            }
        }
        prop_assert!(kept.iter().rev().take(1).all(|(range, version, _)| cached.holds_since(range.clone(), *version)));
    }
}

#[test]
fn the_heap_grows_as_one_region() {
    let mut map = RegionMap::default();
    let heap = |start, len| RegionEvent {
        name: "[heap]".into(),
        ..region(1, RegionChange::Map, RegionKind::Heap, start, len)
    };
    let first = map.apply(&heap(0x10000, 0x1000));
    assert_eq!(map.apply(&heap(0x11000, 0x2000)), first);
    assert_eq!(map.region(first.unwrap()).unwrap().len, 0x3000);
    assert_eq!(map.find(VirtAddr(0x12fff)), first);
    map.apply(&region(7, RegionChange::Unmap, RegionKind::Heap, 0x12000, 0x1000));
    assert_eq!(map.find(VirtAddr(0x12fff)), None);
    assert_eq!(map.region(first.unwrap()).unwrap().until, None);
    map.apply(&region(8, RegionChange::Unmap, RegionKind::Heap, 0x10000, 0x2000));
    assert_eq!(map.region(first.unwrap()).unwrap().until, Some(8));
}

#[test]
fn a_change_keeps_the_name_and_the_place_in_the_file() {
    let mut map = RegionMap::default();
    let mapped = RegionEvent {
        name: "/some/file".into(),
        file_offset: 0x4000,
        ..region(1, RegionChange::Map, RegionKind::File, 0x10000, 0x3000)
    };
    map.apply(&mapped);
    map.apply(&RegionEvent {
        rights: 1,
        ..region(2, RegionChange::Change, RegionKind::Rodata, 0x11000, 0x1000)
    });
    let at = |addr| map.find(VirtAddr(addr)).and_then(|id| map.region(id)).unwrap();
    assert_eq!(
        (&*at(0x11000).name, at(0x11000).file_offset, at(0x11000).kind),
        ("/some/file", 0x5000, RegionKind::Rodata)
    );
    assert_eq!(at(0x10000).kind, RegionKind::File);
    assert_eq!(at(0x12000).kind, RegionKind::File);
}

#[test]
fn ranges_at_the_end_of_the_address_space() {
    let mut map = RegionMap::default();
    map.apply(&region(1, RegionChange::Map, RegionKind::Anonymous, u64::MAX - 100, u64::MAX));
    assert!(map.find(VirtAddr(u64::MAX - 50)).is_some());
    map.apply(&region(2, RegionChange::Unmap, RegionKind::Anonymous, 0, u64::MAX));
    assert!(map.find(VirtAddr(u64::MAX - 50)).is_none());
}

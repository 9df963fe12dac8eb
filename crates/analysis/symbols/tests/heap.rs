//! The heap map against a model that writes down the owner of each byte.

mod support;

use std::collections::HashMap;

use memref::{Allocation, AllocationKind, VirtAddr};
use proptest::prelude::*;
use support::allocation;
use symbols::{BlockId, BlockState, HeapChange, HeapMap};

/// Addresses of the model: four pages, which lie across the border of two of the tree's nodes.
const BASE: u64 = (1 << 30) - 2 * 4096;
const BYTES: u64 = 4 * 4096;

#[derive(Clone, Default)]
struct Model {
    bytes: HashMap<u64, (u32, BlockState)>,
    starts: Vec<u64>,
    lens: Vec<u64>,
}

impl Model {
    fn live_at(&self, addr: u64) -> Option<u32> {
        let (block, state) = *self.bytes.get(&addr)?;
        (state == BlockState::Live && self.starts[block as usize] == addr).then_some(block)
    }

    fn release(&mut self, block: u32) {
        for owner in self.bytes.values_mut().filter(|owner| **owner == (block, BlockState::Live)) {
            owner.1 = BlockState::Freed;
        }
    }

    fn unmap(&mut self, addr: u64, len: u64) {
        for at in addr..(addr + len).next_multiple_of(4096) {
            if let Some(owner) = self.bytes.get_mut(&at).filter(|owner| owner.1 == BlockState::Live) {
                owner.1 = BlockState::Unmapped;
            }
        }
    }

    fn allocate(&mut self, addr: u64, len: u64, bytes: u64) {
        let block = self.starts.len() as u32;
        self.starts.push(addr);
        self.lens.push(len);
        for at in addr..addr + bytes {
            self.bytes.insert(at, (block, BlockState::Live));
        }
    }

    fn apply(&mut self, event: &Allocation) {
        let (addr, len) = (event.addr.0, event.len);
        match event.kind {
            AllocationKind::Malloc | AllocationKind::Calloc => self.allocate(addr, len, len.max(1)),
            AllocationKind::Mmap => self.allocate(addr, len, len.next_multiple_of(4096)),
            AllocationKind::Realloc => {
                if let Some(old) = self.live_at(event.old_addr.0) {
                    self.release(old);
                }
                self.allocate(addr, len, len.max(1));
            }
            AllocationKind::Mremap => {
                self.unmap(event.old_addr.0, event.old_len);
                self.allocate(addr, len, len.next_multiple_of(4096));
            }
            AllocationKind::Free => {
                if let Some(block) = self.live_at(addr) {
                    self.release(block);
                }
            }
            AllocationKind::Munmap => self.unmap(addr, len),
            AllocationKind::Brk => {}
        }
    }

    fn check(&self, map: &HeapMap) {
        for at in BASE - 8..BASE + BYTES + 8 {
            let hit = map.get(VirtAddr(at));
            let expect = self
                .bytes
                .get(&at)
                .map(|&(block, state)| (BlockId(block), at - self.starts[block as usize], state));
            assert_eq!(hit.map(|hit| (hit.block, hit.offset, hit.state)), expect, "{at:#x}");
            let (start, end, same) = map.get_span(VirtAddr(at));
            assert!(start.0 <= at && at < end.0);
            assert_eq!(same, hit);
            for other in [start.0, end.0 - 1] {
                let other = map.get(VirtAddr(other)).map(|hit| (hit.block, hit.state));
                assert_eq!(
                    other,
                    hit.map(|hit| (hit.block, hit.state)),
                    "one answer in the range around {at:#x}"
                );
            }
        }
        assert_eq!(map.block_count(), self.starts.len());
        for (id, block) in map.blocks() {
            assert_eq!((block.start.0, block.len), (self.starts[id.0 as usize], self.lens[id.0 as usize]));
        }
    }
}

fn event() -> impl Strategy<Value = Allocation> {
    let kinds = prop::sample::select(AllocationKind::ALL);
    // Few addresses, so that releases meet blocks; now and then all of them.
    let addr = prop_oneof![4 => (0u64..16).prop_map(|n| n * 512), 1 => 0..BYTES - 1];
    let len = prop_oneof![Just(0u64), 1..80u64, Just(512u64), Just(4096u64), 1..9000u64];
    (kinds, addr.clone(), len.clone(), addr, len).prop_map(|(kind, addr, len, old, old_len)| {
        let maps = matches!(kind, AllocationKind::Mmap | AllocationKind::Mremap | AllocationKind::Munmap);
        let align = |addr: u64| if maps { addr & !4095 } else { addr };
        let fit = |addr: u64, len: u64| len.min(BYTES - addr);
        let (addr, old) = (align(addr), align(old));
        let mut event = allocation(kind, 0x1000, BASE + addr, fit(addr, len));
        event.old_addr = VirtAddr(BASE + old);
        event.old_len = fit(old, old_len);
        event
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn as_a_map_of_bytes(before in prop::collection::vec(event(), 0..40), after in prop::collection::vec(event(), 0..20)) {
        let (mut map, mut model) = (HeapMap::new(), Model::default());
        for event in &before {
            map.apply(event);
            model.apply(event);
        }
        model.check(&map);
        // A child goes its own way; neither sees what the other does.
        let (mut child, mut child_model) = (map.clone(), model.clone());
        for (index, event) in after.iter().enumerate() {
            if index % 2 == 0 {
                child.apply(event);
                child_model.apply(event);
            } else {
                map.apply(event);
                model.apply(event);
            }
        }
        model.check(&map);
        child_model.check(&child);
    }

    #[test]
    fn any_event_is_survived(
        kind in prop::sample::select(AllocationKind::ALL),
        addr in any::<u64>(),
        len in any::<u64>(),
        old in any::<u64>(),
        old_len in any::<u64>(),
    ) {
        let mut map = HeapMap::new();
        let mut event = allocation(kind, 1, addr, len);
        (event.old_addr, event.old_len) = (VirtAddr(old), old_len);
        map.apply(&event);
        map.apply(&Allocation { kind: AllocationKind::Munmap, addr: VirtAddr(0), len: u64::MAX, ..event });
        prop_assert!(map.get(VirtAddr(addr)).is_none_or(|hit| hit.state != BlockState::Live));
    }
}

#[test]
fn what_events_say() {
    let mut map = HeapMap::new();
    let mut apply = |kind, addr, len, old: u64| {
        let event = Allocation { old_addr: VirtAddr(old), ..allocation(kind, 0x1000, addr, len) };
        map.apply(&event)
    };
    use AllocationKind::{Brk, Free, Malloc, Realloc};
    assert_eq!(apply(Malloc, 0x5000, 32, 0), HeapChange::Allocated(BlockId(0)));
    assert_eq!(apply(Free, 0x5001, 0, 0), HeapChange::Unknown);
    assert_eq!(apply(Free, 0x5000, 0, 0), HeapChange::Released(BlockId(0)));
    assert_eq!(apply(Free, 0x5000, 0, 0), HeapChange::FreedTwice(BlockId(0)));
    assert_eq!(apply(Free, 0x9000, 0, 0), HeapChange::Unknown);
    assert_eq!(apply(Malloc, 0x5000, 32, 0), HeapChange::Allocated(BlockId(1)));
    assert_eq!(apply(Realloc, 0x5000, 16, 0x5000), HeapChange::Replaced { old: BlockId(1), new: BlockId(2) });
    assert_eq!(apply(Realloc, 0x6000, 16, 0), HeapChange::Allocated(BlockId(3)));
    assert_eq!(apply(Brk, 0x7000, 16, 0x6000), HeapChange::Ignored);
    // Shrunk in place: the tail is the old block's, released.
    let tail = map.get(VirtAddr(0x5010)).unwrap();
    assert_eq!((tail.block, tail.offset, tail.state), (BlockId(1), 16, BlockState::Freed));
    assert!(map.is_live(BlockId(2)) && !map.is_live(BlockId(1)));
    assert_eq!(map.forged_name(BlockId(2), BlockState::Live, "f+1").as_deref(), Some("<reallo0003@f+1>"));
    assert_eq!(map.forged_name(BlockId(9), BlockState::Live, "f+1"), None);
}

#[test]
fn blocks_of_no_bytes_have_an_address() {
    let mut map = HeapMap::new();
    map.apply(&allocation(AllocationKind::Malloc, 1, 0x5000, 0));
    assert_eq!(map.get(VirtAddr(0x5000)).unwrap().block, BlockId(0));
    assert_eq!(map.get(VirtAddr(0x5001)), None);
    assert_eq!(map.apply(&allocation(AllocationKind::Free, 1, 0x5000, 0)), HeapChange::Released(BlockId(0)));
}

#[test]
fn a_part_of_a_mapping_is_released() {
    let mut map = HeapMap::new();
    map.apply(&allocation(AllocationKind::Mmap, 1, 0x10000, 0x3000));
    map.apply(&allocation(AllocationKind::Munmap, 1, 0x11000, 0x1000));
    let state = |addr| map.get(VirtAddr(addr)).map(|hit| (hit.offset, hit.state));
    assert_eq!(state(0x10fff), Some((0xfff, BlockState::Live)));
    assert_eq!(state(0x11000), Some((0x1000, BlockState::Unmapped)));
    assert_eq!(state(0x12000), Some((0x2000, BlockState::Live)));
    assert_eq!(state(0x13000), None);
}

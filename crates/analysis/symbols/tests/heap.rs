//! The heap map against a model that records the owner of each byte.

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
    /// Bytes with those that the allocator added.
    extents: Vec<u64>,
    /// Blocks lay as those of the GNU C library can't.
    slots: bool,
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
        self.extents.push(bytes);
        for at in addr..addr + bytes {
            self.bytes.insert(at, (block, BlockState::Live));
        }
    }

    /// A mapping has what is left of its last page; that is nothing that an allocator gave.
    fn map(&mut self, addr: u64, len: u64) {
        self.allocate(addr, len, len.next_multiple_of(4096));
        *self.extents.last_mut().unwrap() = len.max(1);
    }

    /// The bytes of a new block: those asked for, and as many of the rule's as are no other's.
    fn usable(&mut self, addr: u64, len: u64) -> u64 {
        let at = self.bytes.get(&addr).copied();
        let begins = at.filter(|&(block, _)| self.starts[block as usize] == addr);
        if let Some((block, BlockState::Live)) = at {
            self.slots |= addr - self.starts[block as usize] >= self.lens[block as usize].max(1);
        }
        self.slots |= !addr.is_multiple_of(16);
        let old = begins.map_or(0, |(block, _)| self.extents[block as usize]);
        let gnu = ((len + 8).next_multiple_of(16) - 8).max(24);
        let wanted = match (self.slots, old == gnu + 16) {
            (false, true) => old,
            (false, false) => gnu,
            (true, _) => gnu.max(old),
        };
        let mut end = addr + len.max(1);
        while end < addr + wanted {
            if let Some(&(block, state)) = self.bytes.get(&end) {
                self.slots |= state == BlockState::Live;
                if state == BlockState::Live || self.slots && self.starts[block as usize] == end {
                    break;
                }
            }
            end += 1;
        }
        end - addr
    }

    fn apply(&mut self, event: &Allocation) {
        let (addr, len) = (event.addr.0, event.len);
        match event.kind {
            AllocationKind::Malloc | AllocationKind::Calloc => {
                let usable = self.usable(addr, len);
                self.allocate(addr, len, usable);
            }
            AllocationKind::Mmap => self.map(addr, len),
            AllocationKind::Realloc => {
                if let Some(old) = self.live_at(event.old_addr.0) {
                    self.release(old);
                }
                let usable = self.usable(addr, len);
                self.allocate(addr, len, usable);
            }
            AllocationKind::Mremap => {
                self.unmap(event.old_addr.0, event.old_len);
                self.map(addr, len);
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
    assert_eq!(apply(Malloc, 0x8000, 32, 0), HeapChange::Allocated(BlockId(4)));
    assert_eq!(apply(Free, 0x8000, 0, 0), HeapChange::Released(BlockId(4)));
    let grown = HeapChange::AllocatedForFreed { freed: BlockId(4), new: BlockId(5) };
    assert_eq!(apply(Realloc, 0x8000, 64, 0x8000), grown);
    // Shrunk in place: the tail is the old block's, released. 16 bytes more than 24 are too few for a block of their own.
    let tail = |at| map.get(VirtAddr(at)).map(|hit| (hit.block, hit.offset, hit.state));
    assert_eq!(tail(0x5027), Some((BlockId(2), 39, BlockState::Live)));
    assert_eq!(tail(0x5028), None);
    assert!(map.is_live(BlockId(2)) && !map.is_live(BlockId(1)));
    assert_eq!(map.forged_name(BlockId(2), BlockState::Live, "f+1").as_deref(), Some("<reallo0003@f+1>"));
    assert_eq!(map.forged_name(BlockId(9), BlockState::Live, "f+1"), None);
}

#[test]
fn blocks_of_no_bytes_have_an_address() {
    let mut map = HeapMap::new();
    map.apply(&allocation(AllocationKind::Malloc, 1, 0x5000, 0));
    assert_eq!(map.get(VirtAddr(0x5000)).unwrap().block, BlockId(0));
    assert_eq!(map.get(VirtAddr(0x5017)).map(|hit| hit.offset), Some(0x17));
    assert_eq!(map.get(VirtAddr(0x5018)), None);
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

/// `malloc_usable_size` of a block says what is its own; what was there before is not seen in it.
#[test]
fn what_was_rounded_up_is_no_released_memory() {
    let mut map = HeapMap::new();
    map.apply(&allocation(AllocationKind::Malloc, 1, 0x5000, 104));
    map.apply(&allocation(AllocationKind::Free, 1, 0x5000, 0));
    map.apply(&allocation(AllocationKind::Malloc, 1, 0x5000, 33));
    let at = |addr| map.get(VirtAddr(addr)).map(|hit| (hit.block.0, hit.state));
    assert_eq!(at(0x5000 + 39), Some((1, BlockState::Live)));
    assert_eq!(at(0x5000 + 40), Some((0, BlockState::Freed)));
}

/// Blocks of 8 bytes, one after the other, are none of the GNU C library.
#[test]
fn another_allocator_rounds_otherwise() {
    let mut map = HeapMap::new();
    for start in [0x5000, 0x5008, 0x5010] {
        map.apply(&allocation(AllocationKind::Malloc, 1, start, 8));
    }
    map.apply(&allocation(AllocationKind::Free, 1, 0x5008, 0));
    let at = |map: &HeapMap, addr| map.get(VirtAddr(addr)).map(|hit| (hit.block.0, hit.state));
    assert_eq!(at(&map, 0x5007), Some((0, BlockState::Live)));
    assert_eq!(at(&map, 0x5008), Some((1, BlockState::Freed)));
    map.apply(&allocation(AllocationKind::Malloc, 1, 0x5008, 5));
    assert_eq!(at(&map, 0x500f), Some((3, BlockState::Live)));
    assert_eq!(at(&map, 0x5010), Some((2, BlockState::Live)));
}

#[test]
fn memory_that_is_mapped_anew_is_no_released_memory() {
    let mut map = HeapMap::new();
    map.apply(&allocation(AllocationKind::Mmap, 1, 0x10000, 0x2000));
    map.apply(&allocation(AllocationKind::Munmap, 1, 0x10000, 0x1000));
    map.forget_released(VirtAddr(0x10000), 0x2000);
    assert_eq!(map.get(VirtAddr(0x10000)), None);
    assert_eq!(map.get(VirtAddr(0x11000)).map(|hit| hit.state), Some(BlockState::Live));
}

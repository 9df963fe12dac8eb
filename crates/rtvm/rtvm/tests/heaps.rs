//! TLSF over both models: the heap stays whole, blocks do not overlap, pages are mapped and unmapped as they should.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use rtvm::model::{ModelHeap, ModelMemory, Paging};
use rtvm::replay::{Action, ReplayOptions, Sizes, Synthetic, with_replay};
use rtvm::tlsf::{MIN_BLOCK, TAG_BYTES};
use rtvm::{AddressSpace, BitTrie, Conventional, Error, Mmu, PhysicalMemory, Random, Rights, SpaceWords};

type Frames = RefCell<PhysicalMemory<Vec<u32>>>;

fn trie(pages: u32) -> BitTrie<Vec<u64>> {
    BitTrie::new(vec![0; BitTrie::<Vec<u64>>::words_for(pages)], pages)
}

fn rtmmu(pages: u32) -> AddressSpace<Vec<u32>, BitTrie<Vec<u64>>> {
    let some = || vec![3; pages as usize];
    let words = SpaceWords {
        cache: some(),
        helper: some(),
        stack: some(),
        table: some(),
        pointers: vec![0; pages as usize],
        region_pages: some(),
        region_starts: some(),
        region_frames: some(),
    };
    AddressSpace::new(trie(pages), words)
}

fn conventional(pages: u32) -> Conventional<Vec<u32>, BitTrie<Vec<u64>>> {
    Conventional::new(trie(pages), vec![0; pages as usize], vec![0; pages as usize])
}

fn frames(count: u32) -> Frames {
    RefCell::new(PhysicalMemory::new(vec![0; count as usize]))
}

/// Live blocks: payload to bytes that can be used, which are not less than were asked for.
type Live = BTreeMap<u64, u64>;

fn no_overlap(live: &Live, addr: u64, bytes: u64, heap_bytes: u64) {
    assert!(addr >= TAG_BYTES && addr + bytes <= heap_bytes);
    if let Some((&before, &len)) = live.range(..=addr).next_back() {
        assert!(before + len + TAG_BYTES <= addr, "{before:#x} + {len} and {addr:#x}");
    }
    if let Some((&next, _)) = live.range(addr..).next() {
        assert!(addr + bytes + TAG_BYTES <= next);
    }
}

/// Pages that a heap with these blocks may have mapped when every free is immediate: those that blocks lie in, and the
/// tags of the free blocks between them. This is the bound that docs/rtvm.md states.
fn bound(live: &Live, page: u64) -> u64 {
    let blocks: u64 = live.values().map(|bytes| (bytes + MIN_BLOCK).div_ceil(page) + 1).sum();
    blocks + 2 * (live.len() as u64 + 1)
}

type Trie = BitTrie<Vec<u64>>;
type Immediate = AddressSpace<Vec<u32>, Trie>;
type Lazy = Conventional<Vec<u32>, Trie>;

struct Pair<'a> {
    immediate: ModelHeap<'a, Immediate, Vec<u32>>,
    lazy: ModelHeap<'a, Lazy, Vec<u32>>,
    live: Live,
}

fn one_access<P: Paging>(heap: &mut ModelHeap<'_, P, Vec<u32>>, addr: u64) {
    heap.memory_mut().access(addr, Rights::WRITE).expect("a block can be written");
}

impl Pair<'_> {
    fn step(&mut self, random: &mut Random, most: u64, page: u64) {
        let some = (!self.live.is_empty()).then(|| {
            let which = random.below(self.live.len() as u64) as usize;
            let (&addr, &bytes) = self.live.iter().nth(which).expect("in range");
            (addr, bytes)
        });
        let largest = [most, 100, 3 * page][random.below(3) as usize];
        let bytes = random.below(largest + 1);
        let heap_bytes = self.immediate.bytes();
        match (random.below(12), some) {
            (0..=2, _) => {
                let align = 16 << random.below(12).saturating_sub(6);
                let (a, b) = (self.immediate.memalign(align, bytes), self.lazy.memalign(align, bytes));
                assert_eq!(a, b, "both systems choose the same block");
                if let Ok(addr) = a {
                    assert_eq!(addr % align, 0);
                    let usable = self.immediate.usable(addr).unwrap();
                    assert!(usable >= bytes);
                    no_overlap(&self.live, addr, usable, heap_bytes);
                    self.live.insert(addr, usable);
                }
            }
            (3..=5, Some((addr, _))) => {
                self.live.remove(&addr);
                assert_eq!(self.immediate.free(addr), Ok(()));
                assert_eq!(self.lazy.free(addr), Ok(()));
                let again = self.immediate.free(addr);
                assert!(
                    matches!(again, Err(Error::AlreadyFree { .. } | Error::NotABlock { .. })),
                    "{again:?}"
                );
            }
            (6, Some((addr, _))) => {
                let (a, b) = (self.immediate.realloc(addr, bytes), self.lazy.realloc(addr, bytes));
                assert_eq!(a, b);
                if let Ok(moved) = a {
                    self.live.remove(&addr);
                    let usable = self.immediate.usable(moved).unwrap();
                    assert!(usable >= bytes);
                    no_overlap(&self.live, moved, usable, heap_bytes);
                    self.live.insert(moved, usable);
                }
            }
            (_, Some((addr, bytes))) if bytes > 0 => {
                let addr = addr + random.below(bytes);
                one_access(&mut self.immediate, addr);
                one_access(&mut self.lazy, addr);
            }
            _ => {}
        }
        let mapped = self.immediate.memory().paging().mapped();
        assert!(mapped <= self.lazy.memory().paging().mapped(), "never above the conventional system");
        assert!(u64::from(mapped) <= bound(&self.live, page), "{mapped} pages, {:?}", self.live);
    }

    fn check(&mut self) {
        let a = self.immediate.check().expect("whole");
        assert_eq!(Ok(a), self.lazy.check());
        assert_eq!(a.used_blocks, self.live.len() as u64);
        assert_eq!(a.used_bytes + a.free_bytes, self.immediate.bytes());
    }
}

fn long_run(page_bits: u32, pages: u32, steps: u32, seed: u64, most: u64) {
    let (a, b) = (frames(pages), frames(pages));
    let mut pair = Pair {
        immediate: ModelMemory::heap(rtmmu(pages), &a, page_bits, pages).unwrap(),
        lazy: ModelMemory::heap(conventional(pages), &b, page_bits, pages).unwrap(),
        live: Live::new(),
    };
    let mut random = Random::new(seed);
    for round in 0..steps {
        pair.step(&mut random, most, 1 << page_bits);
        if round % 1000 == 0 {
            pair.check();
        }
    }
    for (addr, _) in std::mem::take(&mut pair.live) {
        pair.immediate.free(addr).unwrap();
        pair.lazy.free(addr).unwrap();
    }
    pair.check();
    assert_eq!((a.borrow().used(), b.borrow().used()), (1, 1), "the page of the first tag is left");
    assert_eq!(pair.immediate.check().unwrap().free_blocks, 1);
}

#[test]
fn both_heaps_stay_whole_over_long_runs() {
    long_run(12, 512, 200_000, 1, 200_000);
    long_run(12, 64, 100_000, 2, 20_000);
    // Pages that are hardly larger than a tag, so that tags cross pages all the time.
    long_run(6, 4096, 200_000, 3, 3000);
    long_run(16, 256, 50_000, 4, 1 << 20);
}

proptest! {
    #[test]
    fn both_heaps_stay_whole(seed in any::<u64>(), page_bits in 6u32..14, most in 1u64..100_000) {
        long_run(page_bits, 300, 300, seed, most);
    }
}

#[test]
fn without_frames_nothing_changes() {
    let memory = frames(3);
    let mut heap = ModelMemory::heap(rtmmu(1000), &memory, 12, 1000).unwrap();
    // The tags after these need a frame each.
    let a = heap.malloc(10_000).unwrap();
    let b = heap.malloc(10_000).unwrap();
    assert_eq!(memory.borrow().free(), 0);
    let before = heap.check().unwrap();
    assert_eq!(heap.malloc(10_000), Err(Error::OutOfFrames));
    assert_eq!(heap.memalign(8192, 10), Err(Error::OutOfFrames));
    assert_eq!(heap.check(), Ok(before));
    assert_eq!(memory.borrow().used(), 3);
    assert_eq!(heap.memory_mut().access(a + 5000, Rights::WRITE), Err(Error::OutOfFrames));
    // A free needs no frame, and gives the next one what it needs.
    heap.free(b).unwrap();
    heap.malloc(10_000).unwrap();
    heap.free(a).unwrap();
    heap.check().unwrap();
}

#[test]
fn without_frames_the_conventional_heap_stays_whole_too() {
    let memory = frames(3);
    let mut heap = ModelMemory::heap(conventional(1000), &memory, 12, 1000).unwrap();
    let a = heap.malloc(10_000).unwrap();
    heap.malloc(10_000).unwrap();
    let before = heap.check().unwrap();
    assert_eq!(heap.malloc(10_000), Err(Error::OutOfFrames));
    assert_eq!(heap.check(), Ok(before));
    heap.free(a).unwrap();
    heap.check().unwrap();
}

#[test]
fn wrong_calls_are_errors() {
    let memory = frames(100);
    let mut heap = ModelMemory::heap(rtmmu(100), &memory, 12, 100).unwrap();
    let a = heap.malloc(100).unwrap();
    let b = heap.malloc(5000).unwrap();
    let before = heap.check().unwrap();
    for addr in [0, 1, 8, a + 1, a + 16, b - 16, b + 4096, 100 << 12, u64::MAX, u64::MAX - 15] {
        assert_eq!(heap.free(addr), Err(Error::NotABlock { addr }));
        assert_eq!(heap.realloc(addr, 10), Err(Error::NotABlock { addr }));
        assert_eq!(heap.usable(addr), Err(Error::NotABlock { addr }));
    }
    for bytes in [100 << 12, u64::MAX, u64::MAX - 20, 1 << 62] {
        assert_eq!(heap.malloc(bytes), Err(Error::OutOfAddressSpace { bytes }));
        assert_eq!(heap.realloc(a, bytes), Err(Error::OutOfAddressSpace { bytes }));
    }
    for align in [0, 3, 24, 1 << 63] {
        assert_eq!(heap.memalign(align, 1), Err(Error::BadAlignment { align }));
    }
    assert_eq!(heap.check(), Ok(before));
    heap.free(b).unwrap();
    assert!(heap.free(b).is_err());
    assert!(matches!(heap.memory_mut().access(b + 8192, Rights::READ), Err(Error::NoRegion { .. })));
}

#[test]
fn a_release_gives_back_every_whole_page_at_once() {
    let memory = frames(10_000);
    let mut heap = ModelMemory::heap(rtmmu(10_000), &memory, 12, 10_000).unwrap();
    let guard = heap.malloc(100).unwrap();
    let block = heap.malloc(1000 << 12).unwrap();
    let after = heap.malloc(100).unwrap();
    for page in 0..1000 {
        one_access(&mut heap, block + (page << 12));
    }
    // 1,000 of the block; its tag lies with the guard's, the one after it on its last page.
    assert_eq!(memory.borrow().used(), 1001);
    heap.free(block).unwrap();
    assert_eq!(memory.borrow().used(), 2);
    assert_eq!(heap.memory_mut().take_unmapped(), 999);
    heap.free(after).unwrap();
    heap.free(guard).unwrap();
    assert_eq!(memory.borrow().used(), 1);
}

/// Words that the worst calls touch, for sizes that differ by a million.
fn worst(most: u64, seed: u64) -> (u64, u64, u64, u64) {
    let options = ReplayOptions { pages: 1 << 22, frames: 1 << 22, ..ReplayOptions::default() };
    with_replay(&options, 1, |replay| {
        let actions: Vec<Action> = Synthetic::new(seed, 200_000, Sizes::Uniform(most)).collect();
        replay.run(0, &actions);
        assert_eq!(replay.points_above(), 0);
        let (a, b) = (replay.rtmmu(), replay.conventional());
        (a.max_alloc_touches, a.max_free_touches, b.max_alloc_touches, b.max_free_touches)
    })
    .unwrap()
}

#[test]
fn the_worst_release_does_not_depend_on_sizes() {
    let small = worst(100_000, 1);
    for most in [1 << 20, 8 << 20, 32 << 20] {
        let large = worst(most, 2);
        // Not more than the largest that the code can do, whatever the size.
        assert!(large.1.abs_diff(small.1) * 10 <= small.1, "{small:?} {large:?}");
        assert!(large.0.abs_diff(small.0) * 10 <= small.0, "{small:?} {large:?}");
    }
    let large = worst(8 << 20, 2);
    assert!(large.3 > 10 * large.1, "the conventional one does: {large:?}");
}

#[test]
fn a_replay_repeats_exactly() {
    let run = || {
        with_replay(&ReplayOptions::default(), 2, |replay| {
            for space in 0..2 {
                let actions: Vec<Action> = Synthetic::new(5, 50_000, Sizes::LogUniform(1 << 20)).collect();
                replay.run(space, &actions);
            }
            [replay.rtmmu(), replay.conventional()].map(|o| {
                assert_eq!(o.failures, Default::default());
                assert_eq!(o.allocations + o.frees + o.accesses, 100_000);
                assert_eq!(o.actions, 100_000);
                assert!(0.0 < o.mean_pages() && o.mean_pages() < f64::from(o.peak_pages));
                (
                    o.max_alloc_touches,
                    o.max_free_touches,
                    o.max_alloc_ns,
                    o.peak_pages,
                    o.footprint.clone().intervals().to_vec(),
                )
            })
        })
        .unwrap()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_replay_without_enough_memory_counts_what_failed() {
    for (frames, sizes) in [(40, 100_000), (1 << 12, 4 << 20)] {
        let options = ReplayOptions { pages: 1 << 12, frames, ..ReplayOptions::default() };
        with_replay(&options, 1, |replay| {
            let actions: Vec<Action> = Synthetic::new(5, 20_000, Sizes::Uniform(sizes)).collect();
            replay.run(0, &actions);
            for outcome in [replay.rtmmu(), replay.conventional()] {
                let failures = outcome.failures;
                assert_eq!(failures.out_of_frames > 0, frames == 40);
                assert_eq!(failures.out_of_address_space > 0, frames != 40);
                assert!(failures.on_missing_blocks > 0);
                assert_eq!(failures.other, 0);
                assert!(outcome.peak_pages <= frames);
            }
        })
        .unwrap();
    }
}

//! Tests of the heap over real memory.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::ptr::NonNull;

use super::*;
use crate::{HOST_PAGE_BYTES, Random};

/// An arena of the test's own.
struct Arena(NonNull<u8>, Layout);

impl Arena {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, HOST_PAGE_BYTES).unwrap();
        // SAFETY: the layout has bytes.
        let base = unsafe { std::alloc::alloc(layout) };
        // Garbage, which the heap must not mind.
        // SAFETY: just allocated.
        unsafe { base.write_bytes(0xa5, bytes) };
        Self(NonNull::new(base).unwrap(), layout)
    }

    fn heap(&self, page: Option<usize>) -> RtHeap {
        // SAFETY: the arena outlives the heaps of these tests, and each test has one heap.
        unsafe { RtHeap::new(self.0, self.1.size(), page) }.unwrap()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.0.as_ptr(), self.1) };
    }
}

/// A block, and what its bytes should be.
type LiveBlocks = BTreeMap<NonNull<u8>, (usize, u8)>;

fn fill(block: NonNull<u8>, bytes: usize, byte: u8) {
    // SAFETY: a live block of at least that many bytes.
    unsafe { block.as_ptr().write_bytes(byte, bytes) };
}

fn check_bytes(block: NonNull<u8>, bytes: usize, byte: u8) {
    // SAFETY: a live block of at least that many bytes, which nothing writes to meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
    assert!(bytes.iter().all(|&b| b == byte), "someone wrote into a block");
}

/// Gives everything back that waits, and overwrites it with garbage as the kernel would with zeros.
fn give_back(heap: &mut RtHeap, most: usize) -> usize {
    let mut total = 0;
    let used = heap.check().expect("whole").used_bytes;
    while let Some(pages) = heap.begin_return(most) {
        let census = heap.check().expect("whole while pages are out");
        assert_eq!(census.used_bytes, used, "pages on their way back are nobody's");
        assert!(pages.bytes > 0 && pages.bytes.is_multiple_of(256));
        total += pages.bytes;
        fill(pages.pages, pages.bytes, 0xee);
        heap.end_return(pages).unwrap();
        assert!(total < 1 << 30, "the same pages wait again and again");
    }
    total
}

fn long_run(page: Option<usize>, seed: u64, steps: u32, most: u64) -> [u64; 3] {
    let arena = Arena::new(1 << 20);
    let mut heap = arena.heap(page);
    let mut random = Random::new(seed);
    let mut live = LiveBlocks::new();
    let mut worst = [0; 3];
    for round in 0..steps {
        let largest = if random.below(4) == 0 { most } else { 300 };
        let bytes = random.below(largest) as usize;
        let some = (!live.is_empty())
            .then(|| live.iter().nth(random.below(live.len() as u64) as usize).map(|(&b, &v)| (b, v)))
            .flatten();
        let byte = random.bits() as u8;
        let before = heap.touches();
        match (random.below(10), some) {
            (0..=3, _) | (_, None) => {
                let align = 16_usize << random.below(14).saturating_sub(5);
                let made = if align == 16 { heap.malloc(bytes) } else { heap.memalign(align, bytes) };
                let which = usize::from(align > 16);
                worst[which] = worst[which].max(heap.touches() - before);
                if let Ok(block) = made {
                    assert!((block.as_ptr() as usize).is_multiple_of(align));
                    fill(block, bytes, byte);
                    assert!(live.insert(block, (bytes, byte)).is_none());
                }
            }
            (4..=6, Some((block, (len, byte)))) => {
                check_bytes(block, len, byte);
                live.remove(&block);
                let before = heap.touches();
                // SAFETY: it is not used any more.
                unsafe { heap.free(block) }.unwrap();
                worst[2] = worst[2].max(heap.touches() - before);
                // SAFETY: it is no block any more.
                assert!(unsafe { heap.free(block) }.is_err());
            }
            (7..=8, Some((block, (len, byte)))) => {
                // SAFETY: the old place is not used any more if this succeeds.
                if let Ok(moved) = unsafe { heap.realloc(block, bytes) } {
                    live.remove(&block);
                    check_bytes(moved, len.min(bytes), byte);
                    fill(moved, bytes, byte);
                    live.insert(moved, (bytes, byte));
                }
            }
            _ if random.below(2) == 0 => heap.pass_period(),
            _ => drop(give_back(&mut heap, 1 << (8 + random.below(10)))),
        }
        if round % 500 == 0 {
            assert_eq!(heap.check().unwrap().used_blocks, live.len() as u64);
            live.iter().for_each(|(&block, &(len, byte))| check_bytes(block, len, byte));
        }
    }
    for (block, _) in live {
        // SAFETY: the run is over.
        unsafe { heap.free(block) }.unwrap();
    }
    assert_eq!(heap.check().unwrap().free_blocks, 1);
    worst
}

#[test]
fn blocks_keep_their_bytes_and_no_call_exceeds_its_bound() {
    let mut worst = [0; 3];
    for (page, seed, most) in [
        (None, 1, 60_000),
        (Some(HOST_PAGE_BYTES), 2, 60_000),
        (Some(256), 3, 5000),
        (Some(HOST_PAGE_BYTES), 4, 400_000),
    ] {
        let run = long_run(page, seed, 60_000, most);
        worst = std::array::from_fn(|i| worst[i].max(run[i]));
    }
    let bounds = [MALLOC_TOUCHES, MEMALIGN_TOUCHES, FREE_TOUCHES];
    for (name, (worst, bound)) in ["malloc", "memalign", "free"].iter().zip(worst.iter().zip(bounds)) {
        assert!(*worst <= bound, "{name} touched {worst} words, stated are {bound}");
        assert!(*worst + 12 >= bound, "{name} touched {worst} words, the stated {bound} are loose");
    }
}

#[test]
fn released_pages_are_given_back_once() {
    let arena = Arena::new(1 << 20);
    let mut heap = arena.heap(Some(HOST_PAGE_BYTES));
    let a = heap.malloc(400_000).unwrap();
    let guard = heap.malloc(10).unwrap();
    assert_eq!(give_back(&mut heap, 1 << 20), 0, "nothing was released");
    // SAFETY: not used any more.
    unsafe { heap.free(a) }.unwrap();
    // The first page holds the tag.
    assert_eq!(give_back(&mut heap, 1 << 20), (400_000 / HOST_PAGE_BYTES - 1) * HOST_PAGE_BYTES);
    assert_eq!(give_back(&mut heap, 40_000), 0);
    let b = heap.malloc(100).unwrap();
    // SAFETY: not used any more.
    unsafe { heap.free(b) }.unwrap();
    assert!(give_back(&mut heap, 40_000) <= HOST_PAGE_BYTES);
    // SAFETY: not used any more.
    unsafe { heap.free(guard) }.unwrap();
    give_back(&mut heap, 40_000);
    assert_eq!(heap.check().unwrap().free_blocks, 1);
}

/// What waits, in periods, as the end of the list says.
fn oldest(heap: &RtHeap) -> Option<(usize, u8)> {
    heap.waiting().map(|waiting| (waiting.bytes / HOST_PAGE_BYTES, waiting.periods))
}

#[test]
fn pages_go_back_in_the_order_in_which_they_were_released() {
    let arena = Arena::new(1 << 20);
    let mut heap = arena.heap(Some(HOST_PAGE_BYTES));
    let [a, b, c] = [10, 20, 30].map(|pages| {
        let block = heap.malloc(pages * HOST_PAGE_BYTES).unwrap();
        heap.malloc(10).unwrap();
        block
    });
    for block in [b, a, c] {
        // SAFETY: not used any more.
        unsafe { heap.free(block) }.unwrap();
        heap.pass_period();
    }
    // A page less than was asked for: the first one holds the tag.
    for (pages, periods) in [(19, 3), (9, 2), (29, 1)] {
        assert_eq!(oldest(&heap), Some((pages, periods)));
        let back = heap.begin_return(1 << 20).unwrap();
        assert_eq!(back.bytes, pages * HOST_PAGE_BYTES);
        heap.end_return(back).unwrap();
    }
    assert_eq!(oldest(&heap), None);
}

#[test]
fn what_is_used_again_is_young_and_what_is_left_of_it_is_not() {
    let arena = Arena::new(1 << 20);
    let mut heap = arena.heap(Some(HOST_PAGE_BYTES));
    let block = heap.malloc(60 * HOST_PAGE_BYTES).unwrap();
    let other = heap.malloc(20 * HOST_PAGE_BYTES).unwrap();
    let rest = heap.malloc(160 * HOST_PAGE_BYTES).unwrap();
    heap.pass_period();
    for freed in [block, rest] {
        // SAFETY: not used any more.
        unsafe { heap.free(freed) }.unwrap();
    }
    (0..7).for_each(|_| heap.pass_period());
    // A part of the first one is used, and released again beside what is left: that is larger, and keeps its age.
    for _ in 0..3 {
        let part = heap.malloc(20 * HOST_PAGE_BYTES).unwrap();
        assert!(part < other, "the smallest that fits");
        assert_eq!(oldest(&heap).map(|(_, periods)| periods), Some(7));
        // SAFETY: not used any more.
        unsafe { heap.free(part) }.unwrap();
    }
    // Most of it was used.
    let most = heap.malloc(50 * HOST_PAGE_BYTES).unwrap();
    // SAFETY: not used any more.
    unsafe { heap.free(most) }.unwrap();
    let mut ages = Vec::new();
    while let Some(waiting) = heap.waiting() {
        ages.push(waiting.periods);
        heap.skip_waiting(waiting.first, waiting.bytes);
    }
    assert_eq!(ages, [7, 0]);
}

/// A program that uses a little of a large released range again and again must not keep all of it.
#[test]
fn the_end_of_the_list_ages_whatever_a_program_does() {
    let arena = Arena::new(1 << 20);
    let mut heap = arena.heap(Some(256));
    let mut random = Random::new(5);
    let mut live: Vec<NonNull<u8>> = (0..400).filter_map(|_| heap.malloc(2000).ok()).collect();
    let mut returned = 0;
    for period in 0..200 {
        for _ in 0..20 {
            if live.len() > 100 || random.below(2) == 0 {
                let Some(at) = (!live.is_empty()).then(|| random.below(live.len() as u64) as usize) else {
                    continue;
                };
                // SAFETY: not used any more.
                unsafe { heap.free(live.swap_remove(at)) }.unwrap();
            } else {
                live.extend(heap.malloc(random.below(4000) as usize));
            }
        }
        heap.pass_period();
        while heap.waiting().is_some_and(|waiting| waiting.periods >= 5) {
            if let Some(back) = heap.begin_return(1 << 20) {
                returned += back.bytes;
                heap.end_return(back).unwrap();
            }
        }
        if period % 20 == 0 {
            heap.check().unwrap();
        }
    }
    assert!(returned > 500_000, "{returned} bytes of the 600,000 that were not needed any more");
}

/// Growing in place freed the rest of the arena as if it had been used, and giving it back wrote a tag into each part.
#[test]
fn what_was_never_used_is_never_touched() {
    const BYTES: usize = 1 << 20;
    let arena = Arena::new(BYTES);
    let mut heap = arena.heap(Some(256));
    // SAFETY: beyond the first tags nothing of the arena is used yet.
    let fresh = unsafe { std::slice::from_raw_parts_mut(arena.0.as_ptr(), BYTES) };
    fresh[256..].fill(0xaa);
    let mut top = 0;
    let mut random = Random::new(9);
    let mut live: Vec<(NonNull<u8>, usize)> = Vec::new();
    for _ in 0..2000 {
        let bytes = random.below(600) as usize;
        match (random.below(4), live.len()) {
            (0, 20..) => {
                let (block, _) = live.swap_remove(random.below(live.len() as u64) as usize);
                // SAFETY: not used any more.
                unsafe { heap.free(block) }.unwrap();
            }
            (1, 1..) => {
                let at = random.below(live.len() as u64) as usize;
                // SAFETY: the old place is not used any more.
                live[at] = (unsafe { heap.realloc(live[at].0, bytes) }.unwrap(), bytes);
            }
            (2, 1..) if random.below(4) == 0 => drop(give_back(&mut heap, HOST_PAGE_BYTES)),
            (_, ..60) => live.push((heap.malloc(bytes).unwrap(), bytes)),
            _ => {}
        }
        let ends = live.iter().map(|(block, bytes)| block.as_ptr() as usize + bytes);
        top = ends.map(|end| end - arena.0.as_ptr() as usize).chain([top]).max().unwrap_or(0);
    }
    for (block, _) in live {
        // SAFETY: the run is over.
        unsafe { heap.free(block) }.unwrap();
    }
    give_back(&mut heap, HOST_PAGE_BYTES);
    // After the last block there is the tag of the rest.
    let touched = fresh.iter().rposition(|byte| *byte != 0xaa).unwrap();
    assert!(touched < top + 128, "{touched} touched, {top} used");
}

#[test]
fn wrong_frees_are_errors_with_addresses() {
    let arena = Arena::new(1 << 16);
    let mut heap = arena.heap(None);
    let a = heap.malloc(100).unwrap();
    let b = heap.malloc(100).unwrap();
    let before = heap.check().unwrap();
    let at =
        |pointer: NonNull<u8>, offset: isize| NonNull::new(pointer.as_ptr().wrapping_offset(offset)).unwrap();
    for wrong in [at(a, 1), at(a, 16), at(a, -16), at(a, 1 << 20), NonNull::dangling()] {
        // SAFETY: these are no blocks, so nothing is released.
        let error = unsafe { heap.free(wrong) }.unwrap_err();
        assert_eq!(error, Error::NotABlock { addr: wrong.as_ptr() as u64 });
    }
    assert_eq!(heap.check(), Ok(before));
    // SAFETY: not used any more.
    unsafe { heap.free(a) }.unwrap();
    // SAFETY: not a block any more.
    let twice = unsafe { heap.free(a) }.unwrap_err();
    assert_eq!(twice, Error::AlreadyFree { addr: a.as_ptr() as u64 });
    // Over the end of a free block into the tag after it.
    fill(at(b, -16), 16, 0xff);
    // SAFETY: its tag is gone, so nothing is released.
    assert!(unsafe { heap.free(b) }.is_err());
    assert!(heap.check().is_err());
    assert!(heap.calloc(usize::MAX, 2).is_err());
    assert!(heap.memalign(24, 1).is_err());
}

#[test]
fn the_stated_arena_is_enough() {
    let (blocks, largest) = (40_u64, 3000_u64);
    let bytes = RtHeap::arena_bytes(blocks * largest, blocks, largest, 0).unwrap();
    for seed in 0..20 {
        let arena = Arena::new(bytes as usize);
        let mut heap = arena.heap(None);
        let mut random = Random::new(seed);
        let mut live = Vec::new();
        for _ in 0..5000 {
            if live.len() < blocks as usize && random.below(2) == 0 {
                // Many small ones that stay, to cut the arena to pieces.
                let len = if random.below(2) == 0 { 1 } else { random.below(largest + 1) };
                live.push(heap.malloc(len as usize).expect("the arena is as large as it was said to be"));
            } else if !live.is_empty() {
                let block = live.swap_remove(random.below(live.len() as u64) as usize);
                // SAFETY: not used any more.
                unsafe { heap.free(block) }.unwrap();
            }
        }
    }
    assert_eq!(RtHeap::arena_bytes(u64::MAX, 1, 1, 0), None);
}

#[test]
fn threads_share_a_heap() {
    static ALLOC: RtAlloc<TicketLock> = RtAlloc::new(TicketLock::new());
    let arena = Arena::new(1 << 20);
    let layout = Layout::from_size_align(100, 64).unwrap();
    // SAFETY: a layout with bytes.
    assert!(unsafe { ALLOC.alloc(layout) }.is_null(), "no arena yet");
    ALLOC.set(arena.heap(None));
    std::thread::scope(|scope| {
        for byte in 1..=3 {
            scope.spawn(move || {
                for round in 0..2000_usize {
                    let layout = Layout::from_size_align(round % 700 + 1, 1 << (round % 8)).unwrap();
                    // SAFETY: layouts with bytes; blocks are freed once, with their layout.
                    unsafe {
                        let block = ALLOC.alloc(layout);
                        block.write_bytes(byte, layout.size());
                        let block = ALLOC.realloc(block, layout, 900);
                        assert!((block as usize).is_multiple_of(layout.align()));
                        check_bytes(NonNull::new(block).unwrap(), layout.size(), byte);
                        ALLOC.dealloc(block, Layout::from_size_align(900, layout.align()).unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(ALLOC.with(RtHeap::check).unwrap().used_blocks, 0);
}

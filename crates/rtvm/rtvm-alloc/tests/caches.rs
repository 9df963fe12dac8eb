//! Caches over a heap: blocks have the requested size, do not overlap, and all of them come back.
#![cfg(not(loom))]

use std::collections::BTreeMap;
use std::ptr::NonNull;

use rtvm::{Error, Random};
use rtvm_alloc::{Arena, Heap, MOST_BYTES, SHELF_BYTES, THREAD_BYTES, ThreadCache};

fn heap(bytes: usize) -> Box<Heap> {
    let mut heap = Box::new(Heap::new());
    // SAFETY: nobody uses it yet, and a box does not move.
    unsafe { heap.map(Arena { bytes, prefault: false }) }.expect("an arena");
    heap
}

fn fill(block: NonNull<u8>, bytes: usize, byte: u8) {
    // SAFETY: a live block of at least that many bytes.
    unsafe { block.as_ptr().write_bytes(byte, bytes) };
}

fn check(block: NonNull<u8>, bytes: usize, byte: u8) {
    // SAFETY: a live block of at least that many bytes, which nothing writes to meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
    assert!(bytes.iter().all(|&b| b == byte), "someone wrote into a block");
}

fn free(heap: &Heap, cache: &mut ThreadCache, block: NonNull<u8>) {
    // SAFETY: the test uses it no more.
    unsafe { heap.free(cache, block) }.expect("a block");
}

/// What a live block of the test's should hold.
#[derive(Clone, Copy)]
struct Expected {
    bytes: usize,
    byte: u8,
}

/// Calls of three threads in turn, each with its cache; a block is released by any of them.
fn long_run(seed: u64, largest: u64) {
    let heap = heap(256 << 20);
    let mut random = Random::new(seed);
    let mut caches = [const { ThreadCache::new() }; 3];
    let mut live: BTreeMap<NonNull<u8>, Expected> = BTreeMap::new();
    for round in 0..20_000 {
        let cache = &mut caches[random.below(3) as usize];
        let bytes = random.below(largest) as usize;
        let byte = random.bits() as u8;
        // Grows and shrinks, so that shelves fill and empty.
        let grows = if round / 2500 % 2 == 0 { 7 } else { 3 };
        let some = (!live.is_empty()).then(|| {
            let at = NonNull::new((random.bits() as usize | 1) as *mut u8).expect("not null");
            let next = live.range(at..).next().or_else(|| live.iter().next()).expect("not empty");
            (*next.0, *next.1)
        });
        match some {
            Some((block, was)) if random.below(10) >= grows => {
                check(block, was.bytes, was.byte);
                live.remove(&block);
                if random.below(4) == 0 {
                    // SAFETY: the old place is not used any more.
                    let moved = unsafe { heap.realloc(block, bytes) }.expect("room");
                    check(moved, was.bytes.min(bytes), was.byte);
                    fill(moved, bytes, byte);
                    live.insert(moved, Expected { bytes, byte });
                } else {
                    free(&heap, cache, block);
                    // SAFETY: no block any more, so nothing is released.
                    let again = unsafe { heap.free(cache, block) };
                    // Where it is in no cache it may be a part of a larger free block by now.
                    let addr = block.as_ptr() as u64;
                    let errors = [Error::AlreadyFree { addr }, Error::NotABlock { addr }];
                    assert!(again.is_err_and(|error| errors.contains(&error)));
                }
            }
            _ => {
                let block = heap.malloc(cache, bytes).expect("room");
                assert!((block.as_ptr() as usize).is_multiple_of(16));
                fill(block, bytes, byte);
                assert!(live.insert(block, Expected { bytes, byte }).is_none(), "given out twice");
            }
        }
        if round % 1000 == 0 {
            let census = heap.with(|heap| heap.check()).expect("whole");
            assert_eq!(census.used_blocks - census.cached_blocks, live.len() as u64);
            assert!(census.cached_bytes <= (3 * THREAD_BYTES + SHELF_BYTES) as u64);
            live.iter().for_each(|(&block, was)| check(block, was.bytes, was.byte));
        }
    }
    for (block, _) in live {
        free(&heap, &mut caches[0], block);
    }
    caches.iter_mut().for_each(|cache| heap.drain(cache).expect("whole"));
    let census = heap.with(|heap| heap.check()).expect("whole");
    assert_eq!(census.used_blocks, census.cached_blocks, "what is left lies on shelves");
    assert!(census.cached_bytes <= SHELF_BYTES as u64);
}

#[test]
fn blocks_keep_their_bytes_and_come_back() {
    for (seed, largest) in [(1, 300), (2, 3000), (3, 20_000), (4, 90_000)] {
        long_run(seed, largest);
    }
}

/// The stated bounds of what caches hold, with a thread that releases more of each size than they have room for.
#[test]
fn caches_hold_no_more_than_is_stated() {
    let heap = heap(2 << 30);
    let mut cache = ThreadCache::new();
    let mut bytes = 1;
    while bytes <= MOST_BYTES + 20_000 {
        let blocks: Vec<_> = (0..200).map(|_| heap.with(|heap| heap.malloc(bytes)).expect("room")).collect();
        blocks.into_iter().for_each(|block| free(&heap, &mut cache, block));
        bytes += (bytes / 20).max(8);
    }
    let census = heap.with(|heap| heap.check()).expect("whole");
    let bound = (THREAD_BYTES + SHELF_BYTES) as u64;
    assert!(census.cached_bytes <= bound, "{} of {bound}", census.cached_bytes);
    assert!(census.cached_bytes * 10 > bound * 7, "{} of {bound}: the bound is loose", census.cached_bytes);
    // A thread's share goes back with it.
    heap.drain(&mut cache).expect("whole");
    let census = heap.with(|heap| heap.check()).expect("whole");
    assert!(census.cached_bytes <= SHELF_BYTES as u64);
}

#[test]
fn where_memory_is_short_a_block_is_no_larger_than_asked_for() {
    let heap = heap(64 << 10);
    let mut cache = ThreadCache::new();
    // Its class has 37,376 bytes; with them, the second one would not fit.
    let first = heap.malloc(&mut cache, 31_000).expect("room");
    let second = heap.malloc(&mut cache, 34_000 - 1500).expect("room for what was asked for");
    assert!(heap.malloc(&mut cache, 2000).is_err());
    free(&heap, &mut cache, first);
    free(&heap, &mut cache, second);
}

#[test]
fn a_block_of_the_right_class_stays_where_it_is() {
    let heap = heap(1 << 20);
    let mut cache = ThreadCache::new();
    let block = heap.malloc(&mut cache, 5000).expect("room");
    let _beside = heap.malloc(&mut cache, 5000).expect("room");
    fill(block, 5000, 7);
    for bytes in [5001, 4990, 5000] {
        // SAFETY: the old place is not used any more.
        assert_eq!(unsafe { heap.realloc(block, bytes) }, Ok(block));
    }
    check(block, 4990, 7);
    // SAFETY: the old place is not used any more.
    let moved = unsafe { heap.realloc(block, 50_000) }.expect("room");
    check(moved, 4990, 7);
    free(&heap, &mut cache, moved);
    // SAFETY: no block any more, so nothing happens.
    assert!(unsafe { heap.realloc(moved, 10) }.is_err());
    // SAFETY: no block any more, so nothing is released.
    assert!(unsafe { heap.free(&mut cache, moved) }.is_err());
}

/// Threads that pass blocks on at once, so that shelves and the lock are contended.
#[test]
fn threads_that_pass_blocks_on_share_a_heap() {
    let heap = &heap(512 << 20);
    std::thread::scope(|scope| {
        let (first, mut from) = std::sync::mpsc::channel::<usize>();
        for thread in 0..4_u64 {
            let (to, next) = std::sync::mpsc::channel();
            let inbox = std::mem::replace(&mut from, next);
            scope.spawn(move || {
                let mut cache = ThreadCache::new();
                let mut random = Random::new(thread);
                for _ in 0..5000 {
                    let bytes = 8 + random.below(30_000) as usize;
                    let block = heap.malloc(&mut cache, bytes).expect("room");
                    fill(block, 8, thread as u8);
                    let _ = to.send(block.as_ptr() as usize);
                    while let Ok(addr) = inbox.try_recv() {
                        let block = NonNull::new(addr as *mut u8).expect("a block");
                        check(block, 8, thread.wrapping_sub(1) as u8);
                        free(heap, &mut cache, block);
                    }
                }
                drop(to);
                while let Ok(addr) = inbox.recv() {
                    free(heap, &mut cache, NonNull::new(addr as *mut u8).expect("a block"));
                }
                heap.drain(&mut cache).expect("whole");
            });
        }
        drop(first);
        scope.spawn(move || {
            let mut cache = ThreadCache::new();
            while let Ok(addr) = from.recv() {
                free(heap, &mut cache, NonNull::new(addr as *mut u8).expect("a block"));
            }
            heap.drain(&mut cache).expect("whole");
        });
    });
    let census = heap.with(|heap| heap.check()).expect("whole");
    assert_eq!(census.used_blocks, census.cached_blocks);
    assert!(census.cached_bytes <= SHELF_BYTES as u64);
}

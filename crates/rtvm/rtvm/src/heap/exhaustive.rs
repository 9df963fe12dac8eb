//! Explores every state that a small arena can reach in a given number of operations, and tries every possible operation in each of them.
//!
//! A state is whatever the heap's next steps depend on: the tags, the links and ranges of free blocks, the control
//! words. If one is reached again with no more operations left than before, its successors are already known. In each
//! state the heap is whole, every free of what is not a block is refused and changes nothing, no call touches more words
//! than is stated, and a request fails only where the stated arena would have been larger (docs/rtvm.md, *Memory*).

use std::alloc::Layout;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::arena::{NEXT_DIRTY, NONE, PREVIOUS_DIRTY};
use super::*;
use crate::HOST_PAGE_BYTES;
use crate::tlsf::{CONTROL_WORDS, TagWord};

/// The bits of a tag's size word, as `tlsf` writes them.
const FREE: u64 = 1;
const DIRTY: u64 = 2;
const SIZE: u64 = ((1 << 48) - 1) & !15;

/// What is tried.
struct SmallArena {
    arena_bytes: usize,
    page_bytes: Option<usize>,
    /// Requests of malloc and realloc.
    requests: &'static [usize],
    /// Calls of memalign.
    aligned: &'static [HeapStep],
    operations: u32,
}

/// A block of the heap as its tags have it.
#[derive(Clone, Copy, Debug)]
struct SeenBlock {
    start: u64,
    bytes: u64,
    is_free: bool,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
enum HeapStep {
    Malloc(usize),
    Memalign(usize, usize),
    Free(u64),
    Realloc(u64, usize),
    GiveBack,
    PassPeriod,
}

struct StateSearch {
    scope: SmallArena,
    arena: NonNull<u8>,
    heap: RtHeap,
    /// States by two hashes, with the operations that were left when they were expanded.
    seen: HashMap<[u64; 2], u32>,
    path: Vec<HeapStep>,
    calls: u64,
}

impl StateSearch {
    fn new(scope: SmallArena) -> Self {
        let layout = Layout::from_size_align(scope.arena_bytes, HOST_PAGE_BYTES).unwrap();
        // SAFETY: the layout has bytes. It is leaked: the process is one test.
        let arena = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
        // SAFETY: the arena belongs to this search alone.
        let heap = unsafe { RtHeap::new(arena, scope.arena_bytes, scope.page_bytes) }.unwrap();
        Self { scope, arena, heap, seen: HashMap::new(), path: Vec::new(), calls: 0 }
    }

    fn word(&self, at: u64) -> u64 {
        // SAFETY: an aligned word of the arena.
        unsafe { self.arena.as_ptr().add(at as usize).cast::<u64>().read() }
    }

    fn blocks(&self) -> Vec<SeenBlock> {
        let mut blocks = Vec::new();
        let mut start = 0;
        while start < self.heap.bytes() {
            let word = self.word(start + TagWord::Size.offset());
            blocks.push(SeenBlock { start, bytes: word & SIZE, is_free: word & FREE != 0 });
            start += word & SIZE;
            assert!(word & SIZE >= MIN_BLOCK, "{:?}", self.path);
        }
        blocks
    }

    /// The state, in two hashes of different beginnings.
    fn state(&mut self) -> [u64; 2] {
        let mut words = Vec::with_capacity(64);
        for block in self.blocks() {
            let size = self.word(block.start + TagWord::Size.offset());
            words.extend([self.word(block.start), size]);
            if block.is_free {
                words.extend([2, 3].map(|field| self.word(block.start + 8 * field)));
                let span = BlockSpan { start: block.start, end: block.start + block.bytes };
                if size & DIRTY != 0 && !self.heap.tlsf.memory().whole_bytes(span).is_empty() {
                    words.extend((4..8).map(|field| self.word(block.start + 8 * field)));
                }
            }
        }
        let memory = self.heap.tlsf.memory_mut();
        words.extend([memory.newest, memory.oldest, u64::from(memory.period)]);
        let control = (0..CONTROL_WORDS).map(|index| (index as u64, memory.control(index)));
        words.extend(
            control.filter(|(_, word)| *word != 0).flat_map(|(index, word)| [u64::MAX - index, word]),
        );
        [0u64, 1].map(|beginning| {
            let mut hasher = DefaultHasher::new();
            (beginning, &words).hash(&mut hasher);
            hasher.finish()
        })
    }

    fn at(&self, block: u64) -> NonNull<u8> {
        // SAFETY: inside the arena.
        unsafe { self.arena.add(block as usize) }
    }

    /// Does a step; the bytes of blocks in use are those of their address, before and after.
    fn take(&mut self, step: HeapStep) {
        self.calls += 1;
        let before = self.heap.touches();
        let mut most = MALLOC_TOUCHES;
        match step {
            HeapStep::Malloc(bytes) => {
                if self.heap.malloc(bytes).is_err() {
                    self.no_block_was_large_enough(bytes);
                }
            }
            HeapStep::Memalign(align, bytes) => {
                most = MEMALIGN_TOUCHES;
                if let Ok(block) = self.heap.memalign(align, bytes) {
                    assert!((block.as_ptr() as usize).is_multiple_of(align));
                }
            }
            HeapStep::Free(block) => {
                most = FREE_TOUCHES;
                // SAFETY: nobody uses it.
                unsafe { self.heap.free(self.at(block)) }.unwrap();
            }
            HeapStep::Realloc(block, bytes) => {
                // A malloc, a free, and the sizes of both.
                most = MALLOC_TOUCHES + FREE_TOUCHES + 8;
                // SAFETY: nobody uses the old place.
                if unsafe { self.heap.realloc(self.at(block), bytes) }.is_err() {
                    self.no_block_was_large_enough(bytes);
                }
            }
            HeapStep::PassPeriod => self.heap.pass_period(),
            HeapStep::GiveBack => {
                most = u64::MAX;
                if let Some(pages) = self.heap.begin_return(self.scope.arena_bytes) {
                    self.whole();
                    // SAFETY: pages that are nobody's; the kernel would fill them with zeros.
                    unsafe { pages.pages.as_ptr().write_bytes(0, pages.bytes) };
                    self.heap.end_return(pages).unwrap();
                }
            }
        }
        let touched = self.heap.touches() - before;
        assert!(touched <= most, "{touched} words, stated are {most}: {:?}", self.path);
    }

    /// What a failed request says of the arena: the statement of `RtHeap::arena_bytes`.
    fn no_block_was_large_enough(&self, bytes: usize) {
        let enough = bytes as u64 + TAG_BYTES + MIN_BLOCK;
        for block in self.blocks().iter().filter(|block| block.is_free) {
            assert!(
                block.bytes < enough + enough / 32,
                "{bytes} bytes had room in {block:?}: {:?}",
                self.path
            );
        }
    }

    /// The heap's own look at all tags and lists, and the rule that its bound rests on.
    fn whole(&mut self) {
        let blocks = self.blocks();
        let census = self.heap.check().unwrap_or_else(|error| panic!("{error}: {:?}", self.path));
        let used = blocks.iter().filter(|block| !block.is_free).count() as u64;
        assert_eq!(census.used_blocks + self.heap.out_blocks, used, "{:?}", self.path);
        let beside = blocks.windows(2).any(|pair| pair[0].is_free && pair[1].is_free);
        assert!(!beside, "two free blocks beside each other: {:?}", self.path);
        self.list_is_whole(&blocks);
    }

    /// The list of pages that wait has the same blocks in both directions: those with enough pages, each once.
    fn list_is_whole(&self, blocks: &[SeenBlock]) {
        let memory = self.heap.tlsf.memory();
        let mut expected: Vec<u64> = Vec::new();
        for block in blocks.iter().filter(|block| block.is_free) {
            let span = BlockSpan { start: block.start, end: block.start + block.bytes };
            let is_dirty = self.word(block.start + TagWord::Size.offset()) & DIRTY != 0;
            if is_dirty && !memory.whole_bytes(span).is_empty() {
                let waits = memory.waits(block.start).pages;
                assert!(
                    waits.is_empty() || (span.start < waits.start && waits.end <= span.end),
                    "{:?}",
                    self.path
                );
                expected.extend(memory.is_linked(waits).then_some(block.start));
            }
        }
        let walk = |first: u64, link: u64| {
            let mut found = Vec::new();
            let mut at = first;
            while at != NONE && found.len() <= expected.len() {
                found.push(at);
                at = self.word(at + link);
            }
            found
        };
        let (mut forward, mut backward) =
            (walk(memory.newest, NEXT_DIRTY), walk(memory.oldest, PREVIOUS_DIRTY));
        backward.reverse();
        assert_eq!(forward, backward, "{:?}", self.path);
        forward.sort_unstable();
        assert_eq!(forward, expected, "{:?}", self.path);
    }

    /// No other address is a block: freeing it is refused, and changes nothing.
    fn wrong_frees_are_refused(&mut self, blocks: &[SeenBlock], state: [u64; 2]) {
        for addr in (0..self.scope.arena_bytes as u64).step_by(16) {
            if blocks.iter().any(|block| !block.is_free && block.start + TAG_BYTES == addr) {
                continue;
            }
            // SAFETY: no block, so nothing is released.
            assert!(unsafe { self.heap.free(self.at(addr)) }.is_err(), "{addr:#x}: {:?}", self.path);
        }
        assert_eq!(self.state(), state, "a refused free changed something: {:?}", self.path);
    }

    fn steps(&self, blocks: &[SeenBlock]) -> Vec<HeapStep> {
        let mut steps: Vec<HeapStep> =
            self.scope.requests.iter().map(|bytes| HeapStep::Malloc(*bytes)).collect();
        steps.extend(self.scope.aligned);
        for block in blocks.iter().filter(|block| !block.is_free) {
            let addr = block.start + TAG_BYTES;
            steps.push(HeapStep::Free(addr));
            steps.extend(self.scope.requests.iter().map(|bytes| HeapStep::Realloc(addr, *bytes)));
        }
        if self.scope.page_bytes.is_some() {
            steps.extend([HeapStep::GiveBack, HeapStep::PassPeriod]);
        }
        steps
    }

    fn explore(&mut self, left: u32) {
        let state = self.state();
        let before = self.seen.get(&state).copied();
        if before.is_some_and(|expanded| expanded >= left) {
            return;
        }
        self.seen.insert(state, left);
        let blocks = self.blocks();
        if before.is_none() {
            self.whole();
            self.wrong_frees_are_refused(&blocks, state);
        }
        if left == 0 {
            return;
        }
        // SAFETY: a slice of the arena, which no block's user holds.
        let saved =
            unsafe { std::slice::from_raw_parts(self.arena.as_ptr(), self.scope.arena_bytes) }.to_vec();
        // SAFETY: a heap is plain words and needs no drop; of both copies only one is used at a time.
        let heap = unsafe { std::mem::ManuallyDrop::new(std::ptr::read(&self.heap)) };
        for step in self.steps(&blocks) {
            self.path.push(step);
            self.take(step);
            self.explore(left - 1);
            self.path.pop();
            // SAFETY: both are as long as the arena; the heap of before belongs to the bytes of before.
            unsafe {
                self.arena.as_ptr().copy_from_nonoverlapping(saved.as_ptr(), saved.len());
                std::ptr::write(&mut self.heap, std::ptr::read(&*heap));
            }
        }
    }

    /// How many states there are, and how many calls were made.
    fn run(mut self) -> (usize, u64) {
        self.explore(self.scope.operations);
        (self.seen.len(), self.calls)
    }
}

#[test]
fn every_state_of_a_small_arena_is_whole() {
    let scope = SmallArena {
        arena_bytes: 512,
        page_bytes: None,
        requests: &[1, 40, 100, 200],
        aligned: &[HeapStep::Memalign(64, 20)],
        operations: 6,
    };
    let (states, calls) = StateSearch::new(scope).run();
    assert!(states > 1000 && calls > 10_000, "{states} states, {calls} calls: the search ended early");
}

#[test]
fn every_state_of_an_arena_whose_pages_go_back_is_whole() {
    let scope = SmallArena {
        arena_bytes: 4096,
        page_bytes: Some(256),
        requests: &[20, 400, 1400],
        aligned: &[HeapStep::Memalign(256, 300)],
        operations: 5,
    };
    let (states, calls) = StateSearch::new(scope).run();
    assert!(states > 1000 && calls > 5000, "{states} states, {calls} calls: the search ended early");
}

//! Bounds checking with watchpoints, one of the other uses in Table 3 of Unlimited Watchpoints. The whole heap is
//! watched except the allocated blocks, so any access beyond a block or after its release is a fault, on any unit.
//!
//! `cargo run -p watch-models --example bounds` runs a small program
//! on such a heap with each unit, and shows what each had to do.

use memref::{AccessKind, ThreadId};
use watch_models::{CostModel, UnitKind, Watched, WatchpointUnit};

const THREAD: ThreadId = ThreadId(0);
const HEAP: u64 = 0x10_0000;
const HEAP_BYTES: u64 = 1 << 20;
/// Bytes between blocks, never allocated.
const RED_ZONE: u64 = 16;

/// A heap that never uses memory again, and reports what is accessed outside of its blocks.
struct CheckedHeap {
    unit: Box<dyn WatchpointUnit>,
    next: u64,
    errors: Vec<u64>,
}

impl CheckedHeap {
    fn new(kind: UnitKind) -> Self {
        let mut unit = kind.build();
        unit.set(THREAD, HEAP..HEAP + HEAP_BYTES, Watched::BOTH);
        Self { unit, next: HEAP, errors: Vec::new() }
    }

    fn allocate(&mut self, bytes: u64) -> u64 {
        let block = self.next + RED_ZONE;
        self.next = (block + bytes).next_multiple_of(16);
        // A hole in a large range: what the paper calls breaking it.
        self.unit.set(THREAD, block..block + bytes, Watched::NONE);
        block
    }

    fn release(&mut self, block: u64, bytes: u64) {
        self.unit.set(THREAD, block..block + bytes, Watched::BOTH);
    }

    fn access(&mut self, addr: u64, kind: AccessKind) {
        if self.unit.check(THREAD, addr, 1, kind) {
            self.errors.push(addr);
        }
    }
}

fn main() {
    let model = CostModel::paper_2012();
    for kind in UnitKind::ALL {
        let mut heap = CheckedHeap::new(kind);
        let blocks: Vec<(u64, u64)> = (1..400).map(|n| (heap.allocate(n % 60 + 1), n % 60 + 1)).collect();
        for &(block, bytes) in &blocks {
            (0..bytes).for_each(|at| heap.access(block + at, AccessKind::Store));
        }
        assert_eq!(heap.errors, []);
        // One byte too many, and a block that is gone.
        let (block, bytes) = blocks[7];
        heap.access(block + bytes, AccessKind::Store);
        let (gone, len) = blocks[9];
        heap.release(gone, len);
        heap.access(gone + 2, AccessKind::Load);
        assert_eq!(heap.errors, [block + bytes, gone + 2]);
        let counters = heap.unit.counters();
        println!(
            "{:<12} {} accesses, {} faults ({} false), {} changes, {} misses, {:.0} cycles",
            kind.name(),
            counters.accesses,
            counters.faults,
            counters.false_faults,
            counters.changes,
            counters.misses,
            heap.unit.cost(&model).total()
        );
    }
}

//! The set of costs `measured`: the cost of the events on this machine.
//!
//! Work that is done in software - handlers on the tree, bitmaps, the baselines - is timed here, with this crate's own
//! data structures. Work that only the kernel can do - faults, signals, changes of protection - needs code that this crate
//! may not have. Its figures are those of docs/overhead.md, measured on a Sapphire Rapids Xeon in a virtual machine.

use std::hint::black_box;
use std::time::Instant;

use memref::{AccessKind, ThreadId};

use crate::bits::BlockBits;
use crate::cost::{CostModel, Fixed, Handlers, Software};
use crate::tree::RangeTree;
use crate::units::SoftwareMap;
use crate::{Change, Watched, WatchpointUnit};

/// Cycles a nanosecond: the time stamp counter of the machine that the kernel's figures are from.
const CYCLES_PER_NS: f64 = 2.6;
const ROUNDS: u64 = 20_000;

/// Cycles that one round takes: the best of several runs, because others use the machine too.
fn time(mut round: impl FnMut(u64)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begin = Instant::now();
        (0..ROUNDS).for_each(&mut round);
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best * 1e9 * CYCLES_PER_NS / ROUNDS as f64
}

/// A tree of that many ranges of 8 bytes, 16 apart.
fn tree(ranges: u64) -> RangeTree {
    let mut tree = RangeTree::default();
    (0..ranges).for_each(|n| tree.set(n * 16..n * 16 + 8, Watched::BOTH));
    tree
}

/// A place in such a tree that no pattern predicts.
fn place(round: u64, ranges: u64) -> u64 {
    (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % ranges * 16
}

/// Two measurements at different depths as a constant and a part for each level.
fn line((first, low): (u64, f64), (second, high): (u64, f64)) -> (f64, f64) {
    let slope = ((high - low) / (second - first) as f64).max(0.0);
    ((low - slope * first as f64).max(1.0), slope)
}

impl CostModel {
    /// This machine's costs. Takes a fraction of a second.
    pub fn measured() -> Self {
        let sizes = [1 << 4, 1 << 16];
        let mut loads = [(0, 0.0); 2];
        let mut stores = [(0, 0.0); 2];
        for (index, size) in sizes.into_iter().enumerate() {
            let mut tree = tree(size);
            loads[index] = (tree.levels(), time(|n| _ = black_box(tree.get(place(n, size)))));
            let store = |n: u64| {
                let at = place(n, size);
                tree.change(at..at + 8, Change::Set(Watched::from_bits(1 + (n & 1) as u8)));
            };
            stores[index] = (loads[index].0, time(store));
        }
        let (software_load, software_load_level) = line(loads[0], loads[1]);
        let (software_store, software_store_level) = line(stores[0], stores[1]);
        let mut bits = BlockBits::new(Watched::NONE);
        let block = time(|n| bits.change(0, 4096, Change::Set(Watched::from_bits(n as u8))));
        let mut map = SoftwareMap::default();
        map.set(ThreadId(0), 0..1 << 20, Watched::WRITE);
        let check = time(|n| {
            black_box(map.check(ThreadId(0), place(n, 1 << 16), 8, AccessKind::Load));
        });
        let syscall = time(|_| {
            black_box(std::process::id());
        });
        Self {
            name: "measured".into(),
            fixed: Fixed {
                // One signal with its fault is 1.2 us, half of it the signal; a pair of mprotects is 2.3 us.
                kernel_fault: 600.0 * CYCLES_PER_NS,
                syscall,
                signal: 600.0 * CYCLES_PER_NS,
                user_fault: 20.0,
                complex_update: 64.0,
            },
            handlers: Handlers {
                software_load,
                software_load_level,
                software_store,
                software_store_level,
                hardware_load: 14.0,
                protection_change: 1150.0 * CYCLES_PER_NS,
                trie_write: 4.0,
                trie_scan: 2.0,
                bitmap_byte: block / 1024.0,
                bitmap_switch: software_load + software_store,
            },
            // Beside the look-up itself, the race baseline is ThreadSanitizer's 8.6 x with three cycles an access.
            software: Software { program_access: 3.0, taint_access: check, race_access: 3.0 * 7.6 },
        }
    }
}

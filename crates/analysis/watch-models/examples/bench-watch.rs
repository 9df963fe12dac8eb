//! The simulation speed of each unit on one core, as Markdown: millions of accesses per
//! second of processor time, so that other load on the machine has little influence.
//!
//! *Well-behaved*: long runs of accesses in a few large ranges, a hundredth of them hits.
//! *Fragmented*: accesses all over 4 MiB in which every second run of 8 bytes is watched.

use std::hint::black_box;
use std::time::Duration;

use memref::{AccessKind, ThreadId};
use watch_models::{UnitKind, Watched, WatchpointUnit};

const ACCESSES: u64 = 10_000_000;
const BASE: u64 = 0x7f00_0000_0000;
const BYTES: u64 = 4 << 20;
const THREAD: ThreadId = ThreadId(0);

fn random(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn well_behaved(n: u64) -> u64 {
    // A walk through one of eight arrays of 64 KiB, now and then another one.
    let array = random(n >> 12) % 8;
    BASE + array * 65536 + n % 4096 * 8
}

fn fragmented(n: u64) -> u64 {
    BASE + random(n) % (BYTES / 8) * 8
}

/// Processor time of this thread so far.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("Linux counts scheduled time");
    Duration::from_nanos(ns)
}

fn prepare(unit: &mut dyn WatchpointUnit, pieces: bool) {
    if pieces {
        (0..BYTES / 16).for_each(|n| unit.set(THREAD, BASE + n * 16..BASE + n * 16 + 8, Watched::BOTH));
    } else {
        unit.set(THREAD, BASE..BASE + 328, Watched::WRITE);
        unit.set(THREAD, BASE + (1 << 20)..BASE + (2 << 20), Watched::BOTH);
    }
}

fn speed(kind: UnitKind, pieces: bool) -> f64 {
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let mut unit = kind.build();
        prepare(unit.as_mut(), pieces);
        let begin = cpu_time();
        for n in 0..ACCESSES {
            let (addr, access) = (
                if pieces { fragmented(n) } else { well_behaved(n) },
                if n % 3 == 0 { AccessKind::Store } else { AccessKind::Load },
            );
            black_box(unit.check(THREAD, addr, 8, access));
        }
        best = best.max(ACCESSES as f64 / (cpu_time() - begin).as_secs_f64() / 1e6);
    }
    best
}

fn main() {
    println!(
        "| unit | well-behaved, million accesses/s (goal 50) | fragmented (goal 10) |\n| --- | --- | --- |"
    );
    for kind in UnitKind::ALL.into_iter().chain([UnitKind::Software]) {
        println!("| {} | {:.0} | {:.0} |", kind.name(), speed(kind, false), speed(kind, true));
    }
}

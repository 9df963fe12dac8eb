// A mutable static without a lock.
// race: COUNTER
use std::sync::atomic::{AtomicU32, Ordering};

static mut COUNTER: u64 = 0;
static READY: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn add() {
    unsafe { COUNTER += 1 } // RACE
}

/// Neither thread is over before the other one runs.
fn run() {
    READY.fetch_add(1, Ordering::SeqCst);
    while READY.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    add();
}

fn main() {
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(run)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

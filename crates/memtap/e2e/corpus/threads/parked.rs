// A thread is parked until its result is there, which an atomic flag tells.
// command: race
// expect: nothing
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn main() {
    let shared = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
    let waiter = thread::spawn({
        let shared = shared.clone();
        move || {
            while !shared.0.load(Ordering::Acquire) {
                thread::park();
            }
            black_box(shared.1.load(Ordering::Relaxed))
        }
    });
    shared.1.store(42, Ordering::Relaxed);
    shared.0.store(true, Ordering::Release);
    waiter.thread().unpark();
    assert_eq!(waiter.join().unwrap(), 42);
}

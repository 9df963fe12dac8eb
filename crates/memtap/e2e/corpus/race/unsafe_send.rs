// A pointer that is declared to be fit for threads is written through by two of them.
// command: race
// expect: race
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

// One that had ended before the other began would be ordered before it, by the lock of what the library knows of threads.
static BOTH: Barrier = Barrier::new(2);

#[derive(Clone, Copy)]
struct Shared(*mut u64);
unsafe impl Send for Shared {}

fn work(shared: Shared) {
    BOTH.wait();
    for i in 0..100 {
        unsafe { *black_box(shared.0) = i }; // here
    }
}

fn main() {
    let mut value = 0u64;
    let shared = Shared(&raw mut value);
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(move || work(shared))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    black_box(value);
}

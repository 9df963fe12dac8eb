// Two threads count in a static that is mutable.
// command: race
// expect: race
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

static mut HITS: u64 = 0;
// One that had ended before the other began would be ordered before it, by the lock of what the library knows of threads.
static BOTH: Barrier = Barrier::new(2);

fn work() {
    BOTH.wait();
    for _ in 0..100 {
        let hits = black_box(&raw mut HITS);
        unsafe { *hits += 1 }; // here
    }
}

fn main() {
    let threads: Vec<_> = (0..2).map(|_| thread::spawn(work)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

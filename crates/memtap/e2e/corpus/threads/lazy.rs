// Threads that use what a lazy lock and thread-local variables hold.
// command: race
// expect: nothing
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::{LazyLock, OnceLock};
use std::thread;

static TABLE: LazyLock<Vec<u64>> = LazyLock::new(|| (0..50).map(|i| i * i).collect());
static NAME: OnceLock<String> = OnceLock::new();

thread_local! {
    static SEEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn main() {
    let threads: Vec<_> = (0..3usize)
        .map(|number| {
            thread::spawn(move || {
                SEEN.with_borrow_mut(|seen| seen.push(TABLE[number]));
                NAME.get_or_init(|| format!("made by {number}")).len()
            })
        })
        .collect();
    for thread in threads {
        black_box(thread.join().unwrap());
    }
}

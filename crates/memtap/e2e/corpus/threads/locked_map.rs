// Threads that change a map under a lock, and count by an atomic number.
// command: race
// expect: nothing
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let map = Arc::new(Mutex::new(HashMap::new()));
    let count = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..3u64)
        .map(|number| {
            let (map, count) = (map.clone(), count.clone());
            thread::spawn(move || {
                for i in 0..20 {
                    *map.lock().unwrap().entry(i).or_insert(0) += number;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((map.lock().unwrap().len(), count.load(Ordering::Relaxed)), (20, 60));
}

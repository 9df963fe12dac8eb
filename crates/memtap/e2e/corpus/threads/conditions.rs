// A queue with a lock and a condition, a barrier and a lock for readers.
// command: race
// expect: nothing
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;

fn main() {
    let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let barrier = Arc::new(Barrier::new(3));
    let total = Arc::new(RwLock::new(0u64));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, barrier, total) = (queue.clone(), barrier.clone(), total.clone());
            thread::spawn(move || {
                barrier.wait();
                for _ in 0..10 {
                    let mut waiting = queue.0.lock().unwrap();
                    while waiting.is_empty() {
                        waiting = queue.1.wait(waiting).unwrap();
                    }
                    let one: Vec<u64> = waiting.pop_front().unwrap();
                    drop(waiting);
                    black_box(*total.read().unwrap());
                    *total.write().unwrap() += one[0];
                }
            })
        })
        .collect();
    for i in 0..30 {
        queue.0.lock().unwrap().push_back(vec![i; 3]);
        queue.1.notify_one();
    }
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(*total.read().unwrap(), 435);
}

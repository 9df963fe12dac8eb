// Threads that share vectors by counted pointers and give them back.
// command: errors
// expect: nothing
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::thread;

fn main() {
    let all = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let all = all.clone();
            thread::spawn(move || {
                for i in 0..20 {
                    all.lock().unwrap().push(vec![number; i]);
                }
                format!("thread {number}")
            })
        })
        .collect();
    let names: Vec<String> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let all = Arc::into_inner(all).unwrap().into_inner().unwrap();
    black_box((all.len(), names));
}

// Scoped threads with names, which are released with their handles.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;
use std::thread;

fn main() {
    let mut numbers = vec![1u64; 300];
    thread::scope(|scope| {
        for (i, part) in numbers.chunks_mut(100).enumerate() {
            let builder = thread::Builder::new().name(format!("worker {i}"));
            builder.spawn_scoped(scope, move || part.fill(black_box(3))).unwrap();
        }
    });
    assert_eq!(numbers.iter().sum::<u64>(), 900);
}

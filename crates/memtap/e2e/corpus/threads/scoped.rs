// Scoped threads that each have a part of a vector.
// command: race
// expect: nothing
use std::hint::black_box;
use std::thread;

fn main() {
    let mut numbers = vec![1u64; 400];
    thread::scope(|scope| {
        for part in numbers.chunks_mut(100) {
            scope.spawn(move || {
                for number in part {
                    *black_box(number) += 1;
                }
            });
        }
    });
    assert_eq!(numbers.iter().sum::<u64>(), 800);
}

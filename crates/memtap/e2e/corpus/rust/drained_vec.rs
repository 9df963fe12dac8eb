// Keeps a pointer to an element while the vector grows.
// command: errors
// expect: use_after_free
use std::hint::black_box;

fn main() {
    let mut numbers = vec![1u64; 30];
    let at = black_box(&raw mut numbers[4]);
    for i in 0..60 {
        numbers.push(i);
    }
    black_box(&numbers);
    unsafe { black_box(at).write_volatile(3) }; // here
}

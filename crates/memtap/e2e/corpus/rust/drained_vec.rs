// Keeps a pointer to an element while the vector grows.
// command: errors
// expect: use_after_free
use std::hint::black_box;

fn main() {
    let mut numbers = vec![1u64; 30];
    let at = black_box(&raw mut numbers[4]);
    // Where there is room behind it, it grows in its place.
    let (before, mut behind) = (numbers.as_ptr(), Vec::new());
    while numbers.as_ptr() == before {
        behind.push(black_box(Box::new([0u64; 20])));
        numbers.push(7);
    }
    black_box(&numbers);
    unsafe { black_box(at).write_volatile(3) }; // here
}

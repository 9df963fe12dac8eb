// Reads a box through a pointer after it was dropped.
// command: errors
// expect: use_after_free
use std::hint::black_box;

fn main() {
    let number = Box::new([5u64; 6]);
    let at = black_box(&raw const *number);
    drop(black_box(number));
    let value = unsafe { (*black_box(at))[3] }; // here
    black_box(value);
}

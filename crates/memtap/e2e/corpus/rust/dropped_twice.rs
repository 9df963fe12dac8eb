// Makes two boxes of one pointer.
// command: errors
// expect: invalid_free
use std::hint::black_box;

fn main() {
    let at = Box::into_raw(Box::new([1u64; 20]));
    let first = unsafe { Box::from_raw(black_box(at)) };
    drop(black_box(first));
    let second = unsafe { Box::from_raw(black_box(at)) };
    drop(black_box(second));
}

// Takes an element behind the end of a vector without the check.
// command: errors
// expect: out_of_bounds
use std::hint::black_box;

fn main() {
    let numbers = black_box(vec![1u64, 2, 3]);
    let at = black_box(3);
    let value = unsafe { *black_box(numbers.as_ptr()).add(at) }; // here
    black_box(value);
}

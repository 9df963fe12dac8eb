// Reads before a vector.
// command: errors
// expect: out_of_bounds
use std::hint::black_box;

fn main() {
    let numbers = black_box(vec![7u32; 10]);
    let value = unsafe { black_box(numbers.as_ptr()).offset(black_box(-1)).read_volatile() }; // here
    black_box((value, numbers));
}

// Decides by a vector whose length was set before anything was written.
// command: errors
// expect: uninitialised
use std::hint::black_box;

fn main() {
    let mut numbers: Vec<u32> = Vec::with_capacity(64);
    unsafe { numbers.set_len(64) };
    let numbers = black_box(numbers);
    if numbers[9] > 3 { // here
        black_box(1);
    }
}

// Reads behind a static array without the check.
// command: errors
// expect: out_of_bounds
// memtap misses: the address was not computed from the array's start with an index
use std::hint::black_box;

static DAYS: [u16; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

fn main() {
    let days = black_box(&DAYS);
    let mut all = 0;
    for month in 1..=black_box(12) {
        all += unsafe { *days.as_ptr().add(month) } as u32; // here
    }
    black_box(all);
}

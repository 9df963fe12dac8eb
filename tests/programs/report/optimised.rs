// A variable in optimised code, which has no frame pointer: an array that is filled 100 times through a pointer.
use std::hint::black_box;

#[inline(never)]
fn fill(rounds: u64) -> u64 {
    let mut row = [0_u64; 25];
    for round in 0..rounds {
        for place in black_box(&mut row).iter_mut() {
            unsafe { std::ptr::from_mut(place).write_volatile(round) };
        }
    }
    black_box(&row).iter().sum()
}

fn main() {
    assert_eq!(fill(black_box(100)), 25 * 99);
}

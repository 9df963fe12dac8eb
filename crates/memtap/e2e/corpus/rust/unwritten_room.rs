// Elements are written into the spare room of a vector before its length is set.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;

fn main() {
    let mut numbers: Vec<u32> = Vec::with_capacity(64);
    for (i, slot) in numbers.spare_capacity_mut().iter_mut().enumerate() {
        slot.write(i as u32);
    }
    unsafe { numbers.set_len(64) };
    let large = numbers.iter().filter(|number| **black_box(number) > 50).count();
    assert_eq!(large, 13);
}

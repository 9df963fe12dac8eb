// Writes behind a local array through its pointer.
// command: errors
// expect: out_of_bounds
// memtap misses: the address was not computed from the array's start with an index
use std::hint::black_box;

#[inline(never)]
fn fill(count: usize) -> u32 {
    let mut guard = [[0u32; 8]; 2];
    let numbers = &mut guard[0];
    let at = black_box(numbers.as_mut_ptr());
    for i in 0..count {
        unsafe { at.add(i).write_volatile(i as u32) }; // here
    }
    black_box(&guard)[0][3]
}

fn main() {
    black_box(fill(black_box(9)));
}

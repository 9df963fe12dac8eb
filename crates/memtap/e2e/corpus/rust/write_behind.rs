// Writes behind a boxed slice.
// command: errors
// expect: out_of_bounds
use std::hint::black_box;

fn main() {
    let mut bytes = vec![0u8; 40].into_boxed_slice();
    let at = black_box(bytes.as_mut_ptr());
    unsafe { at.add(black_box(40)).write_volatile(1) }; // here
    black_box(bytes);
}

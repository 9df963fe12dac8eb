// Gives a block of malloc to a box, whose release by Rust's allocator is free as well.
// command: errors
// expect: nothing
use std::hint::black_box;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut u64;
}

fn main() {
    let at = unsafe { malloc(8) };
    unsafe { at.write(3) };
    let number = unsafe { Box::from_raw(black_box(at)) };
    black_box(&*number);
    std::mem::forget(number);
    unsafe extern "C" {
        fn free(block: *mut u64);
    }
    unsafe { free(at) };
}

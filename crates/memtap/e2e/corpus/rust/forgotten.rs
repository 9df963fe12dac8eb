// Forgets a vector, so that its memory is lost.
// command: errors
// record: --data
// expect: leak definite
use std::hint::black_box;

#[inline(never)]
fn make() -> usize {
    let numbers = vec![3u64; black_box(100)];
    let len = numbers.len();
    std::mem::forget(black_box(numbers));
    len
}

#[inline(never)]
fn clear_stack() {
    black_box([0u64; 300]);
}

fn main() {
    black_box(make());
    clear_stack();
}

// A raw pointer into a vector that has moved.
// stale: <freed:@*> by * loads=1
fn main() {
    let mut numbers = vec![9u32; 1000];
    let guard = vec![1u8; 16];
    let inside = std::hint::black_box(&numbers[500] as *const u32);
    numbers.extend_from_slice(&[8; 100_000]);
    let value = unsafe { std::ptr::read_volatile(inside) };
    std::hint::black_box((&numbers, &guard));
    std::process::exit((value != 9) as i32);
}

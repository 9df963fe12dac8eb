// A raw pointer into a box that was dropped.
// stale: <freed:@*> by * loads=1
fn main() {
    let boxed = Box::new([7u64; 64]);
    let inside = std::hint::black_box(&boxed[32] as *const u64);
    drop(boxed);
    let value = unsafe { std::ptr::read_volatile(inside) };
    std::process::exit((value != 7) as i32);
}

// Rust: statics, atomics, Box and Vec. Volatile accesses are one access each.
// expect: boxes::COUNTER size=4 loads=101 stores=100
// expect: boxes::ATOMIC size=8 loads=1 modifies=50
// expect: boxes::TABLE size=2 loads=16 stores=32
// expect: <malloc@boxes::in_a_box> size=8 loads=10 stores=11
// expect: <malloc@boxes::in_a_vec> size=1 loads=64 stores=64
// status: 7
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

static mut COUNTER: u32 = 0;
static ATOMIC: AtomicU64 = AtomicU64::new(0);
static mut TABLE: [u16; 64] = [1; 64];

#[inline(never)]
fn in_a_box() -> u64 {
    let mut block: Box<[u64; 1]> = unsafe { Box::new_uninit().assume_init() };
    let place: *mut u64 = block.as_mut_ptr();
    unsafe { place.write_volatile(0) };
    let mut sum = 0;
    for i in 0..10 {
        unsafe { place.write_volatile(i) };
    }
    for _ in 0..10 {
        sum += unsafe { place.read_volatile() };
    }
    let last = std::hint::black_box(block);
    drop(last);
    sum
}

#[inline(never)]
fn in_a_vec() -> u64 {
    let mut block: Vec<u8> = Vec::with_capacity(64);
    let place = block.as_mut_ptr();
    let mut sum = 0;
    for i in 0..64 {
        unsafe { place.add(i).write_volatile(i as u8) };
    }
    for i in 0..64 {
        sum += unsafe { place.add(i).read_volatile() } as u64;
    }
    drop(std::hint::black_box(block));
    sum
}

fn main() {
    let counter = &raw mut COUNTER;
    let mut sum = 0;
    for i in 0..100 {
        unsafe { counter.write_volatile(i) };
    }
    for _ in 0..100 {
        sum += unsafe { counter.read_volatile() } as u64;
    }
    for _ in 0..50 {
        ATOMIC.fetch_add(2, SeqCst);
    }
    let table = &raw mut TABLE as *mut u16;
    for i in 0..32 {
        unsafe { table.add(i).write_volatile(i as u16) };
    }
    for i in 0..16 {
        sum += unsafe { table.add(4 * i).read_volatile() } as u64;
    }
    let total = in_a_box() + in_a_vec() + sum + ATOMIC.load(SeqCst) + unsafe { counter.read_volatile() } as u64;
    // 90 + 2016 + 9900 + (0 + 4 + ... + 28) + 8 + 100 + 99
    std::process::exit(if total == 12325 { 7 } else { 1 });
}

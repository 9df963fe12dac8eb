// Rust: statics, atomics, Box, raw allocations and Vec. Volatile accesses are one access each.
// expect: boxes::COUNTER size=4 loads=101 stores=100
// expect: boxes::ATOMIC size=8 loads=1 modifies=50
// expect: boxes::TABLE size=2 loads=16 stores=32
// expect: <malloc@boxes::in_a_box> size=8 loads=10 stores=11
// expect: <malloc@boxes::by_layout> size=1 loads=64 stores=64
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
fn by_layout() -> u64 {
    let layout = std::alloc::Layout::new::<[u8; 64]>();
    let place = unsafe { std::alloc::alloc(layout) };
    let mut sum = 0;
    for i in 0..64 {
        unsafe { place.add(i).write_volatile(i as u8) };
    }
    for i in 0..64 {
        sum += unsafe { place.add(i).read_volatile() } as u64;
    }
    unsafe { std::alloc::dealloc(place, layout) };
    sum
}

// A vector's block is allocated in the library's own function, whose name is not ours to expect.
#[inline(never)]
fn in_a_vec() -> u64 {
    let grown: Vec<u64> = (0..100).filter(|i| i % 2 == 0).collect();
    std::hint::black_box(&grown).iter().sum::<u64>() - 2450
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
    let total = in_a_box() + by_layout() + in_a_vec() + sum + ATOMIC.load(SeqCst) + unsafe { counter.read_volatile() } as u64;
    // 90 + 2016 + 9900 + (0 + 4 + ... + 28) + 8 + 100 + 99
    std::process::exit(if total == 12325 { 7 } else { 1 });
}

// Rust with an allocator of its own: a static array, counted. Where the compiler optimises, it puts the allocator in the place of the calls.
// build: -Copt-level=0
// translate: only
// lackey: no
// expect: own_allocator::COUNT size=8 loads=1 modifies=4
// expect: <malloc@alloc::alloc::alloc> size=8 loads=10 stores=11
// expect: <calloc@alloc::alloc::alloc_zeroed> size=1 loads=64
// status: 3
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const BYTES: usize = 1 << 20;
#[repr(align(64))]
struct Room(std::cell::UnsafeCell<[u8; BYTES]>);
unsafe impl Sync for Room {}
static ROOM: Room = Room(std::cell::UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static COUNTS: AtomicUsize = AtomicUsize::new(0);

struct Arena;
unsafe impl GlobalAlloc for Arena {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) == 1 {
            COUNT.fetch_add(1, Relaxed);
        }
        let at = USED.fetch_add(layout.size() + 64, Relaxed).next_multiple_of(64);
        unsafe { (ROOM.0.get() as *mut u8).add(at) }
    }
    #[inline(never)]
    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {
        if COUNTS.load(Relaxed) == 1 {
            COUNT.fetch_add(1, Relaxed);
        }
    }
}
#[global_allocator]
static ARENA: Arena = Arena;

#[inline(never)]
fn numbers() {
    let layout = Layout::new::<u64>();
    let place = unsafe { std::alloc::alloc(layout) } as *mut u64;
    unsafe { place.write_volatile(0) };
    for i in 0..10 {
        unsafe { place.write_volatile(i) };
        unsafe { place.read_volatile() };
    }
    unsafe { std::alloc::dealloc(std::hint::black_box(place) as *mut u8, layout) };
}

#[inline(never)]
fn zeros() {
    let layout = Layout::new::<[u8; 64]>();
    let block = unsafe { std::alloc::alloc_zeroed(layout) };
    for i in 0..64 {
        unsafe { block.add(i).read_volatile() };
    }
    unsafe { std::alloc::dealloc(std::hint::black_box(block), layout) };
}

fn main() {
    COUNTS.store(1, Relaxed);
    numbers();
    zeros();
    COUNTS.store(0, Relaxed);
    std::process::exit((COUNT.load(Relaxed) == 4) as i32 * 3);
}

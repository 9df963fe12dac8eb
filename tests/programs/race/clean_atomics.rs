// A value published by an atomic flag, and a lock made of an atomic.
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

struct Shared(UnsafeCell<[u32; 4]>);
unsafe impl Sync for Shared {}
static DATA: Shared = Shared(UnsafeCell::new([0; 4]));
static READY: AtomicBool = AtomicBool::new(false);
static LOCK: AtomicU32 = AtomicU32::new(0);
static COUNT: Shared = Shared(UnsafeCell::new([0; 4]));

fn count() {
    while LOCK.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::hint::spin_loop();
    }
    unsafe { (*COUNT.0.get())[0] += 1 };
    LOCK.store(0, Ordering::Release);
}

fn main() {
    let writer = std::thread::spawn(|| {
        unsafe { *DATA.0.get() = [1, 2, 3, 4] };
        READY.store(true, Ordering::Release);
        (0..10).for_each(|_| count());
    });
    let reader = std::thread::spawn(|| {
        while !READY.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        (0..10).for_each(|_| count());
        unsafe { (*DATA.0.get()).iter().sum::<u32>() }
    });
    writer.join().unwrap();
    assert_eq!(reader.join().unwrap(), 10);
    assert_eq!(unsafe { (*COUNT.0.get())[0] }, 20);
}

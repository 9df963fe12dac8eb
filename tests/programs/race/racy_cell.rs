// A cell that claims to be shared safely; an atomic counter beside it does not help.
// race: CELL
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

struct Cell(UnsafeCell<u32>);
unsafe impl Sync for Cell {}
static CELL: Cell = Cell(UnsafeCell::new(0));
static TICKS: AtomicU32 = AtomicU32::new(0);
static READY: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn set(value: u32) {
    unsafe { *CELL.0.get() = value } // RACE
}

fn main() {
    let spawn = |number| {
        std::thread::spawn(move || {
            // Neither is over before the other one runs.
            READY.fetch_add(1, Ordering::SeqCst);
            while READY.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            set(number);
            TICKS.fetch_add(1, Ordering::Relaxed);
        })
    };
    let threads = [spawn(0), spawn(1)];
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(unsafe { *CELL.0.get() } < 2);
}

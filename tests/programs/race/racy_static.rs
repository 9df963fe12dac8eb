// A mutable static without a lock.
// race: COUNTER
static mut COUNTER: u64 = 0;

#[inline(never)]
fn add() {
    unsafe { COUNTER += 1 } // RACE
}

fn main() {
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(add)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

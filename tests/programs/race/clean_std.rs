// What the standard library offers: scopes, a mutex, a channel, a condition, once.
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock, mpsc};

static TABLE: OnceLock<Vec<u32>> = OnceLock::new();
static TOTAL: Mutex<u32> = Mutex::new(0);
static NAMES: RwLock<Vec<u32>> = RwLock::new(Vec::new());

fn main() {
    std::thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn(move || {
                let table = TABLE.get_or_init(|| (0..10).collect());
                *TOTAL.lock().unwrap() += table.iter().sum::<u32>() + number;
                NAMES.write().unwrap().push(number);
                let _ = NAMES.read().unwrap().len();
            });
        }
    });
    let (sender, receiver) = mpsc::channel::<Box<u32>>();
    let sending = std::thread::spawn(move || (0..10).for_each(|n| sender.send(Box::new(n)).unwrap()));
    let sum: u32 = receiver.iter().map(|n| *n).sum();
    sending.join().unwrap();
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let other = Arc::clone(&pair);
    let waiting = std::thread::spawn(move || {
        let mut guard = other.0.lock().unwrap();
        while *guard == 0 {
            guard = other.1.wait(guard).unwrap();
        }
        *guard
    });
    *pair.0.lock().unwrap() = 5;
    pair.1.notify_all();
    assert_eq!((sum, waiting.join().unwrap(), *TOTAL.lock().unwrap()), (45, 5, 138));
}

//! Work on several threads whose results are consumed in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What workers and the one who takes share.
struct Queue<T> {
    /// The next number that nobody works on.
    next: usize,
    /// Results below are taken.
    taken: usize,
    results: BTreeMap<usize, T>,
    /// Nobody takes any more.
    over: bool,
}

fn lock<T>(queue: &Mutex<Queue<T>>) -> MutexGuard<'_, Queue<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `count` results on that many threads and gives them to `take` in the order of their numbers, which may end it with an error.
/// At most twice as many results as there are threads wait. `worker` is called once a thread, for what it keeps between results.
pub(crate) fn in_order<W, T: Send, E>(
    count: usize,
    threads: usize,
    worker: impl Fn() -> W + Sync,
    make: impl Fn(&mut W, usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E> {
    if threads <= 1 || count <= 1 {
        let mut worker = worker();
        return (0..count).try_for_each(|number| take(number, make(&mut worker, number)));
    }
    let queue = Mutex::new(Queue { next: 0, taken: 0, results: BTreeMap::new(), over: false });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                let mut worker = worker();
                let mut state = lock(&queue);
                while state.next < count && !state.over {
                    if state.next >= state.taken + 2 * threads {
                        state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    }
                    let number = state.next;
                    state.next += 1;
                    drop(state);
                    let result = make(&mut worker, number);
                    state = lock(&queue);
                    state.results.insert(number, result);
                    changed.notify_all();
                }
            });
        }
        let mut result = Ok(());
        for number in 0..count {
            let mut state = lock(&queue);
            let made = loop {
                if let Some(made) = state.results.remove(&number) {
                    break made;
                }
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.taken = number + 1;
            drop(state);
            changed.notify_all();
            result = take(number, made);
            if result.is_err() {
                break;
            }
        }
        lock(&queue).over = true;
        changed.notify_all();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            let mut seen = Vec::new();
            let all: Result<(), ()> = in_order(
                100,
                threads,
                || 0u64,
                |made, number| {
                    *made += 1;
                    (0..(number * 7919) % 5000).fold(0u64, |sum, n| sum ^ n as u64);
                    number * 2
                },
                |number, made| {
                    seen.push((number, made));
                    Ok(())
                },
            );
            assert_eq!(all, Ok(()));
            assert!(seen.iter().copied().eq((0..100).map(|number| (number, number * 2))), "{threads}");
        }
    }

    #[test]
    fn an_error_ends_it() {
        let stopped = in_order(
            1000,
            3,
            || (),
            |(), number| number,
            |number, _| if number < 10 { Ok(()) } else { Err(number) },
        );
        assert_eq!(stopped, Err(10));
    }
}

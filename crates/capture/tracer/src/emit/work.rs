//! Counts of the translator's work in a process.

use core::sync::atomic::{AtomicU64, Ordering};

/// What the tracer does in a process, counted.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Traps,
    TranslationNs,
    Buffers,
    WaitNs,
    Paths,
}

pub(crate) static WORK: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

impl Work {
    pub(crate) fn add(self, count: u64) {
        if let Some(word) = WORK.get(self as usize) {
            word.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing;

    #[test]
    fn each_kind_is_counted_by_itself_and_by_all_threads() {
        if !testing::is_alone(each_kind_is_counted_by_itself_and_by_all_threads) {
            return;
        }
        const KINDS: [Work; 5] = [Work::Traps, Work::TranslationNs, Work::Buffers, Work::WaitNs, Work::Paths];
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        (1..).zip(KINDS).for_each(|(count, kind)| kind.add(count));
                    }
                });
            }
        });
        let counts = WORK.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 2, 3, 4, 5].map(|count| count * 40_000));
    }
}

//! What the translator does in a process, counted.

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

//! What the translator does in a process, counted.

use core::sync::atomic::{AtomicU64, Ordering};

/// What the tracer does in a process, counted.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Exits,
    Lookups,
    Traps,
    TranslationNs,
    Buffers,
    WaitNs,
}

pub(crate) static WORK: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

impl Work {
    pub(crate) fn add(self, count: u64) {
        if let Some(word) = WORK.get(self as usize) {
            word.fetch_add(count, Ordering::Relaxed);
        }
    }
}

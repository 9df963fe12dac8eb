//! The passes of the epoch thread, as other threads see them: what delays one, and what they have done so far.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Held during a pass, and across a fork.
static PASS: Mutex<()> = Mutex::new(());
/// Windows opened again. Written by the epoch thread.
static REARMED: AtomicU64 = AtomicU64::new(0);

/// Waits for a pass under way, and keeps the next one waiting.
pub fn hold() -> MutexGuard<'static, ()> {
    PASS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many times a window was opened again.
#[must_use]
pub fn rearmed() -> u64 {
    REARMED.load(Ordering::Relaxed)
}

pub(super) fn note_opened(windows: usize) {
    REARMED.fetch_add(windows as u64, Ordering::Relaxed);
}

//! Takes a lock, even if a previous holder panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A poisoned lock means that a writer panicked between two consistent states; what it guards is still valid.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

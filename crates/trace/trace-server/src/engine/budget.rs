//! The memory that the server may use for trace data: a number of bytes, reserved before allocation.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::lock;

/// A bounded number of bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Mutex::new(0), freed: Condvar::new() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Reserves `bytes`, or nothing.
    pub(crate) fn try_reserve(&self, bytes: usize) -> bool {
        let mut used = lock(&self.used);
        let fits = used.saturating_add(bytes) <= self.limit;
        if fits {
            *used += bytes;
        }
        fits
    }

    /// Reserves `bytes` in any case: for the little without which nothing goes on.
    pub(crate) fn reserve(&self, bytes: usize) {
        *lock(&self.used) += bytes;
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&self, bytes: usize) {
        let mut used = lock(&self.used);
        *used = used.saturating_sub(bytes);
        self.freed.notify_all();
    }

    /// Returns when something was given back, or after a moment.
    pub(crate) fn wait(&self) {
        let used = lock(&self.used);
        let _ = self.freed.wait_timeout(used, Duration::from_millis(20));
    }

    /// What is reserved.
    pub(crate) fn used(&self) -> usize {
        *lock(&self.used)
    }
}

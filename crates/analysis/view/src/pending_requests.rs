//! Requests that wait for a slow answer. A new request from the same page cancels the previous one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The question that each asker waits for: set when another one came.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    waiting: Mutex<BTreeMap<u64, Arc<AtomicBool>>>,
}

impl PendingRequests {
    /// A new question, which ends the one before.
    pub(crate) fn begin(&self, asker: Option<u64>) -> Arc<AtomicBool> {
        let over = Arc::new(AtomicBool::new(false));
        if let Some(asker) = asker {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(before) = waiting.insert(asker, over.clone()) {
                before.store(true, Ordering::Relaxed);
            }
        }
        over
    }

    pub(crate) fn end(&self, asker: Option<u64>, over: &Arc<AtomicBool>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asker) =
            asker.filter(|asker| waiting.get(asker).is_some_and(|now| Arc::ptr_eq(now, over)))
        {
            waiting.remove(&asker);
        }
    }

    /// Ends all questions.
    pub(crate) fn stop(&self) {
        for over in self.waiting.lock().unwrap_or_else(PoisonError::into_inner).values() {
            over.store(true, Ordering::Relaxed);
        }
    }
}

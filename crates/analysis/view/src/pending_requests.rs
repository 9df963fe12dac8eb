//! Requests that wait for a slow answer: how far each is, and whether anybody still wants it. A new request from the same page
//! cancels the previous one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use analysis::ReadProgress;

/// The question that each asker waits for.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    waiting: Mutex<BTreeMap<u64, Arc<ReadProgress>>>,
}

impl PendingRequests {
    /// A new question, which ends the one before.
    pub(crate) fn begin(&self, asker: Option<u64>) -> Arc<ReadProgress> {
        let request = Arc::<ReadProgress>::default();
        if let Some(asker) = asker {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(before) = waiting.insert(asker, request.clone()) {
                before.cancel();
            }
        }
        request
    }

    pub(crate) fn end(&self, asker: Option<u64>, request: &Arc<ReadProgress>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asker) =
            asker.filter(|asker| waiting.get(asker).is_some_and(|now| Arc::ptr_eq(now, request)))
        {
            waiting.remove(&asker);
        }
    }

    /// How many accesses were read for an asker; none if it waits for nothing.
    pub(crate) fn counted(&self, asker: u64) -> Option<u64> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.get(&asker).map(|request| request.accesses())
    }

    /// Ends what an asker waits for.
    pub(crate) fn cancel(&self, asker: u64) {
        if let Some(request) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(&asker) {
            request.cancel();
        }
    }

    /// Ends all questions.
    pub(crate) fn stop(&self) {
        for request in self.waiting.lock().unwrap_or_else(PoisonError::into_inner).values() {
            request.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_over_when_another_comes_or_it_is_cancelled() {
        let pending = PendingRequests::default();
        let first = pending.begin(Some(1));
        let other = pending.begin(Some(2));
        assert_eq!((pending.counted(1), pending.counted(2), pending.counted(3)), (Some(0), Some(0), None));
        let second = pending.begin(Some(1));
        assert_eq!((first.is_cancelled(), second.is_cancelled(), other.is_cancelled()), (true, false, false));
        // The end of one that was replaced is not that of the other.
        pending.end(Some(1), &first);
        assert_eq!(pending.counted(1), Some(0));
        pending.cancel(1);
        assert!(second.is_cancelled());
        pending.end(Some(1), &second);
        assert_eq!(pending.counted(1), None);
        pending.cancel(1);
        pending.stop();
        assert!(other.is_cancelled());
    }
}

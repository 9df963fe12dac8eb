//! Something that takes reading the trace, and is made once, for the first who asks.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// Nothing yet, or what was made.
#[derive(Debug)]
pub(crate) struct Kept<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// Others wait while it is made.
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<T, Error>) -> Result<Arc<T>, Error> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(known) => Ok(Arc::clone(known)),
            None => Ok(Arc::clone(kept.insert(Arc::new(make()?)))),
        }
    }
}

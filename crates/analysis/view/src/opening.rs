//! How far runs are opened: their page index may have to be built first. What is asked about them waits meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::map::TraceMap;

/// Runs that are opened, or will be.
#[derive(Debug, Default)]
pub struct Opening {
    runs: OnceLock<Vec<TraceMap>>,
    /// Frames that were read, and those that there are: only to be shown, so relaxed.
    done: AtomicUsize,
    all: AtomicUsize,
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Opening {
    /// So many frames of so many are read.
    pub fn progress(&self, done: usize, all: usize) {
        self.all.store(all, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }

    /// Frames that were read, and those that there are; 0 of 0 before that is known.
    pub(crate) fn read(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }

    /// The runs, if they are opened.
    pub(crate) fn runs(&self) -> Option<&[TraceMap]> {
        self.runs.get().map(Vec::as_slice)
    }

    /// They are opened.
    pub(crate) fn show(&self, runs: Vec<TraceMap>) {
        let _ = self.runs.set(runs);
        self.end();
    }

    /// Nobody waits any longer.
    pub(crate) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// The runs, as soon as they are opened; none if they never are.
    pub(crate) fn wait(&self) -> Option<&[TraceMap]> {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_over {
            is_over = self.changed.wait(is_over).unwrap_or_else(PoisonError::into_inner);
        }
        drop(is_over);
        self.runs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken_when_runs_are_there_or_never_will_be() {
        let opening = Opening::default();
        opening.progress(3, 7);
        assert_eq!((opening.read(), opening.runs().is_none()), ((3, 7), true));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| opening.wait().is_none());
            opening.end();
            assert!(waiting.join().unwrap());
        });
        let opening = Opening::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| opening.wait().map(<[TraceMap]>::len));
            opening.show(Vec::new());
            assert_eq!(waiting.join().unwrap(), Some(0));
        });
    }
}

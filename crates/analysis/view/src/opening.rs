//! How far runs are opened: their page index may have to be built first. What is asked about them waits meanwhile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::map::TraceMap;

/// Runs that are opened, or will be.
#[derive(Debug, Default)]
pub struct Opening {
    /// None where they never will be.
    runs: OnceLock<Option<Vec<TraceMap>>>,
    /// Frames that were read, and those that there are: only to be shown, so relaxed.
    done: AtomicUsize,
    all: AtomicUsize,
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
        self.runs.get()?.as_deref()
    }

    /// They are opened. This is said once.
    pub(crate) fn show(&self, runs: Vec<TraceMap>) {
        let _ = self.runs.set(Some(runs));
    }

    /// Nobody waits any longer.
    pub(crate) fn end(&self) {
        let _ = self.runs.set(None);
    }

    /// The runs, as soon as they are opened; none if they never are.
    pub(crate) fn wait(&self) -> Option<&[TraceMap]> {
        self.runs.wait().as_deref()
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

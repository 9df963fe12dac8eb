//! How far runs are opened: their page index may have to be built first. What is asked about them waits meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};
use trace_format::BuildStep;

use crate::map::TraceMap;
use crate::sketch::Sketch;

/// Runs that are opened, or will be.
#[derive(Debug, Default)]
pub struct Opening {
    /// None where they never will be.
    runs: OnceLock<Option<Vec<TraceMap>>>,
    /// Frames that were read, and those that there are: only to be shown, so relaxed.
    done: AtomicUsize,
    all: AtomicUsize,
    /// What they have, of the run that is opened.
    sketch: Mutex<Sketch>,
}

impl Opening {
    /// One more frame is read.
    pub fn step(&self, step: &BuildStep<'_>) {
        self.all.store(step.all, Ordering::Relaxed);
        self.done.store(step.done, Ordering::Relaxed);
        let mut sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
        if step.done == 1 {
            *sketch = Sketch::default();
        }
        sketch.add(step);
    }

    /// How far it is: frames that were read, and those that there are, 0 of 0 before that is known; and a picture of what they have.
    pub(crate) fn json(&self) -> Value {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        if self.runs().is_some() {
            return json!({"opened": true, "done": done, "all": all, "sketch": null});
        }
        let sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner).json();
        json!({"opened": false, "done": done, "all": all, "sketch": sketch})
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
    use memref::ProcessId;
    use trace_format::{Interval, PageCell};

    use super::*;

    #[test]
    fn who_waits_is_woken_when_runs_are_there_or_never_will_be() {
        let opening = Opening::default();
        let cells = [PageCell { page: 3, counts: [2, 1, 0], bytes: 0, read_lines: 0, written_lines: 0 }];
        let (cycles, whole) = (Interval { min: 0, max: 3 }, Interval { min: 0, max: 99 });
        opening.step(&BuildStep { done: 1, all: 7, process: ProcessId(0), cycles, whole, cells: &cells });
        let far = opening.json();
        assert_eq!((&far["opened"], &far["done"], &far["all"]), (&json!(false), &json!(1), &json!(7)));
        assert_eq!(
            (&far["sketch"]["accesses"], &far["sketch"]["rows"][0]["address"]),
            (&json!(3), &json!("0x3000"))
        );
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
            assert_eq!(opening.json()["opened"], true);
        });
    }
}

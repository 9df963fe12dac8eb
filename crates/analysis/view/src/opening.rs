//! How far runs are opened: their page index may have to be built first. What is asked about them waits meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use trace_format::BuildStep;

use crate::map::TraceMap;
use crate::sketch::Sketch;

/// What is shown: one run, or two to compare.
pub(crate) type Runs = Arc<Vec<TraceMap>>;

#[derive(Debug, Default)]
enum State {
    /// They are opened, or will be.
    #[default]
    Opening,
    Open(Runs),
    /// Nobody will open them any more.
    Over,
}

/// Runs that are opened, or will be, once or again.
#[derive(Debug, Default)]
pub struct Opening {
    state: Mutex<State>,
    changed: Condvar,
    /// How often they were opened.
    generation: AtomicUsize,
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs, if they are opened.
    pub(crate) fn runs(&self) -> Option<Runs> {
        match &*self.state() {
            State::Open(runs) => Some(runs.clone()),
            State::Opening | State::Over => None,
        }
    }

    /// How often they were opened.
    pub(crate) fn generation(&self) -> usize {
        self.generation.load(Ordering::Relaxed)
    }

    /// They are opened. False where nobody wants to see them any more.
    pub(crate) fn show(&self, runs: Runs) -> bool {
        self.open(runs, 1)
    }

    /// They could not be opened again, and are what they were.
    pub(crate) fn keep(&self, runs: Runs) {
        self.open(runs, 0);
    }

    fn open(&self, runs: Runs, generations: usize) -> bool {
        let mut state = self.state();
        if matches!(*state, State::Over) {
            return false;
        }
        *state = State::Open(runs);
        self.generation.fetch_add(generations, Ordering::Relaxed);
        self.changed.notify_all();
        true
    }

    /// They are to be opened again, by who is given what they were until now. None where somebody opens them already.
    pub(crate) fn again(&self) -> Option<Runs> {
        let mut state = self.state();
        let State::Open(runs) = &*state else { return None };
        let runs = runs.clone();
        *state = State::Opening;
        self.done.store(0, Ordering::Relaxed);
        self.all.store(0, Ordering::Relaxed);
        *self.sketch.lock().unwrap_or_else(PoisonError::into_inner) = Sketch::default();
        Some(runs)
    }

    /// Nobody waits any longer. The runs, if they were open.
    pub(crate) fn end(&self) -> Option<Runs> {
        let before = std::mem::replace(&mut *self.state(), State::Over);
        self.changed.notify_all();
        match before {
            State::Open(runs) => Some(runs),
            State::Opening | State::Over => None,
        }
    }

    /// The runs, as soon as they are opened; none if they never are.
    pub(crate) fn wait(&self) -> Option<Runs> {
        let mut state = self.state();
        loop {
            match &*state {
                State::Open(runs) => return Some(runs.clone()),
                State::Over => return None,
                State::Opening => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
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
            let waiting = scope.spawn(|| opening.wait().map(|runs| runs.len()));
            opening.show(Arc::default());
            assert_eq!(waiting.join().unwrap(), Some(0));
            assert_eq!(opening.json()["opened"], true);
        });
    }

    #[test]
    fn what_is_opened_again_is_waited_for_and_opened_by_one_alone() {
        let opening = Opening::default();
        assert!(opening.again().is_none(), "it is opened already");
        opening.show(Arc::default());
        let before = opening.again().unwrap();
        assert!(opening.again().is_none() && opening.runs().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| opening.wait().unwrap());
            opening.show(Arc::default());
            assert!(!Arc::ptr_eq(&waiting.join().unwrap(), &before));
        });
        assert_eq!(opening.generation(), 2);
        let before = opening.again().unwrap();
        opening.keep(before);
        assert!(opening.runs().is_some());
        assert_eq!(opening.generation(), 2, "nothing new is shown");
        assert!(opening.end().is_some());
        // Who opened them meanwhile is too late.
        assert!(!opening.show(Arc::default()) && opening.wait().is_none());
    }
}

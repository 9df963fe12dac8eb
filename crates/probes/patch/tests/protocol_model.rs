//! The site's state machine under loom: every interleaving of patchers, a helper and an executor.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p patch --test protocol_model --release`. Code is
//! modelled as two bytes, one on each side of the boundary; an instruction fetch reads them one after
//! the other, and a barrier waits for the fetch in progress, as a core-serialising barrier does.
#![cfg(loom)]

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};
use patch::protocol::{Code, Progress, Protocol};

const GUARD: u8 = 0xcc;

struct Model {
    protocol: Protocol,
    front: AtomicU8,
    back: AtomicU8,
    pending: AtomicU8,
    /// Held for the length of a fetch.
    fetch: Mutex<()>,
}

impl Code for Model {
    fn write_guard(&self) {
        self.front.store(GUARD, Ordering::SeqCst);
    }
    fn write_tail(&self) {
        self.back.store(self.pending.load(Ordering::Relaxed), Ordering::SeqCst);
    }
    fn write_head(&self) {
        self.front.store(self.pending.load(Ordering::Relaxed), Ordering::SeqCst);
    }
    fn separate(&self) -> bool {
        drop(self.fetch.lock().unwrap());
        true
    }
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            protocol: Protocol::new(),
            front: AtomicU8::new(0),
            back: AtomicU8::new(0),
            pending: AtomicU8::new(0),
            fetch: Mutex::new(()),
        })
    }

    fn patch(&self, value: u8) -> bool {
        let won = self.protocol.claim().is_ok();
        if won {
            self.pending.store(value, Ordering::Relaxed);
            self.protocol.complete(self);
        }
        won
    }

    fn start(&self, value: u8) -> bool {
        let won = self.protocol.claim().is_ok();
        if won {
            self.pending.store(value, Ordering::Relaxed);
            self.protocol.start(self);
        }
        won
    }

    fn execute(&self) {
        let fetch = self.fetch.lock().unwrap();
        let front = self.front.load(Ordering::SeqCst);
        let back = self.back.load(Ordering::SeqCst);
        drop(fetch);
        assert!(front == GUARD || front == back, "fetched {front} and {back}");
    }

    fn settled(&self) -> u8 {
        let (front, back) = (self.front.load(Ordering::SeqCst), self.back.load(Ordering::SeqCst));
        assert_eq!(front, back);
        front
    }
}

#[test]
fn two_patchers_and_an_executor_never_mix() {
    loom::model(|| {
        let model = Model::new();
        let other = model.clone();
        let patcher = thread::spawn(move || other.patch(1));
        let other = model.clone();
        let executor = thread::spawn(move || other.execute());
        let second = model.patch(2);
        let first = patcher.join().unwrap();
        executor.join().unwrap();
        assert!(first || second, "one of two concurrent patches wins");
        let expect: &[u8] = match (first, second) {
            (true, false) => &[1],
            (false, true) => &[2],
            _ => &[1, 2],
        };
        assert!(expect.contains(&model.settled()));
        assert!(!model.protocol.is_live());
    });
}

#[test]
fn a_started_patch_is_finished_once_by_owner_and_helper() {
    loom::model(|| {
        let model = Model::new();
        assert!(model.start(1));
        let other = model.clone();
        let helper = thread::spawn(move || {
            other.protocol.advance(&*other);
            other.execute();
            other.protocol.advance(&*other);
        });
        model.protocol.advance(&*model);
        model.protocol.advance(&*model);
        helper.join().unwrap();
        while model.protocol.advance(&*model) != Progress::Finished {}
        assert_eq!(model.settled(), 1);
    });
}

#[test]
fn a_loser_of_a_started_patch_is_told_and_writes_nothing() {
    loom::model(|| {
        let model = Model::new();
        assert!(model.start(1));
        let other = model.clone();
        let late = thread::spawn(move || other.patch(2));
        while model.protocol.advance(&*model) != Progress::Finished {
            thread::yield_now();
        }
        let won = late.join().unwrap();
        assert_eq!(model.settled(), if won { 2 } else { 1 });
    });
}

#[test]
fn a_site_is_retired_by_one_and_never_patched_after() {
    loom::model(|| {
        let model = Model::new();
        let other = model.clone();
        let patcher = thread::spawn(move || other.patch(1));
        let retired = model.protocol.retire();
        let won = patcher.join().unwrap();
        assert!(retired || won);
        if retired && won {
            // The patch came first.
            assert_eq!(model.settled(), 1);
        }
        assert_eq!(model.patch(2), !retired);
    });
}

/// The stress run met this: a trapped thread looked between two patches and took the second one's guard for a
/// breakpoint of the program's own.
#[test]
fn a_guard_is_never_taken_for_the_programs_own_trap() {
    loom::model(|| {
        let model = Model::new();
        let other = model.clone();
        let patcher = thread::spawn(move || (1..=2).all(|value| other.patch(value)));
        let guard_stands = || model.front.load(Ordering::SeqCst) == GUARD;
        assert!(!model.protocol.is_foreign(guard_stands));
        assert!(patcher.join().unwrap());
        assert!(!model.protocol.is_live());
        model.front.store(GUARD, Ordering::SeqCst);
        assert!(model.protocol.is_foreign(guard_stands));
    });
}

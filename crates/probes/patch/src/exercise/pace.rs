//! The timing of patches: at the moment an executor announces that it is about to execute, and a little later.
//!
//! An executor that flushes lines, or fills the instruction TLB with other pages, spends only a small
//! part of its time executing the site. A patch at any other time meets no execution that it could tear.

use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest delay after an announcement, in TSC ticks: fetching a cold line takes less.
const MOST_DELAY_TICKS: u64 = 1024;
/// Looks before a waiting patcher gives its processor away.
const PATIENCE: u32 = 200;

/// One executor's announcements, in a cache line of its own. Counted up by that executor alone.
#[repr(align(64))]
#[derive(Default)]
struct Announced(AtomicU64);

/// The announcements of all executors.
pub(super) struct Turns(Vec<Announced>);

impl Turns {
    pub(super) fn new(executors: usize) -> Self {
        Self((0..executors).map(|_| Announced::default()).collect())
    }

    /// To be called by an executor just before it executes.
    pub(super) fn announce(&self, executor: usize) {
        let word = &self.0[executor].0;
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// What a patcher waits with: for the same executor each time.
    pub(super) fn waiter(&self, patcher: usize) -> Waiter<'_> {
        let announced = &self.0[patcher % self.0.len()].0;
        Waiter { announced, seen: announced.load(Ordering::Relaxed), random: 2 * patcher as u64 + 1 }
    }
}

/// A patcher's view of one executor.
pub(super) struct Waiter<'t> {
    announced: &'t AtomicU64,
    seen: u64,
    random: u64,
}

impl Waiter<'_> {
    /// Waits for an announcement after the last one that was waited for, and then for a random part of the longest delay.
    /// `false`: it was over before.
    pub(super) fn wait(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        let mut looks = 0;
        loop {
            let now = self.announced.load(Ordering::Relaxed);
            if now != self.seen {
                self.seen = now;
                break;
            }
            looks += 1;
            if looks < PATIENCE {
                core::hint::spin_loop();
                continue;
            }
            looks = 0;
            if is_over() {
                return false;
            }
            sys::yield_now();
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (start, delay) = (sys::ticks(), self.random % MOST_DELAY_TICKS);
        while sys::ticks().wrapping_sub(start) < delay {
            core::hint::spin_loop();
        }
        true
    }
}

//! A lock for state that several threads of a tracer share.
//!
//! The holder runs with the program's signals blocked, so the program waiting for the lock can't
//! interrupt it indefinitely, and it holds the lock for a bounded time. A waiter yields its time slice.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// A spinning mutual exclusion.
#[derive(Debug, Default)]
pub struct Lock<T> {
    /// 0 free, 1 held. Written by who takes (acquire) and who releases (release) it.
    held: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reachable through the guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self { held: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes it, waiting until it is free.
    pub fn lock(&self) -> Guard<'_, T> {
        while self.held.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SAFETY: sched_yield has no arguments.
            unsafe { sys::syscall(libc::SYS_sched_yield as usize, [0; 6]) };
        }
        Guard { lock: self }
    }

    /// Takes it where it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let taken = self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Made only then: a guard that is dropped frees the lock.
        taken.then(|| Guard { lock: self })
    }

    /// Makes it free in a forked child, whose other threads are gone.
    ///
    /// # Safety
    /// No guard of this process may exist, and the state that the lock guards must be whole: the forking thread held the lock
    /// during the fork, or nobody did.
    pub unsafe fn reset(&self) {
        self.held.store(0, Ordering::Release);
    }
}

/// Holds a lock until dropped.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn who_finds_it_taken_leaves_it_so() {
        let lock = Lock::new(1);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock().is_none(), "the holder still has it");
        drop(guard);
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(1));
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn four_threads_lose_no_increment() {
        let lock = std::sync::Arc::new(Lock::new(0u32));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || {
                    for _ in 0..10_000 {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 40_000);
    }
}

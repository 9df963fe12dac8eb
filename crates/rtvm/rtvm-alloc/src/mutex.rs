//! A mutex with priority inheritance: a thread that is waited for runs at the priority of who waits, so that the time a call
//! waits is bounded by the calls before it, whatever else runs.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use rtvm::heap::RawLock;

/// A pthread mutex with PTHREAD_PRIO_INHERIT.
#[derive(Debug)]
pub struct PiMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made for being used by several threads.
unsafe impl Sync for PiMutex {}
// SAFETY: it is only moved before its first use.
unsafe impl Send for PiMutex {}

impl PiMutex {
    /// A mutex that is plain until [`PiMutex::inherit`] was called.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Makes it inherit priorities. Also frees it, whoever held it: for the child of a fork.
    ///
    /// # Safety
    /// No other thread uses it, and it does not move any more.
    pub unsafe fn inherit(&self) {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised before use and destroyed after it; nobody uses the mutex meanwhile. Where
        // the kernel has no such mutexes, a plain one is what there is.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), libc::PTHREAD_PRIO_INHERIT);
            libc::pthread_mutex_init(self.0.get(), attributes.as_ptr());
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
        }
    }
}

impl Default for PiMutex {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: a pthread mutex.
unsafe impl RawLock for PiMutex {
    fn lock(&self) {
        // SAFETY: initialised statically or by `inherit`.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    unsafe fn unlock(&self) {
        // SAFETY: initialised statically or by `inherit`, and the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

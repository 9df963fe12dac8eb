//! A mutex with priority inheritance: a thread that others wait for runs at the priority of the waiting
//! threads. The time that a call waits is therefore bounded by the calls before it, whatever else runs.
//!
//! Before a thread waits in the kernel, it checks a few times whether the mutex is free ([`LOOKS`]), then yields a few times ([`YIELDS`]).
//! Usually the holder either needs less than a microsecond, or is not running. The kernel passes a contended mutex to a thread that has to
//! be woken first. All other threads then come to wait, too, and each call costs two context switches for as long as the program continues.
//! Both checks and yields are bounded. They let no thread be overtaken: as long as a thread waits in the kernel, the mutex is handed from
//! thread to thread there, and is never free. A real-time thread's yield returns at once where no other thread of its priority is ready.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use rtvm::heap::RawLock;

/// How often a thread looks before it waits in the kernel; between two looks it pauses twice as long as before.
const LOOKS: u32 = 8;
/// How often it lets others run before it waits in the kernel.
const YIELDS: u32 = 16;
/// The longest pause, in the processor's own pauses.
const LONGEST_PAUSE: u32 = 32;

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
        for look in 0..LOOKS {
            // SAFETY: initialised statically or by `inherit`.
            if unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0 {
                return;
            }
            for _ in 0..(1 << look).min(LONGEST_PAUSE) {
                std::hint::spin_loop();
            }
        }
        for _ in 0..YIELDS {
            // SAFETY: gives the processor to whoever waits for it.
            unsafe { libc::sched_yield() };
            // SAFETY: initialised statically or by `inherit`.
            if unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0 {
                return;
            }
        }
        // SAFETY: initialised statically or by `inherit`.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    unsafe fn unlock(&self) {
        // SAFETY: initialised statically or by `inherit`, and the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

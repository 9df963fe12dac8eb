//! Threads that a call is about to create, until they come up.

use tracee::lock::Lock;
use tracee::sys;

use crate::state::thread::TracedThread;

/// A thread that a clone call is about to create: it starts with this stack pointer.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) rsp: u64,
    pub(crate) resume: u64,
    pub(crate) virtual_mask: u64,
    /// Its state, made by its creator: the new thread's own stack may be small.
    pub(crate) thread: *mut TracedThread,
    /// The order of its creation: what it names when it starts.
    pub(crate) created: u64,
    pub(crate) kind: Newborn,
    /// The process of its creator, as the session numbers them.
    pub(crate) process: u32,
}

/// What is born.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newborn {
    Thread,
    /// A process that shares its creator's memory, and runs at the same time.
    Sharer,
    /// One that does while its creator waits.
    VforkChild,
    /// A thread or process that can't be told from its creator, and runs natively.
    Stranger {
        /// Its signal handlers are its creator's.
        shares_handlers: bool,
    },
}

/// Those of this process; the stack pointer of a free place is zero.
pub(crate) static BIRTHS: Lock<[Birth; 64]> = Lock::new([Birth::NONE; 64]);

/// Waits until all that are on their way have come up: the kernel keeps one SIGTRAP for a thread, and drops one that is sent while
/// the trap of its birth is. Not for long: what a call that failed has left never comes up.
pub(crate) fn wait_for_all() {
    const TURN_NS: [i64; 2] = [0, 100_000];
    const TURNS: usize = 1000;
    for _ in 0..TURNS {
        if BIRTHS.lock().iter().all(|birth| birth.rsp == 0) {
            return;
        }
        // SAFETY: the kernel reads the time.
        unsafe { sys::syscall(libc::SYS_nanosleep as usize, [TURN_NS.as_ptr() as usize, 0, 0, 0, 0, 0]) };
    }
}

// SAFETY: the pointer is only used by whoever takes the entry out of the table, under its lock.
unsafe impl Send for Birth {}

impl Birth {
    /// No thread.
    pub(crate) const NONE: Self = Self {
        rsp: 0,
        resume: 0,
        virtual_mask: 0,
        thread: core::ptr::null_mut(),
        created: 0,
        kind: Newborn::Thread,
        process: 0,
    };
}

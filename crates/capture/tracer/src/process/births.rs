//! Threads that a call is about to create, until they come up.

use tracee::lock::Lock;

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
}

/// Those of this process; the stack pointer of a free place is zero.
pub(crate) static BIRTHS: Lock<[Birth; 64]> = Lock::new([Birth::NONE; 64]);

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

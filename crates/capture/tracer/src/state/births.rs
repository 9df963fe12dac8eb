//! Threads that a call is about to create, until they start.

use core::sync::atomic::{AtomicU64, Ordering};

use tracee::lock::Lock;
use tracee::sys;

use crate::state::thread::TracedThread;

/// A thread that a clone call is about to create: it starts with this stack pointer.
#[derive(Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) rsp: u64,
    /// And comes to its trap with this one; zero: with its own.
    pub(crate) trap_rsp: u64,
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

/// So many can be on their way at a time.
pub(crate) const MOST_BIRTHS: usize = 64;

/// Those of this process; the stack pointer of a free place is zero.
pub(crate) static BIRTHS: Lock<[Birth; MOST_BIRTHS]> = Lock::new([Birth::NONE; MOST_BIRTHS]);

/// Where a new thread comes to its trap: on a stack of ours, as its own may have no room for a signal's frame and handler. Go's have 8 KiB, and
/// what lies below is the program's.
///
/// The same places as [`BIRTHS`]. Written under its lock, by the creator before the call, and read by assembly in the new thread, which
/// finds its own by its stack pointer; nobody else's is that one meanwhile.
pub(crate) static BIRTH_STACKS: [BirthStack; MOST_BIRTHS] = [const { BirthStack::none() }; MOST_BIRTHS];

/// Two stack pointers. Read by assembly.
#[repr(C)]
pub(crate) struct BirthStack {
    /// With which the thread begins; zero: nobody looks for it.
    program: AtomicU64,
    /// With which it comes to its trap.
    own: AtomicU64,
}

impl BirthStack {
    const fn none() -> Self {
        Self { program: AtomicU64::new(0), own: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, program: u64, own: u64) {
        self.own.store(own, Ordering::Relaxed);
        self.program.store(program, Ordering::Release);
    }

    pub(crate) fn clear(&self) {
        self.program.store(0, Ordering::Relaxed);
    }
}

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
        trap_rsp: 0,
        resume: 0,
        virtual_mask: 0,
        thread: core::ptr::null_mut(),
        created: 0,
        kind: Newborn::Thread,
        process: 0,
    };
}

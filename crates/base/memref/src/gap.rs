//! Gaps: what a tracer could not see, or the store could not keep. Nothing is lost silently.

use crate::{Cycle, ProcessId, ThreadId, VirtAddr, coded::coded};

coded! {
    /// Why events are missing.
    GapReason: u8 {
        /// A program that was started could not be traced (static, setuid, of another architecture).
        UntracedProgram = 0 "untraced program",
        /// Memory had to be opened for a system call that is not understood while other threads ran.
        OpenForSyscall = 1 "memory open during a system call",
        /// Memory had to be opened for an instruction that is not emulated while other threads ran.
        OpenForInstruction = 2 "memory open during an instruction",
        /// A mapping could not be traced.
        UntracedMapping = 3 "mapping not traced",
        /// A thread or process ended before its last buffer was complete.
        Killed = 4 "killed",
        /// The store could not write (disk full, quota, I/O error).
        StoreFailed = 5 "store failed",
        /// A frame of the file is damaged or missing.
        DamagedFrame = 6 "damaged frame",
        /// The program left the tracer's control (its own signal stack or system call filter).
        LostControl = 7 "lost control",
        /// The recorder did not accept more threads or processes.
        TooManyThreads = 8 "too many threads",
    }
}

/// A known number of events that are missing from a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The process concerned.
    pub process: ProcessId,
    /// The thread concerned.
    pub thread: ThreadId,
    /// Where in the thread's events.
    pub cycle: Cycle,
    /// How many events are missing, as far as known; at least 1.
    pub count: u64,
    /// Why.
    pub reason: GapReason,
    /// The instruction or mapping concerned, or zero.
    pub addr: VirtAddr,
}

//! A thread's state regarding signals. Types only.

use core::sync::atomic::AtomicU64;

use tracee::frame::{AltStack, SigInfo};

/// No stack, as in a new thread and where one was given up. One of no bytes is none, too, whatever its flags are.
pub(crate) const NO_ALT_STACK: AltStack = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };

/// A signal that came at a moment at which the program can't be told.
#[derive(Clone, Copy)]
pub(crate) struct WaitingSignal {
    pub(crate) signal: i32,
    pub(crate) info: SigInfo,
}

/// What a handler of the program has put aside, by the address of its frame; zero: none has.
#[derive(Clone, Copy)]
pub(crate) struct SetAside {
    pub(crate) frame: u64,
    pub(crate) silent: u32,
    pub(crate) allocating: u32,
}

impl SetAside {
    pub(crate) const NONE: Self = Self { frame: 0, silent: 0, allocating: 0 };
}

/// A thread's signals.
pub(crate) struct ThreadSignals {
    /// Blocked by the program, but never really blocked: SIGSEGV, SIGTRAP, SIGSYS. Bit n-1 is signal n.
    pub(crate) virtual_mask: u64,
    /// The program's own signal stack, as it sees it.
    pub(crate) alt_stack: AltStack,
    /// Ours.
    pub(crate) handler_stack: AltStack,
    /// Signals that are put off. Taken from the first place on, and emptied together.
    pub(crate) pending: [Option<WaitingSignal>; 32],
    /// Counts signals that were put off: by it a call that is about to wait sees that one has come.
    pub(crate) arrivals: AtomicU64,
    /// Faults that came and that the program blocks: of each one for the thread, and one for its process.
    pub(crate) kept: [Option<WaitingSignal>; 12],
    /// The mask that the present system call waits with, where it sets one, up to the first handler that it leads to.
    pub(crate) wait_mask: Option<u64>,
    /// The mask to set when `busy` ends: signals that came meanwhile have blocked all others.
    pub(crate) held_mask: Option<u64>,
    pub(crate) set_aside: [SetAside; 16],
    /// The timer that ends the present system call if it waits.
    pub(crate) wait_limit: Option<i32>,
    /// Length of the area of restartable sequences that was taken back from the kernel; zero: there was none.
    pub(crate) rseq_len: u32,
    /// The area that the kernel would know natively; a length of zero: none.
    pub(crate) rseq: SequenceArea,
}

/// An area of restartable sequences, as it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceArea {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) signature: u32,
}

impl SequenceArea {
    pub(crate) const NONE: Self = Self { addr: 0, len: 0, signature: 0 };
}

impl ThreadSignals {
    const NOTHING_PENDING: [Option<WaitingSignal>; 32] = [None; 32];
    const NOTHING_KEPT: [Option<WaitingSignal>; 12] = [None; 12];

    /// Of a thread that begins, whose handlers have that stack.
    pub(crate) const fn new(handler_stack: AltStack) -> Self {
        Self {
            virtual_mask: 0,
            alt_stack: NO_ALT_STACK,
            handler_stack,
            pending: Self::NOTHING_PENDING,
            arrivals: AtomicU64::new(0),
            kept: Self::NOTHING_KEPT,
            wait_mask: None,
            held_mask: None,
            set_aside: [SetAside::NONE; 16],
            wait_limit: None,
            rseq_len: 0,
            rseq: SequenceArea::NONE,
        }
    }

    /// Of what waits, nothing does any more.
    pub(crate) fn forget_waiting(&mut self) {
        self.pending = Self::NOTHING_PENDING;
        self.kept = Self::NOTHING_KEPT;
    }

    /// Whether some are put off.
    pub(crate) fn are_pending(&self) -> bool {
        self.pending.first().is_some_and(Option::is_some)
    }
}

//! What a thread is about to do to watched bytes. Types only.

use crate::state::touched::Touched;

/// Watchpoints, for a thread.
pub(crate) struct ThreadWatch {
    /// What the present instruction touches.
    pub(crate) stepped: Touched,
    /// What a call that reads from a stream is about to write.
    pub(crate) streamed: Touched,
    /// The registers before that instruction, or before the present system call: for the stack of a hit.
    pub(crate) before: x86::Registers,
    /// The thread's own stack: zeros as long as nobody has looked.
    pub(crate) stack: OwnStack,
}

/// From where to where a thread's own stack goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnStack {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl ThreadWatch {
    /// Of a thread that begins.
    pub(crate) fn new() -> Self {
        Self {
            stepped: Touched::new(),
            streamed: Touched::new(),
            before: x86::Registers::default(),
            stack: OwnStack::default(),
        }
    }
}

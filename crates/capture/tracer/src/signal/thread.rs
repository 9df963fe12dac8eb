//! What signals are to a thread. Types alone.

use tracee::frame::SigInfo;

/// A signal that came at a moment at which the program can't be told.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) signal: i32,
    pub(crate) info: SigInfo,
}

/// What a handler of the program has put aside, by the address of its frame.
#[derive(Clone, Copy)]
pub(crate) struct Suspended {
    pub(crate) frame: u64,
    pub(crate) silent: u32,
    pub(crate) allocating: u32,
}

impl Suspended {
    pub(crate) const NONE: Self = Self { frame: 0, silent: 0, allocating: 0 };
}

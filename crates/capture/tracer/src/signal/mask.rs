//! Sets of signals: bit n-1 is signal n.

/// The bit of a signal in a mask.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The signals that the tracer lives on.
pub(crate) const OURS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGTRAP) | bit(libc::SIGSYS);
/// Faults of instructions: they must get through while one of our stubs runs.
pub(crate) const FAULTS: u64 = OURS | bit(libc::SIGBUS) | bit(libc::SIGFPE) | bit(libc::SIGILL);

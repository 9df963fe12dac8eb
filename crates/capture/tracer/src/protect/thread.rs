//! What a thread does under page protection. Types alone.

/// An instruction that runs with memory open, under the trap flag.
#[derive(Clone, Copy)]
pub(crate) struct SingleStep {
    pub(crate) active: bool,
    /// The program had the trap flag set itself.
    pub(crate) program_traps: bool,
    /// The signal mask to go back to.
    pub(crate) mask: u64,
    /// Starts of the ranges that are open meanwhile; zero: none.
    pub(crate) opened: [u64; 4],
}

//! A thread's state under page protection. Types only.

/// An instruction that runs with memory open, under the trap flag.
#[derive(Clone, Copy)]
pub(crate) struct OpenStep {
    pub(crate) active: bool,
    /// The program had the trap flag set itself.
    pub(crate) program_traps: bool,
    /// The signal mask to go back to.
    pub(crate) mask: u64,
    /// Starts of the ranges that are open meanwhile; zero: none.
    pub(crate) opened: [u64; 4],
}

/// What page protection knows of a thread.
pub(crate) struct ThreadProtection {
    /// Bursts in a row that found one access only.
    pub(crate) lone_bursts: u32,
    pub(crate) step: OpenStep,
    /// Where its base of gs leads, once threads are told apart by that; null before.
    pub(crate) gs_words: *mut u64,
}

impl ThreadProtection {
    /// Of a thread that begins.
    pub(crate) const NEW: Self = Self {
        lone_bursts: 0,
        step: OpenStep { active: false, program_traps: false, mask: 0, opened: [0; 4] },
        gs_words: core::ptr::null_mut(),
    };
}

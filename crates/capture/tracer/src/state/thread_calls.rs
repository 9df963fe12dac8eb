//! What a thread has begun of calls that are recorded as one event. Types only.

/// A routine that runs once, and what it is for.
#[derive(Clone, Copy)]
pub(crate) struct OnceRoutine {
    pub(crate) control: u64,
    pub(crate) routine: usize,
    pub(crate) return_to: u64,
}

impl OnceRoutine {
    pub(crate) const NONE: Self = Self { control: 0, routine: 0, return_to: 0 };
}

/// The calls that a thread is in.
pub(crate) struct ThreadCalls {
    /// Not zero inside calls whose accesses are not recorded.
    pub(crate) silent: u32,
    /// Not zero inside the functions of the allocator that are interposed.
    pub(crate) allocating: u32,
    /// The routine that a call of pthread_once is for.
    pub(crate) once: OnceRoutine,
    /// The OpenMP team that the thread works in; zero outside of parallel regions.
    pub(crate) team: u64,
    /// What is recorded belongs to a call whose order was drawn before it was made.
    pub(crate) keeps_order: bool,
}

impl ThreadCalls {
    /// Of a thread that begins.
    pub(crate) const NEW: Self =
        Self { silent: 0, allocating: 0, once: OnceRoutine::NONE, team: 0, keeps_order: false };
}

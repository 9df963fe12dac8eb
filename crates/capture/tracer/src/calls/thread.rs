//! What a thread has begun of calls that are one event. Types alone.

/// A routine that runs once, and what it is for.
#[derive(Clone, Copy)]
pub(crate) struct Once {
    pub(crate) control: u64,
    pub(crate) routine: usize,
    pub(crate) return_to: u64,
}

impl Once {
    pub(crate) const NONE: Self = Self { control: 0, routine: 0, return_to: 0 };
}

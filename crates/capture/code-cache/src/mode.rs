//! What the cache is asked for: which code a thread runs, and what its blocks do at accesses.

use crate::marks::Marks;

/// What code a thread runs. A block exists once for each mode that needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// It records.
    Record = 0,
    /// It does not.
    Quiet = 1,
    /// It does not, inside a function that is one event: its return leaves the cache.
    Silent = 2,
}

impl Mode {
    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Record, Self::Quiet, Self::Silent];
}

/// What blocks do about accesses, in [`Mode::Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// They write down where they are.
    Addresses,
    /// And the bytes.
    Data,
    /// They look whether watched bytes are near, by these marks.
    Check(Marks),
}

/// Which blocks are written, in [`Mode::Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Those that access memory. The instructions of others are counted, and blocks that follow each other are joined.
    Accesses,
    /// All, each a basic block by itself, or a part of a long one.
    Full,
}

//! Threads that one of them stops: by a kick wherever it is, or where its own state is known, to be left.

pub(crate) mod kick;
pub(crate) mod park;

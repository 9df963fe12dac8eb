//! The program's signals.

pub(crate) mod delivery;
pub(crate) mod rseq;

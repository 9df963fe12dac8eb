//! Making traces from traces: copying, cutting, repairing and merging. An
//! existing trace is never changed, except that one without an end can be closed.

mod copy;
mod merge;
mod output;
mod repair;

pub use copy::{CopyOptions, CopyReport, copy};
pub use merge::merge;
pub use repair::repair;

//! One recording of a program or a process, from start to end: `session` is the outline.

mod drain;
pub(crate) mod running;
pub(crate) mod session;
mod waiter;

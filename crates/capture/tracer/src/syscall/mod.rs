//! The program's system calls.

pub(crate) mod dispatch;
pub(crate) mod table;

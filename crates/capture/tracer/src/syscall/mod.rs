//! The program's system calls: which arguments are pointers, what is recorded of each call, and
//! which calls change memory and limits. `router` decides who makes a call. Start with `table`.

pub(crate) mod call;
pub(crate) mod code_writes;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod paths;
pub(crate) mod scratch;
pub(crate) mod table;

//! The program's system calls: which arguments are pointers, what is recorded of each, and what changes memory and limits. Who makes a
//! call is `router`'s. Start with `table`.

pub(crate) mod call;
pub(crate) mod code_writes;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod paths;
pub(crate) mod scratch;
pub(crate) mod table;

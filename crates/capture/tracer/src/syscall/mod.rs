//! The program's system calls: which arguments are pointers, and what is made of each call. Start with `dispatch`.

pub(crate) mod call;
mod code_writes;
pub(crate) mod direct;
pub(crate) mod dispatch;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod old_calls;
mod own_status;
pub(crate) mod paths;
pub(crate) mod scratch;
pub(crate) mod table;

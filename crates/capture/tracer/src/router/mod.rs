//! The entry from the program into the tracer: every signal, exit of the code cache,
//! and system call comes here. This room decides who handles it. Start with `signals`.

mod direct;
mod dispatch;
mod exits;
mod old_calls;
mod own_status;
pub(crate) mod signals;

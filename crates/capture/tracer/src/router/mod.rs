//! Everything that brings the program to the tracer comes here: a signal, an exit of the code cache, a system call. This room says who
//! handles it. Start with `signals`.

mod direct;
mod dispatch;
mod exits;
mod old_calls;
mod own_status;
pub(crate) mod signals;

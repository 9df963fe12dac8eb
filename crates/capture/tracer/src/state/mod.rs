//! What the tracer knows: once for the process, and once for each thread. What a thread is to a room is a type of that room.

pub(crate) mod process;
pub(crate) mod settings;
pub(crate) mod thread;

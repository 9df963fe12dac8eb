//! The tracer's state: of the process, and of each thread. What each room keeps of a thread is a separate
//! type here (`thread_signals`, `thread_translation`, ...); the code that uses it is in that room.

pub(crate) mod births;
pub(crate) mod known_code;
pub(crate) mod process;
pub(crate) mod settings;
pub(crate) mod thread;
pub(crate) mod thread_calls;
pub(crate) mod thread_protection;
pub(crate) mod thread_signals;
pub(crate) mod thread_system_call;
pub(crate) mod thread_translation;
pub(crate) mod thread_watch;
pub(crate) mod thread_work;
pub(crate) mod touched;
pub(crate) mod verify_window;

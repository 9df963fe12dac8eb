//! Translated programs: the layer between the code cache of crate `code_cache` and this process.
//!
//! The program runs in the cache. It leaves the cache through the gate (for a branch to code that does not exist yet, a call
//! of one of our functions, a system call, an instruction that the tracer executes) or by a signal (a fault, the program's
//! own, the end of a buffer). What the gate does not do itself (most system calls, `router::direct`) it leaves to the handler
//! of a signal, which it enters without a signal (`raised`). Every handler follows the same pattern: it restores the program's
//! own state, does what the other rooms do for native programs, and returns to the cache at the address where the program now
//! continues. Translated and native programs therefore take the same paths through system calls, signals, threads and forks.
//!
//! malloc and its relatives are one event each here as well: while one of them runs,
//! the thread is in code that does not record, and its return leaves the cache.
//!
//! Start with `context`.

pub(crate) mod bracket;
pub(crate) mod buffer_end;
pub(crate) mod code_changes;
pub(crate) mod context;
pub(crate) mod emulation;
pub(crate) mod engine;
pub(crate) mod entry_calls;
pub(crate) mod entry_table;
pub(crate) mod gate;
pub(crate) mod own_allocators;
pub(crate) mod process;
pub(crate) mod raised;
pub(crate) mod stepping;
pub(crate) mod sync;
pub(crate) mod translated_thread;
pub(crate) mod traps;
pub(crate) mod verify;

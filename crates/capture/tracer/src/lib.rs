//! The code that runs inside a traced process: both tracers, without std.
//!
//! With page protection (MadT), the tracer removes the access rights of the program's data, bss, heap and anonymous memory.
//! Each access then faults, and the handler performs it, records it and continues (room `protect`). With translation (the
//! default), the program runs in a code cache (crate `code_cache`), and room `translate` connects it to the process.
//!
//! In both cases, every signal and system call comes to `router`, which decides who handles it; the program's own signals are
//! delivered by hand (`signal`). The kernel must be able to follow the program's pointers, so `syscall` knows the pointers of each
//! call. Threads, forks and execs are followed (`process`). malloc, memcpy and their relatives are recorded as one event each, and
//! calls that order threads become events too (`calls`, `events`). Watchpoints are a third way to look at accesses (`watch`).
//!
//! A room may use the rooms below it and no others (`cargo xtask structure`). `memory` is at the bottom. Above
//! it is `state`, with one type for what each room keeps of a thread (`state::thread_signals`,
//! `state::thread_translation`, ...). `router` and `start` are at the top. The full order is in ARCHITECTURE.md.
//!
//! With page protection, accesses to stacks, thread-local variables, code, read-only data, mapped files and the loader's memory are
//! not recorded. Neither tracer records its own accesses. The tracer resolves no names: addresses become names when a trace is read.
//!
//! Crate `interpose` turns this crate into the library that is loaded.
//! Start with `start::constructor`, which the loader calls, then `router`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod calls;
mod emit;
mod events;
mod memory;
mod module_headers;
mod process;
mod protect;
mod recording;
mod registers;
mod router;
mod signal;
mod start;
mod state;
mod stop;
mod syscall;
#[cfg(test)]
mod testing;
mod translate;
mod watch;

pub use process::give_back::note_bug;
pub use start::constructor::construct;

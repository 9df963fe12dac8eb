//! What runs inside a traced process: both tracers, without std.
//!
//! By page protection (MadT) the tracer removes the rights of the program's data, bss, heap and anonymous memory; each access
//! then faults, and the handler performs it, records it and goes on (room `protect`). By translation (the default) the program
//! runs in a code cache (crate `code_cache`), and room `translate` stands between that and the process.
//!
//! For both, every signal and system call comes to `router`, which says who handles it; the program's own signals are delivered by
//! hand (`signal`). The kernel must be able to follow the program's pointers, so `syscall` knows those of each call; threads, forks and
//! execs are followed (`process`). malloc, memcpy and their relatives are taken as one event each, and what orders threads becomes an
//! event too (`calls`, `events`). Watchpoints are a third way to look at accesses (`watch`).
//!
//! Rooms know those below them and no others (`cargo xtask structure`): `memory` is below all, then `state`, with a type for what a
//! thread is to each room (`state::thread_signals`, `state::thread_translation`, ...); `router` and `start` are above. The whole order
//! is in ARCHITECTURE.md.
//!
//! By page protection no access to stacks, thread-local variables, code, read-only data, mapped files and the loader's
//! memory is recorded, and with neither any of the tracer's own. It gives nothing a name: addresses become names when a trace
//! is read.
//!
//! Crate `interpose` makes this the library that is loaded. Start with `start::constructor`, which the loader calls, then `router`.
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

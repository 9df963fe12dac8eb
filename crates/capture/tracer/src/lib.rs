//! The tracer that runs programs natively and finds their accesses by page protection (MadT).
//!
//! A library without std that the loader puts into the program before everything else. It removes the rights of the
//! program's data, bss, heap and anonymous memory; each access then faults, and the handler performs it, records it and
//! goes on (`fault`). Memory has two views for that (`memory`). The kernel must be able to follow the program's pointers,
//! so every system call comes by here first (`dispatch`, `pointers`); signals are delivered by hand (`signals`); threads,
//! forks and execs are followed (`process`). malloc, memcpy and their relatives are taken as one event each
//! (`wrap_alloc`, `wrap_block`); what orders threads becomes an event too (`wrap_sync`, `sharing`, `translate_sync`).
//!
//! Where code is translated instead, `translate` stands between the code cache and all of that; `code_views` notices when the
//! program changes its code; `verify` compares what the cache records with single-stepping.
//!
//! By page protection it records no access to stacks, thread-local variables, code, read-only data, mapped files and the
//! loader's memory, and with neither any of its own. It gives nothing a name: addresses become names when a trace is read.
//!
//! Start with `start`, which the loader calls, then `fault`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod calls;
mod emit;
mod process;
mod protect;
mod signal;
mod state;
mod syscall;
mod translate;
mod watch;

// The names from before the rooms.
use calls::{allocations as wrap_alloc, real, synchronisation as wrap_sync};
use process::{attach, breakpoint, control, image, program, start};
use protect::{fault, sharing, views as memory};
use signal::{delivery as signals, rseq};
use syscall::{dispatch, table as pointers};
use translate::{code_views, sync as translate_sync, verify};
use watch::{locals, stack, watchpoints};

pub use process::start::construct;

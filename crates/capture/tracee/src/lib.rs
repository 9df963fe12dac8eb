//! The runtime of code that lives inside a traced process.
//!
//! A tracer is a guest in another process: the program owns the C library, the heap, errno, the signal mask
//! and the stack. This crate therefore gives a tracer what it needs without any of them: system calls by
//! number, memory straight from the kernel, one pointer of thread-local storage, a lock whose holder can't
//! be interrupted, the kernel's signal frame as types, and the memory functions that the compiler calls.
//!
//! **Rules for code in this crate and on top of it**
//! - It runs in signal handlers, with all signals blocked that the program could
//!   handle. It must not wait for anything that the interrupted program holds.
//! - It allocates only by `mmap`. It never panics: anything that can fail returns a value.
//! - It calls no function of another library, except where a wrapper runs as part of the program's own call.
//!
//! Start with [`sys`].
#![no_std]

#[cfg(test)]
extern crate std;

pub mod alloc;
pub mod frame;
pub mod guarded;
pub mod lock;
pub mod maps;
pub mod mem;
pub mod sys;
pub mod text;
pub mod tls;

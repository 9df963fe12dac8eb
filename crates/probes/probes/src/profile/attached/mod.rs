//! The profiler in a process that was already running: how it differs from a preloaded one.
//!
//! It begins in a thread of its own ([`begin`]), and it ends before the program does, in two steps ([`end`]).
//! First, the epoch thread switches off all probes and writes the profile. Then the attaching process, while
//! it has stopped all threads, has the last return addresses restored. What remains is the library itself,
//! mapped and idle; the next attachment uses it again. This file holds what both processes know of it.

pub mod begin;
pub mod children;
pub mod end;

use std::sync::atomic::{AtomicU32, Ordering};

pub use begin::start;
pub use end::settle;

/// Where a stopped thread stands; the process that attached hands over an array of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct StoppedAt {
    /// Its program counter.
    pub program_counter: usize,
    /// Its stack pointer.
    pub stack_pointer: usize,
}

/// Never attached, or left clean.
pub const IDLE: u32 = 0;
/// Probes are being made.
pub const STARTING: u32 = 1;
/// Probes are on.
pub const RUNNING: u32 = 2;
/// Written by the process that attached: the epoch thread is to end.
pub const STOPPING: u32 = 3;
/// Probes are off and the profile is written; [`settle`] is still to come. In the bits above [`STAGE`]: how many forked children did
/// not write theirs.
pub const STOPPED: u32 = 4;
/// The settings could not be read, or no thread could be made.
pub const FAILED: u32 = 5;
/// The unwinder could not be watched: exceptions would meet replaced return addresses.
pub const UNSAFE: u32 = 6;

/// The bits of [`STATE`] that hold one of these.
pub const STAGE: u32 = 0xff;

/// Which of these a word of [`STATE`] holds.
#[must_use]
pub fn stage(state: u32) -> u32 {
    state & STAGE
}

/// Whether this process is attached to and has not been left: there is a profile to write.
#[must_use]
pub fn is_profiling() -> bool {
    matches!(STATE.load(Ordering::Relaxed), RUNNING | STOPPING)
}

/// Where the attachment stands; written by this library, and as [`STOPPING`] by the process that attached.
pub static STATE: AtomicU32 = AtomicU32::new(IDLE);

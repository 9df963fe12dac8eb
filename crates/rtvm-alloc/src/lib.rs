//! The real-time heap ([`rtvm::RtHeap`]) for programs in C and for LD_PRELOAD: arenas from the kernel, a lock that real-time
//! threads can wait for, and the helper that gives pages back.
//!
//! `include/memtap_rtheap.h` documents the C interface, `capi` has it; [`Heap`] is what both it and the preloaded malloc
//! (`crates/rtvm-preload`) are made of. No call of the heap makes a system call but for the lock where it is contended.

pub mod capi;
mod heap;
mod mutex;

pub use heap::{Arena, Heap};
pub use mutex::PiMutex;

//! The real-time heap ([`rtvm::RtHeap`]) with arenas from the kernel, a lock that real-time threads can wait for, and the
//! helper that gives pages back.
//!
//! [`Heap`] is what both the C interface (`crates/rtvm/rtvm-capi`) and the preloaded malloc (`crates/rtvm/rtvm-preload`) are made of. No
//! call of the heap makes a system call but for the lock where it is contended.

mod heap;
mod mutex;

pub use heap::{Arena, Heap, RETURN_BYTES};
pub use mutex::PiMutex;

//! The real-time heap ([`rtvm::RtHeap`]) with arenas from the kernel, a lock that real-time threads can wait for, and the
//! helper that gives pages back. In front of it are caches of blocks of up to 64 KiB, one per thread ([`ThreadCache`]).
//!
//! [`Heap`] is the basis of both the C interface (`crates/rtvm/rtvm-capi`) and the preloaded malloc
//! (`crates/rtvm/rtvm-preload`). Calls of the heap make no system calls, except for the lock when it is contended.

#[cfg(not(loom))]
mod cache;
#[cfg(not(loom))]
mod classes;
mod depot;
#[cfg(not(loom))]
mod heap;
#[cfg(not(loom))]
mod mutex;

#[cfg(not(loom))]
pub use cache::{SHELF_BYTES, THREAD_BYTES, ThreadCache};
#[cfg(not(loom))]
pub use classes::{BATCH, MOST_BYTES};
pub use depot::{SLOTS, Shelf};
#[cfg(not(loom))]
pub use heap::{Arena, Heap, RETURN_BYTES};
#[cfg(not(loom))]
pub use mutex::PiMutex;

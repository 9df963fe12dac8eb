//! When the helper thread that gives pages back is started.
//!
//! It is not started before the program has allocated so much that there may be something to give back: a program that
//! uses little stays single-threaded, which some programs have to be. A browser's zygote exits if it finds a second
//! thread, and the kernel lets no multi-threaded process into another user namespace. The helper is started by a call that
//! allocates memory, never by one that releases it: the C library frees under a lock that thread creation takes as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtvm_alloc::Heap;

/// Bytes that a program has to take before.
const FIRST_BYTES: u64 = 16 << 20;
/// No call starts it: it runs, or is not wanted.
const NEVER: u64 = u64::MAX;

/// Whether the program may have a helper. Written when the library is loaded.
static IS_ALLOWED: AtomicBool = AtomicBool::new(false);
/// The heap's count of taken bytes from which on the next call starts it. Who exchanges it for [`NEVER`] does so.
static START_AT: AtomicU64 = AtomicU64::new(NEVER);

/// From now on it may be started.
pub(crate) fn allow(heap: &Heap) {
    START_AT.store(heap.taken_bytes() + FIRST_BYTES, Ordering::Relaxed);
    IS_ALLOWED.store(true, Ordering::Relaxed);
}

/// In a forked child, which has no helper: what it takes counts from here.
pub(crate) fn begin_anew(heap: &Heap) {
    if IS_ALLOWED.load(Ordering::Relaxed) {
        allow(heap);
    }
}

/// After a call that took memory.
#[inline]
pub(crate) fn start_if_worth_it(heap: &'static Heap) {
    if heap.taken_bytes() >= START_AT.load(Ordering::Relaxed) {
        start(heap);
    }
}

#[cold]
fn start(heap: &'static Heap) {
    // Making a thread allocates: this comes back here, and finds that it was done.
    if START_AT.swap(NEVER, Ordering::Relaxed) != NEVER {
        // SAFETY: a static that never ends. Without helper, the heap just keeps its pages.
        let _ = unsafe { heap.start_helper() };
    }
}

//! The heap for several threads, and as Rust's global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use super::RtHeap;
use crate::Error;

/// A lock that the heap's calls are made under.
///
/// # Safety
/// Between the return of `lock` and the call of `unlock`, no other `lock` returns.
pub unsafe trait RawLock {
    /// Waits until the lock is free, and takes it.
    fn lock(&self);
    /// Frees it.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn unlock(&self);
}

/// Tickets: who asks first is served first, so waiting is bounded by the number of threads. It spins, which is right where
/// each thread has its own processor; others want a lock with priority inheritance (`crates/rtvm/rtvm-alloc` has one).
#[derive(Debug, Default)]
pub struct TicketLock {
    /// The next ticket. Written by those who come, with no ordering: it protects nothing.
    next: AtomicU32,
    /// Who is served. Written by the holder with release, read with acquire.
    served: AtomicU32,
}

impl TicketLock {
    /// A free lock.
    pub const fn new() -> Self {
        Self { next: AtomicU32::new(0), served: AtomicU32::new(0) }
    }
}

// SAFETY: tickets are drawn once each, and `served` moves on only when the holder of a ticket is done.
unsafe impl RawLock for TicketLock {
    fn lock(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.served.load(Ordering::Acquire) != ticket {
            core::hint::spin_loop();
        }
    }

    unsafe fn unlock(&self) {
        let ticket = self.served.load(Ordering::Relaxed);
        self.served.store(ticket.wrapping_add(1), Ordering::Release);
    }
}

/// A heap with a lock around it. Without an arena, every allocation fails.
#[derive(Debug)]
pub struct RtAlloc<L> {
    lock: L,
    heap: UnsafeCell<Option<RtHeap>>,
}

// SAFETY: the heap is only reached under the lock, and can itself be sent.
unsafe impl<L: RawLock + Sync> Sync for RtAlloc<L> {}

impl<L: RawLock> RtAlloc<L> {
    /// An allocator without an arena.
    pub const fn new(lock: L) -> Self {
        Self { lock, heap: UnsafeCell::new(None) }
    }

    /// The lock, for those who have to hold it around a fork.
    pub const fn raw_lock(&self) -> &L {
        &self.lock
    }

    /// Gives it a heap. One that it had is forgotten, and its blocks with it.
    pub fn set(&self, heap: RtHeap) {
        self.with_slot(|slot| *slot = Some(heap));
    }

    fn with_slot<R>(&self, call: impl FnOnce(&mut Option<RtHeap>) -> R) -> R {
        self.lock.lock();
        // SAFETY: under the lock nobody else has a reference; `call` can't keep it.
        let result = call(unsafe { &mut *self.heap.get() });
        // SAFETY: locked above.
        unsafe { self.lock.unlock() };
        result
    }

    /// Calls with the heap, under the lock.
    ///
    /// # Errors
    /// Where there is none, or the call fails.
    pub fn with<R>(&self, call: impl FnOnce(&mut RtHeap) -> Result<R, Error>) -> Result<R, Error> {
        self.with_slot(|slot| match slot {
            Some(heap) => call(heap),
            None => Err(Error::OutOfAddressSpace { bytes: 0 }),
        })
    }
}

// SAFETY: blocks come from the heap, which never gives bytes to two owners; the lock orders its calls. No call unwinds.
unsafe impl<L: RawLock> GlobalAlloc for RtAlloc<L> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.with(|heap| heap.memalign(layout.align(), layout.size())).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        let Some(block) = NonNull::new(ptr) else { return };
        // SAFETY: the caller gives up the block. An error means that it was none, and changes nothing.
        let _ = self.with(|heap| unsafe { heap.free(block) });
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(block) = NonNull::new(ptr) else { return null_mut() };
        if layout.align() <= 16 {
            // SAFETY: the caller gives up the old place.
            let moved = self.with(|heap| unsafe { heap.realloc(block, new_size) });
            return moved.map_or(null_mut(), NonNull::as_ptr);
        }
        let Ok(new) = self.with(|heap| heap.memalign(layout.align(), new_size)) else { return null_mut() };
        let kept = layout.size().min(new_size);
        // SAFETY: two different blocks of at least `kept` bytes each; the old one is given up by the caller.
        let _ = unsafe {
            block.copy_to_nonoverlapping(new, kept);
            self.with(|heap| heap.free(block))
        };
        new.as_ptr()
    }
}

//! Freed memory that the C library retains.

/// Blocks from this many bytes on are mapped one by one, and given back when they are freed.
const MAPPED_BYTES: i32 = 256 << 10;
/// More than that is not kept at the end of a heap.
const KEPT_BYTES: i32 = 1 << 20;

/// Heaps of a process that has promised a bound: one of the thread that reads, and one of the workers.
const MOST_HEAPS: i32 = 2;

/// From now on the C library gives large blocks back to the system when they are freed. By itself it keeps up to 64 MiB for each
/// thread, which a process that has promised a bound can't afford.
pub fn give_back_freed_memory() {
    // SAFETY: sets two numbers of the allocator; it may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

/// From now on all threads take memory from two heaps, not up to eight for each processor: what one of them frees, others can use.
/// For a process that has promised a bound, before it starts threads.
pub fn share_heaps() {
    // SAFETY: sets a number of the allocator; it may be called at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, MOST_HEAPS);
    }
}

//! How much processor time the program has used, and how long its threads had to wait for a processor.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How long the epoch thread wanted to sleep, and how much longer it did, in nanoseconds. Written by that thread.
static ASLEEP_NS: AtomicU64 = AtomicU64::new(0);
static LATE_NS: AtomicU64 = AtomicU64::new(0);

/// Notes a sleep of the epoch thread, which nobody ended early.
pub(super) fn note_sleep(asked: Duration, slept: Duration) {
    ASLEEP_NS.fetch_add(asked.as_nanos() as u64, Ordering::Relaxed);
    LATE_NS.fetch_add(slept.saturating_sub(asked).as_nanos() as u64, Ordering::Relaxed);
}

/// The share of their time that threads have waited for a processor, as far as the epoch thread can tell: from how late it wakes. The
/// kernel's own account is in files, which a filter of system calls may forbid to open.
pub(super) fn share_waited() -> f64 {
    let (asleep, late) = (ASLEEP_NS.load(Ordering::Relaxed), LATE_NS.load(Ordering::Relaxed));
    late as f64 / (asleep + late).max(1) as f64
}

/// That of the process, all threads together.
pub(super) fn process_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// That of the calling thread.
pub(super) fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // SAFETY: an all-zero timespec is valid, and the call fills it.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

//! The epoch thread as one of the program's threads: how other threads have it write the profile, and when it is the last one.
//!
//! A thread that ends the process may be in a signal handler that interrupted the allocator, may have a system call filter, or may be in
//! the middle of writing the profile itself. It therefore does not write, but asks the epoch thread, and waits for it, though not for ever.
//!
//! To the C library the epoch thread is an ordinary thread, so that `setuid` applies to it. The
//! price is that a process does not end with the program's last thread. [`is_alone`] detects that.

use crate::thread;
use patch::sys;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// The process whose epoch thread runs; 0: none. In the child of a fork it is the parent's, which says that there is
/// none. Written before the thread starts and when it ends.
static PRESENT_IN: AtomicU32 = AtomicU32::new(0);
/// How often a profile was asked for. Counted up by who asks, a futex that the epoch thread sleeps on.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// How many of these were answered. Written by the epoch thread, a futex that those who asked sleep on.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// How long a thread that ends the process waits for the profile.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it looks whether the epoch thread is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) fn set_present(is_present: bool) {
    PRESENT_IN.store(if is_present { std::process::id() } else { 0 }, Ordering::Release);
}

fn futex_wait(word: &AtomicU32, value: u32, for_at_most: Duration) {
    let time = libc::timespec {
        tv_sec: for_at_most.as_secs() as libc::time_t,
        tv_nsec: i64::from(for_at_most.subsec_nanos()),
    };
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [word.as_ptr() as usize, operation, value as usize, &raw const time as usize, 0, 0];
    // SAFETY: waits on our own word; the time outlives the call.
    unsafe { sys::syscall(libc::SYS_futex, arguments) };
}

fn futex_wake(word: &AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: wakes those that wait on our own word.
    unsafe { sys::syscall(libc::SYS_futex, [word.as_ptr() as usize, operation, usize::MAX >> 33, 0, 0, 0]) };
}

/// The epoch thread's sleep; `true`: somebody asks for the profile.
pub(super) fn sleep(pause: Duration) -> bool {
    let is_asked = || ASKED.load(Ordering::Acquire) != ANSWERED.load(Ordering::Relaxed);
    if !is_asked() {
        futex_wait(&ASKED, ANSWERED.load(Ordering::Relaxed), pause);
    }
    is_asked()
}

/// Tells all who asked before the profile was begun. (Who asked since is told, too: it was collected a moment ago.)
pub(super) fn note_written() {
    ANSWERED.store(ASKED.load(Ordering::Acquire), Ordering::Release);
    futex_wake(&ANSWERED);
}

/// To be called when a profile begins, in the child of a fork, too: nobody asks.
pub fn note_start() {
    ANSWERED.store(ASKED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Writes the profile, by the epoch thread where there is one; for a thread that ends the process.
pub fn write_profile() {
    if PRESENT_IN.load(Ordering::Acquire) != std::process::id() {
        super::dump::write();
        return;
    }
    let ticket = ASKED.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
    futex_wake(&ASKED);
    let begin = Instant::now();
    loop {
        let answered = ANSWERED.load(Ordering::Acquire);
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if answered.wrapping_sub(ticket) as i32 >= 0 || left.is_zero() {
            return;
        }
        if PRESENT_IN.load(Ordering::Acquire) == 0 {
            // An attachment ended meanwhile.
            super::dump::write();
            return;
        }
        futex_wait(&ANSWERED, answered, left.min(LOOK_AGAIN));
    }
}

/// Whether no thread of the program is left: all returned, called `pthread_exit`, or were killed one by one by a filter
/// of system calls. Only then may the epoch thread end, and with it the process.
pub(super) fn is_alone() -> bool {
    let main = std::process::id();
    // Its memory: a main thread that has ended stays in all lists as long as others live.
    if sys::has_memory(main) {
        return false;
    }
    // SAFETY: gettid has no arguments.
    let own = unsafe { sys::syscall(libc::SYS_gettid, [0; 6]) } as u32;
    match std::fs::read_dir("/proc/self/task") {
        Ok(threads) => threads
            .filter_map(|t| t.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .all(|t| t == main || t == own),
        // Another root directory: those are known that ever called a probed function.
        Err(_) => thread::owners().all(|tid| tid == main || tid == own),
    }
}

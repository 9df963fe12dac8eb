//! Restores the process's own state when it continues unrecorded: because it was detached from, asks to be traced, or denies itself
//! what the tracer needs. Where that is impossible because a fault of the tracer ends the process, a note is left for the recorder.

use core::sync::atomic::Ordering;

use crate::recording::breakpoint;
use crate::state::births::{BIRTH_STACKS, BIRTHS, Birth, BirthStack, MOST_BIRTHS};
use crate::state::process::PROCESS;
use crate::syscall::limits;
use crate::translate::{process, sync};

/// Gives back what is the process's. Its threads, and its signals' actions, are others' to give back.
///
/// # Safety
/// No thread of the process is in the cache or at work in the tracer but the calling one, which goes on natively.
pub(crate) unsafe fn give_back() {
    PROCESS.recording.store(false, Ordering::Release);
    PROCESS.ready.store(false, Ordering::Release);
    breakpoint::forget();
    sync::forget();
    *BIRTHS.lock() = [Birth::NONE; MOST_BIRTHS];
    BIRTH_STACKS.iter().for_each(BirthStack::clear);
    // SAFETY: the caller's promise.
    unsafe { process::forget_all() };
    if let Some(pool) = PROCESS.pool()
        && let Some(slot) = pool.process(PROCESS.number.load(Ordering::Relaxed))
    {
        slot.end();
    }
    PROCESS.pool.store(0, Ordering::Release);
    limits::give_back(true);
}

/// A fault of the tracer's ends the process: the recorder is told, whatever state it is in.
pub fn note_bug() {
    if let Some(pool) = PROCESS.pool()
        && let Some(slot) = pool.process(PROCESS.number.load(Ordering::Relaxed))
    {
        slot.fail();
    }
}

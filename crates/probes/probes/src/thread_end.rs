//! How probing of threads ends: for each thread at its end, and for all of them when an attachment ends.

use crate::{
    profile::calls,
    return_path,
    thread::{self, ThreadState},
    thread_words::{MUTED, words},
};
use patch::sys;

/// Has the end of threads noticed. To be called before threads hit probes; again changes nothing.
pub fn prepare() {
    thread::notice_ends(leave);
}

unsafe extern "C" fn leave(state: *mut libc::c_void) {
    // SAFETY: this thread's own words and its own state, both valid until the thread is gone.
    unsafe {
        (*words()).guard = MUTED;
        (*words()).counts = std::ptr::null_mut();
        (*words()).state = std::ptr::null_mut();
        let state = &mut *state.cast::<ThreadState>();
        state.shadow.restore_all(0, return_path::address());
        // A thread that was cancelled, or called pthread_exit, is inside calls.
        calls::end_above(state, 0, sys::ticks());
        state.give_back();
    }
}

/// Puts the real return addresses back in all threads.
///
/// # Safety
/// No other thread may run, and none may stand in a handler.
pub unsafe fn restore_all() {
    for state in thread::owned() {
        // SAFETY: nobody else uses the state; its stack is mapped, since its thread lives.
        unsafe {
            let state = std::ptr::from_ref(state).cast_mut();
            (*state).shadow.restore_all(0, return_path::address());
            (*state).forget_calls();
        }
    }
}

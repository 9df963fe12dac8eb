//! The functions and data that `memtap probe --pid` calls and reads in an attached process. See `probes::profile::attached`.

use probes::profile::attached::{self, StoppedAt};
use std::{
    ffi::{CStr, c_char},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

/// Starts profiling with the settings in `text`; [`memtap_probes_state`] has how it goes.
///
/// # Safety
/// `text` must be a NUL-terminated string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_probes_attach(text: *const c_char) {
    static ONCE: Once = Once::new();
    ONCE.call_once(crate::lifetime::register);
    // SAFETY: the caller vouches for it.
    attached::start(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
}

/// Ends an attachment: 1 when the process is as it was, 0 to let it run on a little and ask again.
///
/// # Safety
/// `threads` must hold `count` threads; all others than this one must be stopped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn memtap_probes_settle(threads: *const StoppedAt, count: usize) -> u32 {
    // SAFETY: the caller vouches for it.
    u32::from(unsafe { attached::settle(std::slice::from_raw_parts(threads, count)) })
}

/// The address of the word that holds the state.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn memtap_probes_state() -> &'static AtomicU32 {
    if crate::lifetime::is_running() && attached::STATE.load(Ordering::Relaxed) == attached::IDLE {
        // Preloaded and at work already.
        attached::STATE.store(attached::RUNNING, Ordering::Relaxed);
    }
    &attached::STATE
}

//! A thread's state during a system call that it makes for the program. Types only.

use core::sync::atomic::AtomicPtr;

use tracee::frame::UContext;

/// The system call of a thread.
pub(crate) struct ThreadSystemCall {
    /// The context of the call; null where it makes none. Written by the thread, read by whoever would interrupt it.
    pub(crate) calling: AtomicPtr<UContext>,
    /// A child of vfork may be using the thread's state. Set by the parent before, taken back when it makes its next call.
    pub(crate) is_lent: bool,
    /// Room that lasts until the next call, and its length.
    pub(crate) scratch: *mut u8,
    pub(crate) scratch_len: usize,
}

impl ThreadSystemCall {
    /// Of a thread that begins.
    pub(crate) const fn new() -> Self {
        Self {
            calling: AtomicPtr::new(core::ptr::null_mut()),
            is_lent: false,
            scratch: core::ptr::null_mut(),
            scratch_len: 0,
        }
    }
}

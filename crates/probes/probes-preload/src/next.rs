//! The C library's functions that this library's functions precede.

use std::{
    ffi::CStr,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The next definition of a symbol, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    addr: AtomicUsize,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, addr: AtomicUsize::new(0) }
    }

    pub(crate) fn get(&self) -> usize {
        let known = self.addr.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: a look-up of a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.addr.store(found, Ordering::Relaxed);
        found
    }

    /// Where to go on.
    pub(crate) fn bound(&self) -> usize {
        match self.get() {
            // The caller was bound to this library's definition, so there was no other: there is nothing to go on with.
            0 => std::process::abort(),
            addr => addr,
        }
    }
}

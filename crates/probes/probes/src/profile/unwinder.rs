//! Probes of the unwinder's own functions, which need the real return addresses
//! on the stack: a library that was loaded late can't interpose symbols.

use super::settings;
use crate::{module, provider::entry, registry, return_path};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether some unwinder has no probe. Written by discovery.
static UNWATCHED: AtomicBool = AtomicBool::new(false);

/// Whether all unwinders so far have their probes.
pub(super) fn is_watched() -> bool {
    !UNWATCHED.load(Ordering::Relaxed)
}

/// Functions before which the real return addresses are put back.
const BEFORE: [&str; 5] = [
    "_Unwind_RaiseException",
    "_Unwind_Resume_or_Rethrow",
    "_Unwind_Resume",
    "_Unwind_Backtrace",
    "pthread_exit",
];
/// A function at which they are replaced again, in the frames that live on.
const AFTER: &str = "__cxa_begin_catch";

extern "C" fn before_unwinding(_id: u32, frame: *mut usize) {
    return_path::restore(frame.wrapping_add(1) as usize);
}

extern "C" fn after_unwinding(_id: u32, frame: *mut usize) {
    return_path::replace_again(frame.wrapping_add(1) as usize);
}

/// Whether the function of this name gets, or would get, a probe of this file's.
pub(super) fn watches(name: &str) -> bool {
    name == CANCELLATION || name == AFTER || BEFORE.contains(&name)
}

/// What even a preloaded library cannot stand in for: the C library calls it through a pointer of its own.
const CANCELLATION: &str = "_Unwind_ForcedUnwind";

/// Gives the unwinder's functions of a module probes that look after return addresses. In a process that the library was
/// preloaded into it is one function only: the library's own symbols stand before the others. The module must be loaded.
pub(super) fn watch(index: u32) {
    let Some(module) = module::module(index) else { return };
    let was_attached = settings::is_attached();
    if !was_attached && !module.path.contains("/libgcc_s.so") {
        return;
    }
    let executable = entry::executable();
    for (at, symbol) in module.symbols().iter().enumerate() {
        let handler: registry::Handler = match symbol.name.as_str() {
            CANCELLATION => before_unwinding,
            name if was_attached && BEFORE.contains(&name) => before_unwinding,
            AFTER if was_attached => after_unwinding,
            _ => continue,
        };
        if !entry::watch(module, at, &executable, entry::Traps::Allowed, handler) {
            UNWATCHED.store(true, Ordering::Relaxed);
        }
    }
}

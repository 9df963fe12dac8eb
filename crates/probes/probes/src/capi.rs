//! The C interface of `include/memtap_probes.h`. Results are 0 or a negative code; no call throws or aborts.

use crate::{ProbeId, ProbeKind, registry};
use std::{
    ffi::{c_char, c_int},
    sync::atomic::{AtomicUsize, Ordering},
};

/// No such probe.
pub const MEMTAP_PROBE_UNKNOWN: c_int = -1;
/// The code could not be changed; another thread may be changing it.
pub const MEMTAP_PROBE_REFUSED: c_int = -2;
/// A null argument.
pub const MEMTAP_PROBE_NULL: c_int = -3;

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

fn code(result: Result<(), crate::ProbeError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(crate::ProbeError::Unknown(_)) => MEMTAP_PROBE_UNKNOWN,
        Err(_) => MEMTAP_PROBE_REFUSED,
    }
}

/// Switches a probe on with a handler.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_activate(id: u32, handler: Option<registry::Handler>) -> c_int {
    handler.map_or(MEMTAP_PROBE_NULL, |handler| code(registry::activate(ProbeId(id), handler)))
}

/// Switches a probe off.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_deactivate(id: u32) -> c_int {
    code(registry::deactivate(ProbeId(id)))
}

/// Changes a probe's handler; no code changes.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_set_handler(id: u32, handler: Option<registry::Handler>) -> c_int {
    handler.map_or(MEMTAP_PROBE_NULL, |handler| code(registry::set_handler(ProbeId(id), handler)))
}

/// How many probes there are; identifiers are below.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_count() -> u32 {
    registry::probe_count()
}

/// Kind of a probe: 0 entry, 1 exit, 2 entry with the return address on top of the stack, 3 point; negative: unknown.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_kind(id: u32) -> c_int {
    match registry::function_of(id) {
        Some((_, ProbeKind::Entry)) => 0,
        Some((_, ProbeKind::Exit)) => 1,
        Some((_, ProbeKind::EntryWithReturn)) => 2,
        Some((_, ProbeKind::Point)) => 3,
        None => MEMTAP_PROBE_UNKNOWN,
    }
}

/// Writes the name of a probe's function, cut to `size` bytes with its final NUL; the whole length without it, or a
/// negative code.
///
/// # Safety
/// `text` must be null or have room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_probe_function(id: u32, text: *mut c_char, size: usize) -> c_int {
    let Ok(metadata) = registry::metadata(ProbeId(id)) else { return MEMTAP_PROBE_UNKNOWN };
    // SAFETY: passed on.
    unsafe { hand_out(metadata.function_name.as_bytes(), text, size) }
}

/// Writes the source file of a probe's function as [`memtap_probe_function`] writes its name, and its line to `line`; 0
/// where no debug information says. Slow: it reads files.
///
/// # Safety
/// As for [`memtap_probe_function`]; `line` must be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memtap_probe_source(
    id: u32,
    text: *mut c_char,
    size: usize,
    line: *mut u32,
) -> c_int {
    let Ok(metadata) = registry::metadata(ProbeId(id)) else { return MEMTAP_PROBE_UNKNOWN };
    let (file, at) = crate::thread_words::muted(|| metadata.source()).unwrap_or_default();
    if !line.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { line.write(at) };
    }
    // SAFETY: passed on.
    unsafe { hand_out(file.as_bytes(), text, size) }
}

/// Copies a string to a caller's buffer, cut, with a final NUL; its whole length.
///
/// # Safety
/// `text` must be null or have room for `size` bytes.
unsafe fn hand_out(string: &[u8], text: *mut c_char, size: usize) -> c_int {
    if !text.is_null() && size > 0 {
        let kept = string.len().min(size - 1);
        // SAFETY: the caller vouches for `size` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(string.as_ptr(), text.cast(), kept);
            text.add(kept).write(0);
        }
    }
    string.len() as c_int
}

fn on_discovery(id: ProbeId) {
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback != 0 {
        // SAFETY: only `memtap_probe_on_discovery` stores here, a function of this type.
        let callback: extern "C" fn(u32) = unsafe { std::mem::transmute(callback) };
        callback(id.0);
    }
}

/// Sets what is called for each probe found from now on; null: nothing.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_on_discovery(callback: Option<extern "C" fn(u32)>) {
    CALLBACK.store(callback.map_or(0, |f| f as *const () as usize), Ordering::Release);
    registry::set_discovery_callback(callback.map(|_| on_discovery as fn(ProbeId)));
}

/// Finds the probes of all loaded modules; they are switched off. How many there are then.
#[unsafe(no_mangle)]
pub extern "C" fn memtap_probe_discover() -> u32 {
    crate::thread_words::muted(|| {
        for index in crate::module::refresh().fresh {
            crate::module::while_loaded(index, |_| crate::provider::probe_module(index, &|_| true));
        }
    });
    registry::probe_count()
}

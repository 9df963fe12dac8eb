//! Version 1: inline counters at fixed addresses, instruction bytes by pointer, no values of accesses.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::{INLINE_ADD_U64, Insn, function};

type InsnData = unsafe extern "C" fn(Insn) -> *const u8;
type InsnExecInline = unsafe extern "C" fn(Insn, c_int, *mut c_void, u64);

/// Written by `bind`, before any callback.
static INSN_DATA: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Written by `bind`, before any callback.
static INSN_EXEC_INLINE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Written by translated code: one load, one store, not atomic. The vCPUs of our machines run in one thread.
static TAIL: AtomicU64 = AtomicU64::new(0);

/// Finds this version's functions.
pub(super) fn bind() -> bool {
    // SAFETY: the types are those of version 1.
    let found = unsafe {
        (
            function::<InsnData>(c"qemu_plugin_insn_data"),
            function::<InsnExecInline>(c"qemu_plugin_register_vcpu_insn_exec_inline"),
        )
    };
    let (Some(data), Some(inline)) = found else { return false };
    INSN_DATA.store(data as *mut c_void, Ordering::Relaxed);
    INSN_EXEC_INLINE.store(inline as *mut c_void, Ordering::Relaxed);
    true
}

/// # Safety
/// An instruction of the block that is being translated, after `bind`.
pub(super) unsafe fn insn_data(insn: Insn, out: &mut [u8; 16]) -> usize {
    // SAFETY: stored by `bind` from a pointer of that type.
    let data: InsnData = unsafe { core::mem::transmute(INSN_DATA.load(Ordering::Relaxed)) };
    // SAFETY: the caller's promise.
    let len = unsafe { super::function::<unsafe extern "C" fn(Insn) -> usize>(c"qemu_plugin_insn_size") }
        .map_or(0, |size| {
            // SAFETY: the caller's instruction.
            unsafe { size(insn) }
        })
        .min(out.len());
    // SAFETY: the caller's instruction; QEMU keeps as many bytes as the instruction has until the translation is done.
    let bytes = unsafe { core::slice::from_raw_parts(data(insn), len) };
    out[..len].copy_from_slice(bytes);
    len
}

/// # Safety
/// An instruction of the block that is being translated, after `bind`.
pub(super) unsafe fn count_insn(insn: Insn) {
    // SAFETY: stored by `bind` from a pointer of that type.
    let inline: InsnExecInline = unsafe { core::mem::transmute(INSN_EXEC_INLINE.load(Ordering::Relaxed)) };
    // SAFETY: the counter is a static.
    unsafe { inline(insn, INLINE_ADD_U64, TAIL.as_ptr().cast(), 1) };
}

/// # Safety
/// None needed: unsafe as its counterpart of other versions is.
pub(super) unsafe fn tail(_: c_uint) -> u64 {
    TAIL.load(Ordering::Relaxed)
}

//! The functions that `-finstrument-functions` calls.

use probes::provider::instrument::on_call;
use std::arch::naked_asm;

/// Called at each instrumented function's entry with its address and the call site's.
///
/// # Safety
/// As the compiler calls it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __cyg_profile_func_enter(_function: usize, _call_site: usize) {
    naked_asm!(
        "mov rsi, rsp",
        "xor edx, edx",
        "sub rsp, 8",
        "call {on_call}",
        "add rsp, 8",
        "ret",
        on_call = sym on_call,
    );
}

/// Called at each instrumented function's exit.
///
/// # Safety
/// As the compiler calls it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __cyg_profile_func_exit(_function: usize, _call_site: usize) {
    naked_asm!(
        "mov rsi, rsp",
        "mov edx, 1",
        "sub rsp, 8",
        "call {on_call}",
        "add rsp, 8",
        "ret",
        on_call = sym on_call,
    );
}

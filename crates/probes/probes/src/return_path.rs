//! Where functions return whose return address was replaced, and how the real addresses are restored for unwinding.
//!
//! The `LD_PRELOAD` library calls [`restore`] and [`replace_again`] around functions that unwind. [`return_here`]
//! is the address on the stack; the thread's [`ShadowStack`](crate::shadow::ShadowStack) knows the real one.

use crate::{
    profile::calls,
    saved_registers::{restore_registers, save_registers},
    thread, thread_words,
};
use patch::sys;
use std::arch::naked_asm;

/// The address that stands in for return addresses.
#[inline]
#[must_use]
pub fn address() -> usize {
    return_here as *const () as usize
}

/// Where a function returns whose return address was replaced: asks the shadow stack for the real one and goes there.
/// To an unwinder it is the end of the stack.
///
/// # Safety
/// Reached by a return only, with the slot of the replaced address just below the stack pointer.
#[unsafe(naked)]
unsafe extern "C" fn return_here() {
    naked_asm!(
        "lea rsp, [rsp - 8]",
        save_registers!(),
        "lea rdi, [rbp + 80]",
        "call {on_return}",
        "mov [rbp + 80], rax",
        restore_registers!(),
        "ret",
        on_return = sym on_return,
    );
}

/// Called where a function returned: gives the real return address and ends the measurement.
extern "C" fn on_return(slot: usize) -> usize {
    let now = sys::ticks();
    let guard = thread_words::set_guard(slot | thread_words::OPAQUE);
    let returns_to = thread::existing().and_then(|thread| {
        let at = thread.shadow.position_of_slot(slot)?;
        calls::end_above(thread, at + 1, now);
        let frame = calls::end_top(thread, now)?;
        thread.note_handler(now);
        Some(frame.returns_to)
    });
    thread_words::set_guard(guard);
    match returns_to {
        Some(address) => address,
        // The slot is only ever replaced together with its frame; without it there is no way on.
        None => std::process::abort(),
    }
}

/// Puts this thread's real return addresses back, before something unwinds its stack from `sp` on.
pub fn restore(sp: usize) {
    if let Some(thread) = thread::existing() {
        thread.shadow.restore_all(sp, address());
    }
}

/// Replaces the return addresses again of this thread's frames above `sp`.
pub fn replace_again(sp: usize) {
    if let Some(thread) = thread::existing()
        && thread.stack.contains(&sp)
    {
        calls::end_dead(thread, sp, |_| false);
        thread.shadow.replace_again(address());
    }
}

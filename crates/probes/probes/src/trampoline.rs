//! The code between a site and its handler.
//!
//! Each probe has a *thunk* near its site that counts the call, and while the probe's gate is open pushes the probe's
//! identifier and jumps to the shared trampoline. That
//! saves every register a handler may change, looks the handler up by identifier and calls it. No hash, no lock; the guard
//! word in the thread's own storage makes a probe hit inside a handler a plain return.
//!
//! Deliberately not saved: flags (dead at every site a provider offers), x87 and the upper halves of vector registers
//! (handlers must not touch them; code built for baseline x86-64 does not).

use crate::{
    probe_table::{PROBE_SHIFT, PROBES_BASE},
    saved_registers::{restore_registers, save_registers},
    thread_counts::{CALLS_AT, TRAPS_AT},
    thread_words::{OPAQUE, counts_offset, words},
};
use patch::{CodeAddr, near};
use std::{arch::naked_asm, sync::atomic::Ordering};

/// How far below its guard, rounded down to 16, the trampoline's call leaves the handler's return address.
const CALL_BYTES: usize = 256 + 8;

unsafe extern "C" {
    /// Where handlers return to in the trampoline.
    static memtap_probes_returned: u8;
}

/// Whether a handler of this thread is under way above `sp`, or the thread is muted. A handler that left by `longjmp`
/// is under way no more: its return address is gone from the stack.
#[inline]
#[must_use]
pub fn is_guarded(sp: usize) -> bool {
    // SAFETY: this thread's own word.
    let guard = unsafe { (*words()).guard };
    if sp >= guard {
        return false;
    }
    // SAFETY: a guard without mark is a place on this thread's stack above `sp`, with the call's slot below it.
    guard & OPAQUE != 0
        || unsafe { *(((guard & !15) - CALL_BYTES) as *const usize) }
            == &raw const memtap_probes_returned as usize
}

/// The shared trampoline. On the stack: the identifier, then the address after the site, then the program's own.
///
/// # Safety
/// Reached from thunks only.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    naked_asm!(
        save_registers!(),
        "mov rcx, qword ptr [rip + memtap_probes_tls@GOTTPOFF]",
        "cmp rbp, qword ptr fs:[rcx]",
        "jb 3f",
        "4:",
        "mov qword ptr fs:[rcx], rbp",
        "mov edi, dword ptr [rbp + 80]",
        "lea rsi, [rbp + 88]",
        "mov rax, rdi",
        "shl rax, {shift}",
        "add rax, qword ptr [rip + {base}]",
        "call qword ptr [rax]",
        ".hidden memtap_probes_returned",
        ".globl memtap_probes_returned",
        "memtap_probes_returned:",
        "mov rcx, qword ptr [rip + memtap_probes_tls@GOTTPOFF]",
        "mov qword ptr fs:[rcx], 0",
        "2:",
        restore_registers!(),
        "lea rsp, [rsp + 8]",
        "ret",
        // Inside a handler, as it seems: if its return address stands no more where the call above put it, it was left.
        "3:",
        "mov rax, qword ptr fs:[rcx]",
        "test al, 1",
        "jnz 2b",
        "and rax, -16",
        "lea rdx, [rip + memtap_probes_returned]",
        "cmp qword ptr [rax - {call}], rdx",
        "jne 4b",
        "jmp 2b",
        call = const CALL_BYTES,
        shift = const PROBE_SHIFT,
        base = sym PROBES_BASE,
    );
}

/// Bytes of a thunk.
pub const THUNK_BYTES: usize = 72;
/// Where in a thunk the displacement of the word is that counts all calls.
const CALLS_DISPLACEMENT: usize = 26;

/// A thunk. Of an exit it pushes the identifier and goes to the trampoline. Of anything else it counts first, in the
/// thread's own words ([`crate::thread_counts`]), and goes to the trampoline only if the probe's gate is open
/// ([`crate::registry::set_gate`]): an exact count costs no more than that. A thread without such words goes there, too, to get
/// them.
fn write_thunk(place: usize, id: u32, counted: Option<u32>) {
    let mut code = [patch::INT3; THUNK_BYTES];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        code[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
        len
    };
    if let Some(function) = counted {
        let slot = PROBES_BASE.load(Ordering::Acquire) + ((id as usize) << PROBE_SHIFT);
        put(&[0x50]); // push rax
        put(&[0x64, 0x48, 0x8b, 0x04, 0x25]); // mov rax, fs:[counts]
        put(&counts_offset().to_le_bytes());
        put(&[0x48, 0x85, 0xc0]); // test rax, rax
        put(&[0x74, 8 + 5 + 10 + 4 + 3 + 2 + 1 + 1]); // jz to the handler
        put(&[0x48, 0x83, 0x80]); // add qword ptr [rax + 8 * function], 1
        put(&(function * 8).to_le_bytes());
        put(&[1]);
        let counted_at = put(&[0x48, 0x83, 0x40, CALLS_AT as u8, 1]); // add qword ptr [rax + calls], 1
        debug_assert_eq!(counted_at - 2, CALLS_DISPLACEMENT);
        put(&[0x48, 0xb8]); // mov rax, the probe
        put(&slot.to_le_bytes());
        put(&[0x48, 0x8b, 0x40, 8]); // mov rax, [rax + 8]: its gate
        put(&[0x83, 0x38, 0]); // cmp dword ptr [rax], 0
        put(&[0x7f, 1 + 1]); // jg to the handler
        put(&[0x58]); // pop rax
        put(&[0xc3]); // ret
        put(&[0x58]); // pop rax
    }
    put(&[0x68]); // push the identifier
    put(&id.to_le_bytes());
    put(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip + 0]
    put(&(enter as *const () as usize).to_le_bytes());
    // SAFETY: `place` is fresh executable memory of at least THUNK_BYTES, and no site leads there yet.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), place as *mut u8, code.len()) };
}

/// Has the thunk of a detour count its calls as traps, before a site leads to it.
pub fn count_traps(detour: CodeAddr) {
    let at = detour.0 - THUNK_BYTES + CALLS_DISPLACEMENT;
    // SAFETY: a detour of `make_detour` lies behind its thunk, which nobody executes yet.
    unsafe { (at as *mut u8).write(TRAPS_AT as u8) };
}

/// Makes the thunk of probe `id` near `site`, which counts the calls of function `counted`; `None` where no memory is near.
#[must_use]
pub fn make_thunk(site: CodeAddr, id: u32, counted: Option<u32>) -> Option<CodeAddr> {
    let place = near::allocate_near(site.0, THUNK_BYTES)?;
    write_thunk(place, id, counted);
    Some(CodeAddr(place))
}

/// Makes a detour for a site that is reached by a jump: it calls the thunk, and then goes on with `body`, which must
/// fit the rest. `body(at)` encodes the displaced instructions for the address `at`.
#[must_use]
pub fn make_detour(
    site: CodeAddr,
    id: u32,
    counted: Option<u32>,
    body_bytes: usize,
    body: impl FnOnce(usize) -> Option<Vec<u8>>,
) -> Option<CodeAddr> {
    let place = near::allocate_near(site.0, THUNK_BYTES + 5 + body_bytes)?;
    write_thunk(place, id, counted);
    let entry = place + THUNK_BYTES;
    let bytes = body(entry + 5)?;
    if bytes.len() > body_bytes {
        return None;
    }
    let displacement = (THUNK_BYTES as i32 + 5).wrapping_neg();
    // SAFETY: fresh executable memory of the size asked for, and no site leads there yet.
    unsafe {
        (entry as *mut u8).write(patch::CALL_REL32);
        ((entry + 1) as *mut i32).write_unaligned(displacement);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (entry + 5) as *mut u8, bytes.len());
    }
    Some(CodeAddr(entry))
}

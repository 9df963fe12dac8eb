//! The code between a site and its handler.
//!
//! Each probe has a *thunk* near its site that counts the call, and while the probe's gate is open pushes the probe's
//! identifier and jumps to the shared trampoline. That
//! saves every register a handler may change (nine general ones, xmm0-15: a compiler may keep values in any of them
//! across a call of a local function), looks the handler up by identifier and calls it. No hash, no lock; the guard
//! word in the thread's own storage makes a probe hit inside a handler a plain return.
//!
//! Deliberately not saved: flags (dead at every site a provider offers), x87 and the upper halves of vector registers
//! (handlers must not touch them; code built for baseline x86-64 does not).

use crate::registry::{PROBE_SHIFT, PROBES_BASE};
use patch::{CodeAddr, near};
use std::{
    arch::{asm, global_asm, naked_asm},
    sync::atomic::Ordering,
};

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".balign 16",
    ".hidden memtap_probes_tls",
    ".globl memtap_probes_tls",
    ".type memtap_probes_tls, @object",
    ".size memtap_probes_tls, 32",
    "memtap_probes_tls:",
    ".zero 32",
    ".text",
);

/// The words of the thread: the guard (stack pointer of the handler under way, maybe [`OPAQUE`]; 0: none; all ones:
/// the thread is muted), the pointer to its [`crate::thread::ThreadState`], and the one to its counts by function (0: it
/// does not count). The fourth is free.
#[inline]
#[must_use]
pub fn tls() -> *mut [usize; 4] {
    let at: *mut [usize; 4];
    // SAFETY: the initial-exec model's address of this thread's copy of the symbol above.
    unsafe {
        asm!(
            "mov {a}, qword ptr [rip + memtap_probes_tls@GOTTPOFF]",
            "add {a}, qword ptr fs:[0]",
            a = out(reg) at, options(nostack, pure, readonly),
        );
    }
    at
}

/// A guard that says nothing of where the handler's return address is: set by what is not the trampoline.
pub const OPAQUE: usize = 1;
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
    let guard = unsafe { (*tls())[0] };
    if sp >= guard {
        return false;
    }
    // SAFETY: a guard without mark is a place on this thread's stack above `sp`, with the call's slot below it.
    guard & OPAQUE != 0
        || unsafe { *(((guard & !15) - CALL_BYTES) as *const usize) }
            == &raw const memtap_probes_returned as usize
}

/// Runs `f` with this thread's probes muted: what it calls is neither measured nor counted.
pub fn muted<R>(f: impl FnOnce() -> R) -> R {
    let before = set_guard(usize::MAX);
    // SAFETY: this thread's own word.
    let counts = unsafe { std::mem::replace(&mut (*tls())[COUNTS], 0) };
    let result = f();
    // SAFETY: as above.
    unsafe { (*tls())[COUNTS] = counts };
    set_guard(before);
    result
}

/// Which of [`tls`]'s words points to the thread's counts.
pub const COUNTS: usize = 2;

/// Where the words of [`tls`] lie, from the thread pointer: the same in every thread.
fn tls_offset() -> i32 {
    let thread_pointer: usize;
    // SAFETY: on x86-64 Linux the first word of the thread control block is its own address.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) thread_pointer, options(nostack, pure, readonly)) };
    (tls() as usize).wrapping_sub(thread_pointer) as i32
}

/// Sets the guard and returns the previous one.
pub fn set_guard(value: usize) -> usize {
    // SAFETY: this thread's own word.
    unsafe { std::mem::replace(&mut (*tls())[0], value) }
}

macro_rules! save_registers {
    () => {
        "push rax
         push rcx
         push rdx
         push rsi
         push rdi
         push r8
         push r9
         push r10
         push r11
         push rbp
         mov rbp, rsp
         and rsp, -16
         sub rsp, 256
         movaps [rsp], xmm0
         movaps [rsp + 16], xmm1
         movaps [rsp + 32], xmm2
         movaps [rsp + 48], xmm3
         movaps [rsp + 64], xmm4
         movaps [rsp + 80], xmm5
         movaps [rsp + 96], xmm6
         movaps [rsp + 112], xmm7
         movaps [rsp + 128], xmm8
         movaps [rsp + 144], xmm9
         movaps [rsp + 160], xmm10
         movaps [rsp + 176], xmm11
         movaps [rsp + 192], xmm12
         movaps [rsp + 208], xmm13
         movaps [rsp + 224], xmm14
         movaps [rsp + 240], xmm15"
    };
}

macro_rules! restore_registers {
    () => {
        "movaps xmm0, [rsp]
         movaps xmm1, [rsp + 16]
         movaps xmm2, [rsp + 32]
         movaps xmm3, [rsp + 48]
         movaps xmm4, [rsp + 64]
         movaps xmm5, [rsp + 80]
         movaps xmm6, [rsp + 96]
         movaps xmm7, [rsp + 112]
         movaps xmm8, [rsp + 128]
         movaps xmm9, [rsp + 144]
         movaps xmm10, [rsp + 160]
         movaps xmm11, [rsp + 176]
         movaps xmm12, [rsp + 192]
         movaps xmm13, [rsp + 208]
         movaps xmm14, [rsp + 224]
         movaps xmm15, [rsp + 240]
         mov rsp, rbp
         pop rbp
         pop r11
         pop r10
         pop r9
         pop r8
         pop rdi
         pop rsi
         pop rdx
         pop rcx
         pop rax"
    };
}

/// The shared trampoline. On the stack: the identifier, then the address behind the site, then the program's own.
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

/// Where a function returns whose return address was replaced: asks the shadow stack for the real one and goes there.
/// To an unwinder it is the end of the stack.
///
/// # Safety
/// Reached by a return only, with the slot of the replaced address just below the stack pointer.
#[unsafe(naked)]
pub unsafe extern "C" fn return_here() {
    naked_asm!(
        "lea rsp, [rsp - 8]",
        save_registers!(),
        "lea rdi, [rbp + 80]",
        "call {on_return}",
        "mov [rbp + 80], rax",
        restore_registers!(),
        "ret",
        on_return = sym crate::shadow::on_return,
    );
}

/// Bytes of a thunk.
pub const THUNK_BYTES: usize = 64;

/// A thunk. Of an exit it pushes the identifier and goes to the trampoline. Of anything else it counts first, in the
/// thread's own array, and goes to the trampoline only if the probe's gate is open ([`crate::registry::set_gate`]): an
/// exact count costs no more than that. A thread without an array goes there, too, to get one.
fn write_thunk(place: usize, id: u32, counted: Option<u32>) {
    let mut code = [patch::INT3; THUNK_BYTES];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        code[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    if let Some(function) = counted {
        let slot = PROBES_BASE.load(Ordering::Acquire) + ((id as usize) << PROBE_SHIFT);
        put(&[0x50]); // push rax
        put(&[0x64, 0x48, 0x8b, 0x04, 0x25]); // mov rax, fs:[counts]
        put(&(tls_offset() + 8 * COUNTS as i32).to_le_bytes());
        put(&[0x48, 0x85, 0xc0]); // test rax, rax
        put(&[0x74, 8 + 10 + 4 + 3 + 1 + 2 + 1]); // jz to the second pop
        put(&[0x48, 0x83, 0x80]); // add qword ptr [rax + 8 * function], 1
        put(&(function * 8).to_le_bytes());
        put(&[1]);
        put(&[0x48, 0xb8]); // mov rax, the probe
        put(&slot.to_le_bytes());
        put(&[0x48, 0x8b, 0x40, 8]); // mov rax, [rax + 8]: its gate
        put(&[0x83, 0x38, 0]); // cmp dword ptr [rax], 0
        put(&[0x58]); // pop rax
        put(&[0x7f, 2]); // jg to the push of the identifier
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

//! The code between a site and its handler.
//!
//! Each probe has a *thunk* near its site. The thunk counts the call, and while the function's gate is open it pushes
//! the probe's identifier and jumps to the shared trampoline; where the site is a jump, both are in its *detour*. The
//! trampoline saves every register that a handler may change, looks up the handler by identifier and calls it. There is
//! no hash and no lock. The guard word in the thread's own storage makes a probe hit inside a handler a plain return.
//!
//! Deliberately not saved: flags (dead at every site a provider offers), x87 and the upper halves
//! of vector registers (handlers must not touch them; code built for baseline x86-64 does not).

use crate::{
    probe_table::{self, PROBE_SHIFT, PROBES_BASE},
    saved_registers::{restore_registers, save_registers},
    thread_counts::{CALLS_AT, TRAPS_AT},
    thread_words::{OPAQUE, counts_offset, words},
};
use patch::{CodeAddr, near};
use std::arch::naked_asm;

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
const THUNK_BYTES: usize = 72;
/// The most bytes that counting, and what follows where a gate is open, take of a detour.
const DETOUR_BYTES: usize = 80;
/// Where in what counts the displacement of the word is that counts all calls.
const CALLS_DISPLACEMENT: usize = 26;
/// The first byte of a detour that can be switched, while it is on: `test al, imm8`. The flags are dead there.
pub const DETOUR_ON: u8 = 0xa8;
/// And while it is off: a jump over what counts.
pub const DETOUR_OFF: u8 = 0xeb;

/// Some code while it is written.
struct Code {
    bytes: [u8; DETOUR_BYTES],
    len: usize,
}

impl Code {
    fn new() -> Self {
        Self { bytes: [patch::INT3; DETOUR_BYTES], len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Counts a call of `function` in the thread's own words ([`crate::thread_counts`]), and leaves for what stands `ahead` bytes
    /// behind all this, with rax pushed, where the function's gate is open ([`probe_table::gate`]): an exact count costs no more than
    /// that. A thread without such words goes there, too, to get them.
    fn count(&mut self, function: u32, gate: usize, ahead: u8) {
        self.put(&[0x50]); // push rax
        self.put(&[0x64, 0x48, 0x8b, 0x04, 0x25]); // mov rax, fs:[counts]
        self.put(&counts_offset().to_le_bytes());
        self.put(&[0x48, 0x85, 0xc0]); // test rax, rax
        self.put(&[0x74, 8 + 5 + 10 + 3 + 2 + 1 + ahead]); // jz to the handler
        self.put(&[0x48, 0x83, 0x80]); // add qword ptr [rax + 8 * function], 1
        self.put(&(function * 8).to_le_bytes());
        self.put(&[1]);
        self.put(&[0x48, 0x83, 0x40, CALLS_AT as u8, 1]); // add qword ptr [rax + calls], 1
        self.put(&[0x48, 0xb8]); // mov rax, the gate
        self.put(&gate.to_le_bytes());
        self.put(&[0x83, 0x38, 0]); // cmp dword ptr [rax], 0
        self.put(&[0x7f, 1 + ahead]); // jg to the handler
        self.put(&[0x58]); // pop rax
    }

    /// Goes to the handler of probe `id`.
    fn enter(&mut self, id: u32) {
        self.put(&[0x68]); // push the identifier
        self.put(&id.to_le_bytes());
        self.put(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip + 0]
        self.put(&(enter as *const () as usize).to_le_bytes());
    }

    /// # Safety
    /// `place` must be fresh executable memory, as much as the code is long, that no site leads to yet.
    unsafe fn write(&self, place: usize) {
        // SAFETY: the caller vouches for the place.
        unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), place as *mut u8, self.len) };
    }
}

/// Has what counts in a detour count traps, before a site leads to it. Not of one that can be switched.
pub fn count_traps(detour: CodeAddr) {
    // SAFETY: a detour of `make_detour`, which nobody executes yet.
    unsafe { ((detour.0 + CALLS_DISPLACEMENT) as *mut u8).write(TRAPS_AT as u8) };
}

/// Makes the thunk of probe `id` near `site`, which counts the calls of function `counted` and, but for an exit, calls its handler only
/// while the function's gate is open; `None` where no memory is near.
#[must_use]
pub fn make_thunk(site: CodeAddr, id: u32, counted: Option<u32>) -> Option<CodeAddr> {
    let place = near::allocate_near(site.0, THUNK_BYTES)?;
    let mut code = Code::new();
    if let Some(function) = counted {
        code.count(function, probe_table::gate_address(function)?, 1);
        code.put(&[0xc3]); // ret
        code.put(&[0x58]); // pop rax
    }
    code.enter(id);
    // SAFETY: fresh executable memory of at least THUNK_BYTES.
    unsafe { code.write(place) };
    Some(CodeAddr(place))
}

/// How a detour is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetourSwitch {
    /// At the site that leads to it.
    AtSite,
    /// By its own first byte, which is [`DETOUR_OFF`] at first.
    InDetour,
}

/// Makes a detour for a site that is reached by a jump: it does what a thunk does, and then goes on with `body`, which must
/// fit `body_bytes`. `body(at)` encodes the displaced instructions for the address `at`. What a call executes while the gate is shut
/// stands together, in one line of the cache where the displaced instructions are few.
#[must_use]
pub fn make_detour(
    site: CodeAddr,
    id: u32,
    counted: Option<u32>,
    switch: DetourSwitch,
    body_bytes: usize,
    body: impl FnOnce(usize) -> Option<Vec<u8>>,
) -> Option<CodeAddr> {
    let place = near::allocate_lines_near(site.0, DETOUR_BYTES + body_bytes)?;
    let (mut first, mut last) = (Code::new(), Code::new());
    let gate = match counted {
        Some(function) => Some((function, probe_table::gate_address(function)?)),
        None => None,
    };
    let begins_at = if switch == DetourSwitch::InDetour { 2 } else { 0 };
    // What counts is as long for every function.
    let counting_bytes = match gate {
        Some((function, gate)) => {
            let mut counting = Code::new();
            counting.count(function, gate, 0);
            counting.len
        }
        // jmp
        None => 2,
    };
    let body_at = place + begins_at + counting_bytes;
    let bytes = body(body_at)?;
    let ahead = u8::try_from(bytes.len()).ok().filter(|len| usize::from(*len) <= body_bytes && *len < 48)?;
    if switch == DetourSwitch::InDetour {
        first.put(&[DETOUR_OFF, counting_bytes as u8]);
    }
    match gate {
        Some((function, gate)) => {
            first.count(function, gate, ahead);
            last.put(&[0x58]); // pop rax
        }
        None => first.put(&[0xeb, ahead]), // jmp to the handler
    }
    // What the handler returns to is the body, by way of a jump behind this call.
    last.put(&[patch::CALL_REL32, 2, 0, 0, 0]);
    let back = bytes.len() + last.len + 2;
    last.put(&[0xeb, (back as u8).wrapping_neg()]); // jmp to the body
    last.enter(id);
    // SAFETY: fresh executable memory of the size asked for, and no site leads there yet.
    unsafe {
        first.write(place);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), body_at as *mut u8, bytes.len());
        last.write(body_at + bytes.len());
    }
    Some(CodeAddr(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 44 bytes count; with a displaced instruction and a jump back they fill a line.
    #[test]
    fn what_counts_and_what_follows_fit_a_detour() {
        let (mut counting, mut entering) = (Code::new(), Code::new());
        counting.count(3, 0x1234_5678_9abc, 0);
        entering.enter(7);
        assert_eq!(counting.bytes[CALLS_DISPLACEMENT], CALLS_AT as u8);
        assert_eq!(counting.len, 44);
        assert!(counting.len + 2 + entering.len <= THUNK_BYTES);
        assert!(2 + counting.len + 1 + 5 + 2 + entering.len <= DETOUR_BYTES);
    }
}

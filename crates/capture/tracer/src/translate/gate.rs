//! The gate: where the program's code leaves the cache by a branch, and comes back.
//!
//! It changes to the thread's signal stack, keeps the program's registers there in the order of a signal's context, and calls
//! `memtap_on_exit` (see `router::exits`), which says where to go on.

use buffers::flow::{IN_GATE_AT, Live, RSP_AT, SPILLS_AT, STACK_AT, TARGET_AT};
use core::mem::offset_of;

use tracee::frame::UContext;

use crate::registers::ALIGNMENT_FLAG;
use crate::signal::alt_stack;
use crate::state::thread::TracedThread;

/// Bytes of the vector registers' lower halves, which the gate keeps below the other registers.
pub(crate) const VECTOR_BYTES: usize = 256;

core::arch::global_asm!(
    ".globl memtap_gate",
    ".hidden memtap_gate",
    ".globl memtap_gate_loaded",
    ".hidden memtap_gate_loaded",
    ".globl memtap_gate_end",
    ".hidden memtap_gate_end",
    // The way out of the cache: the reason in eax, the program's rax in spill 1. On the thread's own signal stack, where a
    // signal's frame then comes below it; the program's registers in the order of `x86::Registers`, whose last word is the stack's.
    "memtap_gate:",
    "mov dword ptr gs:[{in_gate}], 1",
    "mov gs:[{rsp}], rsp",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "push 0",
    "push qword ptr gs:[{rsp}]",
    "push rcx",
    "push qword ptr gs:[{rax}]",
    "push rdx",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "cld",
    // With alignment checks our code would fault. (The flags that were pushed give them back.)
    "test dword ptr [rsp + {flags}], {alignment}",
    "jz 2f",
    "push 2",
    "popfq",
    "2:",
    "mov rdi, rsp",
    "mov esi, eax",
    // Our code uses these and leaves their upper parts alone.
    "sub rsp, {vectors}",
    "movups [rsp], xmm0",
    "movups [rsp + 16], xmm1",
    "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4",
    "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6",
    "movups [rsp + 112], xmm7",
    "movups [rsp + 128], xmm8",
    "movups [rsp + 144], xmm9",
    "movups [rsp + 160], xmm10",
    "movups [rsp + 176], xmm11",
    "movups [rsp + 192], xmm12",
    "movups [rsp + 208], xmm13",
    "movups [rsp + 224], xmm14",
    "movups [rsp + 240], xmm15",
    "call memtap_on_exit",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp + 16]",
    "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]",
    "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]",
    "movups xmm7, [rsp + 112]",
    "movups xmm8, [rsp + 128]",
    "movups xmm9, [rsp + 144]",
    "movups xmm10, [rsp + 160]",
    "movups xmm11, [rsp + 176]",
    "movups xmm12, [rsp + 192]",
    "movups xmm13, [rsp + 208]",
    "movups xmm14, [rsp + 224]",
    "movups xmm15, [rsp + 240]",
    "add rsp, {vectors}",
    "pop r8",
    "pop r9",
    "pop r10",
    "pop r11",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "pop rdx",
    "pop rax",
    "pop rcx",
    "pop qword ptr gs:[{rsp}]",
    "pop qword ptr gs:[{target}]",
    "popfq",
    "memtap_gate_loaded:",
    "mov rsp, gs:[{rsp}]",
    "mov dword ptr gs:[{in_gate}], 0",
    "jmp qword ptr gs:[{target}]",
    "memtap_gate_end:",
    vectors = const VECTOR_BYTES,
    in_gate = const IN_GATE_AT,
    rsp = const RSP_AT,
    stack = const STACK_AT,
    rax = const SPILLS_AT + 8,
    target = const TARGET_AT,
    flags = const offset_of!(x86::Registers, rflags),
    alignment = const ALIGNMENT_FLAG,
);

unsafe extern "C" {
    pub(crate) fn memtap_gate();
    fn memtap_gate_loaded();
    fn memtap_gate_end();
}

/// Whether the gate begins there.
pub(crate) fn is_gate(rip: u64) -> bool {
    rip == memtap_gate as *const () as u64
}

/// Whether the gate has loaded the program's flags.
pub(crate) fn is_after_gate(rip: u64) -> bool {
    (memtap_gate_loaded as *const () as u64..memtap_gate_end as *const () as u64).contains(&rip)
}

/// Whether a thread is on its way through the gate.
pub(crate) fn is_in_gate(thread: &TracedThread, rip: u64) -> bool {
    let gate = memtap_gate as *const () as u64..memtap_gate_end as *const () as u64;
    gate.contains(&rip) || thread.translation.live().is_some_and(Live::is_in_gate)
}

/// The end of the stack that the gate uses.
pub(crate) fn gate_stack(thread: &TracedThread) -> u64 {
    (thread.signals.handler_stack.sp + thread.signals.handler_stack.size) & !63
}

/// Whether a signal that is never blocked came while a handler of ours runs: one makes a system call by which the program sends
/// it to itself.
pub(crate) fn is_in_handler(thread: &TracedThread, context: &UContext) -> bool {
    !is_in_gate(thread, context.gregs.rip) && is_ours(thread, context)
}

/// Whether code of ours runs there, or of a library that ours has called: in a handler or on the way through the gate.
pub(crate) fn is_ours(thread: &TracedThread, context: &UContext) -> bool {
    alt_stack::is_on(&thread.signals.handler_stack, context.gregs.rsp)
}

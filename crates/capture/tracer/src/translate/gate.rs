//! The gate: where the program's code leaves the cache by a branch, and comes back.
//!
//! It switches to the thread's signal stack, saves the program's registers there in the order of a
//! signal's context, and calls `memtap_on_exit` (see `router::exits`), which decides where to continue.

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

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use tracee::frame::AltStack;
    use tracee::tls;

    use super::*;
    use crate::state::process::PROCESS;
    use crate::testing;

    /// The gate's first byte, the one after it has loaded the flags, and the one after its last.
    fn places() -> [u64; 3] {
        let places: [unsafe extern "C" fn(); 3] = [memtap_gate, memtap_gate_loaded, memtap_gate_end];
        places.map(|place| place as *const () as u64)
    }

    #[test]
    fn the_gate_is_told_from_what_is_around_it() {
        const POPF: u8 = 0x9d;
        let [begin, loaded, end] = places();
        assert!(is_gate(begin) && !is_gate(begin - 1) && !is_gate(begin + 1));
        // SAFETY: a byte of the gate.
        assert_eq!(unsafe { *((loaded - 1) as *const u8) }, POPF);
        assert!(is_after_gate(loaded) && is_after_gate(end - 1));
        assert!(!is_after_gate(loaded - 1) && !is_after_gate(begin) && !is_after_gate(end));
        let thread = testing::thread();
        assert!(is_in_gate(thread, begin) && is_in_gate(thread, end - 1));
        assert!(!is_in_gate(thread, begin - 1) && !is_in_gate(thread, end));
        // Functions of ours that it calls count, too.
        let live = testing::live();
        thread.translation.live = live;
        assert!(!is_in_gate(thread, end));
        testing::set_word(live, IN_GATE_AT, 1);
        assert!(is_in_gate(thread, end));
        live.leave_gate();
        assert!(!is_in_gate(thread, end));
    }

    #[test]
    fn what_runs_on_the_stack_of_handlers_is_ours() {
        let thread = testing::thread();
        // Neither end is aligned.
        let stack = AltStack { sp: 0x10_0010, flags: 0, size: 0x8008 };
        thread.signals.handler_stack = stack;
        let at = |rsp, rip| {
            let mut context = testing::context();
            (context.gregs.rsp, context.gregs.rip) = (rsp, rip);
            context
        };
        let end = stack.sp + stack.size;
        for rsp in [stack.sp + 1, end, gate_stack(thread)] {
            assert!(is_ours(thread, &at(rsp, 0)) && is_in_handler(thread, &at(rsp, 0)), "{rsp:#x}");
            // In the gate no handler runs.
            assert!(is_ours(thread, &at(rsp, places()[0])) && !is_in_handler(thread, &at(rsp, places()[0])));
        }
        for rsp in [stack.sp, end + 1] {
            assert!(!is_ours(thread, &at(rsp, 0)) && !is_in_handler(thread, &at(rsp, 0)), "{rsp:#x}");
        }
        assert!(gate_stack(thread).is_multiple_of(64) && end - gate_stack(thread) < 64);
    }

    /// What the program has in its registers.
    #[repr(C, align(16))]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct ProgramState {
        registers: x86::Registers,
        /// The vector registers' lower halves.
        vectors: [[u64; 2]; 16],
    }

    core::arch::global_asm!(
        ".globl memtap_test_pass",
        ".hidden memtap_test_pass",
        // memtap_test_pass(before, after): goes through the gate with the registers of `before`, and stores those that come out. The
        // stack pointer is our own on both sides. Numbers are places in `x86::Registers`.
        "memtap_test_pass:",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "pushfq",
        "mov gs:[{after}], rsi",
        "mov [rdi + 120], rsp",
        "lea rax, [rip + 2f]",
        "mov gs:[{target}], rax",
        "mov rax, [rdi + 104]",
        "mov gs:[{rax}], rax",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movups xmm\\n, [rdi + {vectors} + 16 * \\n]",
        ".endr",
        "push qword ptr [rdi + 136]",
        "popfq",
        "mov r8, [rdi]",
        "mov r9, [rdi + 8]",
        "mov r10, [rdi + 16]",
        "mov r11, [rdi + 24]",
        "mov r12, [rdi + 32]",
        "mov r13, [rdi + 40]",
        "mov r14, [rdi + 48]",
        "mov r15, [rdi + 56]",
        "mov rsi, [rdi + 72]",
        "mov rbp, [rdi + 80]",
        "mov rbx, [rdi + 88]",
        "mov rdx, [rdi + 96]",
        "mov rcx, [rdi + 112]",
        "mov rdi, [rdi + 64]",
        "mov eax, {reason}",
        "jmp qword ptr gs:[{gate}]",
        "2:",
        "mov gs:[{rdi}], rdi",
        "mov rdi, gs:[{after}]",
        "mov [rdi], r8",
        "mov [rdi + 8], r9",
        "mov [rdi + 16], r10",
        "mov [rdi + 24], r11",
        "mov [rdi + 32], r12",
        "mov [rdi + 40], r13",
        "mov [rdi + 48], r14",
        "mov [rdi + 56], r15",
        "mov [rdi + 72], rsi",
        "mov [rdi + 80], rbp",
        "mov [rdi + 88], rbx",
        "mov [rdi + 96], rdx",
        "mov [rdi + 104], rax",
        "mov [rdi + 112], rcx",
        "mov [rdi + 120], rsp",
        "pushfq",
        "pop qword ptr [rdi + 136]",
        "mov rax, gs:[{rdi}]",
        "mov [rdi + 64], rax",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movups [rdi + {vectors} + 16 * \\n], xmm\\n",
        ".endr",
        "popfq",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        vectors = const offset_of!(ProgramState, vectors),
        target = const TARGET_AT,
        gate = const buffers::flow::GATE_AT,
        rax = const SPILLS_AT + 8,
        // Spills that nobody else uses.
        rdi = const SPILLS_AT + 48,
        after = const SPILLS_AT + 56,
        reason = const CALL_OF_OURS,
    );

    unsafe extern "C" {
        fn memtap_test_pass(before: &mut ProgramState, after: &mut ProgramState);
    }

    /// The reason for which the cache is left where a function of ours is called. None is at the place: the program goes on there.
    const CALL_OF_OURS: u32 = 2 << 30;

    #[test]
    fn all_registers_come_through_the_gate() {
        if !testing::is_alone(all_registers_come_through_the_gate) {
            return;
        }
        assert_eq!(code_cache::Exit::of_reason(CALL_OF_OURS), Some(code_cache::Exit::Own));
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        tls::set(&raw mut *thread);
        PROCESS.ready.store(true, Ordering::Relaxed);
        let mut before = ProgramState::default();
        (0..16).for_each(|number| {
            before.registers.set_number(number, 0x0101_0101_0101_0101 * u64::from(number + 1))
        });
        for (number, vector) in (1..).zip(&mut before.vectors) {
            *vector = [number << 32 | 7, number << 48 | 8];
        }
        // All arithmetic flags, and those that would disturb our own code: of alignment checks and of direction. And none.
        for flags in [0x246 | 0x8d5 | ALIGNMENT_FLAG | crate::registers::DIRECTION_FLAG, 0x202] {
            before.registers.rflags = flags;
            let mut after = ProgramState::default();
            // SAFETY: the thread's words are at its base of gs, with the gate and its stack.
            unsafe { memtap_test_pass(&mut before, &mut after) };
            assert_eq!(after, before);
        }
        assert!(!is_in_gate(thread, 0));
        assert_eq!(thread.work.exits.get(), 2);
    }
}

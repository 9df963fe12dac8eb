//! Code from which system calls are made with the program's registers or its signal mask, and
//! through which handlers return. A thread's position in it shows how far the call has come.

use core::arch::global_asm;
use core::sync::atomic::AtomicU64;

use crate::signal::mask::{FAULTS, OURS};
use crate::state::births::{BIRTH_STACKS, MOST_BIRTHS};

/// A result that no system call has: the call was not made, make it again after the signal's handler.
pub(crate) const NOT_MADE: isize = -512;

/// Bytes of a `syscall` instruction.
pub(crate) const SYSCALL_BYTES: u64 = 2;

/// What is blocked at the end of a wait: all but faults. As the instruction has it, which extends its sign.
const OTHERS: i32 = !FAULTS as i32;
const _: () = assert!(OTHERS as i64 as u64 == !FAULTS);

unsafe extern "C" {
    fn memtap_restorer();
    fn memtap_wait_begin();
    fn memtap_wait_end();
    fn memtap_wait_again();
    fn memtap_wait_interrupted();
    fn memtap_redirect();
    fn memtap_redirect_done();
    fn memtap_clone();
    fn memtap_clone_child();
    fn memtap_clone_trap();
    fn memtap_sigreturn();
    fn memtap_wait(number: usize, args: *const usize, mask: *const u64) -> isize;
    fn memtap_gate_wait(number: usize, args: *const usize, arrivals: *const AtomicU64, seen: u64) -> isize;
    fn memtap_gate_wait_begin();
    fn memtap_gate_wait_end();
    fn memtap_gate_wait_again();
    fn memtap_gate_wait_interrupted();
    fn memtap_gate_wait_last();
}

global_asm!(
    ".text",
    ".balign 16",
    // Other object files of this library refer to these; nobody outside does.
    ".globl memtap_restorer",
    ".hidden memtap_restorer",
    ".globl memtap_sigreturn",
    ".hidden memtap_sigreturn",
    ".globl memtap_redirect",
    ".hidden memtap_redirect",
    ".globl memtap_redirect_done",
    ".hidden memtap_redirect_done",
    ".globl memtap_clone",
    ".hidden memtap_clone",
    ".globl memtap_clone_child",
    ".hidden memtap_clone_child",
    ".globl memtap_clone_trap",
    ".hidden memtap_clone_trap",
    ".globl memtap_wait",
    ".hidden memtap_wait",
    ".globl memtap_wait_begin",
    ".hidden memtap_wait_begin",
    ".globl memtap_wait_end",
    ".hidden memtap_wait_end",
    ".globl memtap_wait_again",
    ".hidden memtap_wait_again",
    ".globl memtap_wait_interrupted",
    ".hidden memtap_wait_interrupted",
    ".globl memtap_gate_wait",
    ".hidden memtap_gate_wait",
    ".globl memtap_gate_wait_begin",
    ".hidden memtap_gate_wait_begin",
    ".globl memtap_gate_wait_end",
    ".hidden memtap_gate_wait_end",
    ".globl memtap_gate_wait_again",
    ".hidden memtap_gate_wait_again",
    ".globl memtap_gate_wait_interrupted",
    ".hidden memtap_gate_wait_interrupted",
    ".globl memtap_gate_wait_last",
    ".hidden memtap_gate_wait_last",
    // Where our handlers return to.
    "memtap_restorer:",
    "mov eax, 15",
    "syscall",
    // A sigreturn of the program: rsp is at its frame.
    "memtap_sigreturn:",
    "mov eax, 15",
    "syscall",
    "ud2",
    // A system call with the program's own registers, going on at AssemblyWords::resume.
    "memtap_redirect:",
    "syscall",
    "memtap_redirect_done:",
    "movzx ecx, byte ptr [rip + memtap_tls_by_gs]",
    "jrcxz 2f",
    "mov rcx, qword ptr gs:[{thread}]",
    "jmp qword ptr [rcx]",
    "2:",
    "mov rcx, qword ptr [rip + memtap_tls@gottpoff]",
    "mov rcx, qword ptr fs:[rcx]",
    "jmp qword ptr [rcx]",
    // clone and vfork: the parent goes on at AssemblyWords::vfork_resume, the child reports to our trap handler, on the stack that its
    // creator has for that (`births::BIRTH_STACKS`). r11 keeps the flags.
    "memtap_clone:",
    "syscall",
    "mov rcx, rax",
    "jrcxz memtap_clone_child",
    "movzx ecx, byte ptr [rip + memtap_tls_by_gs]",
    "jrcxz 2f",
    "mov rcx, qword ptr gs:[{thread}]",
    "jmp qword ptr [rcx + 8]",
    "2:",
    "mov rcx, qword ptr [rip + memtap_tls@gottpoff]",
    "mov rcx, qword ptr fs:[rcx]",
    "jmp qword ptr [rcx + 8]",
    "memtap_clone_child:",
    "lea rcx, [rip + {births}]",
    ".rept {most}",
    "cmp rsp, qword ptr [rcx]",
    "je 3f",
    "add rcx, 16",
    ".endr",
    "jmp memtap_clone_trap",
    "3:",
    "mov rsp, qword ptr [rcx + 8]",
    "memtap_clone_trap:",
    "int3",
    // memtap_wait(number, args, mask): a system call that the program's signals may interrupt.
    "memtap_wait:",
    "push rbx",
    "push r12",
    "push r13",
    "mov r12, rdi",
    "mov rbx, rsi",
    "mov rsi, rdx",
    "mov eax, 14",
    "mov edi, 2",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "memtap_wait_begin:",
    "mov rdi, [rbx]",
    "mov rsi, [rbx + 8]",
    "mov rdx, [rbx + 16]",
    "mov r10, [rbx + 24]",
    "mov r8, [rbx + 32]",
    "mov r9, [rbx + 40]",
    "mov rax, r12",
    "syscall",
    "memtap_wait_end:",
    "mov r13, rax",
    "2:",
    // Of a bad pointer that is looked at later the fault must come through.
    "push {others}",
    "mov rsi, rsp",
    "mov eax, 14",
    "mov edi, 2",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "add rsp, 8",
    "mov rax, r13",
    "pop r13",
    "pop r12",
    "pop rbx",
    "ret",
    "memtap_wait_again:",
    "mov r13, -512",
    "jmp 2b",
    "memtap_wait_interrupted:",
    "mov r13, -4",
    "jmp 2b",
    // memtap_gate_wait(number, args, arrivals, seen): the same where the mask is the program's already. A signal that came since
    // the count was read has been put off: then the call is not made.
    "memtap_gate_wait:",
    "push rbx",
    "push r12",
    "mov r12, rdi",
    "mov rbx, rsi",
    "memtap_gate_wait_begin:",
    "cmp [rdx], rcx",
    "jne memtap_gate_wait_again",
    "mov rdi, [rbx]",
    "mov rsi, [rbx + 8]",
    "mov rdx, [rbx + 16]",
    "mov r10, [rbx + 24]",
    "mov r8, [rbx + 32]",
    "mov r9, [rbx + 40]",
    "mov rax, r12",
    "syscall",
    "memtap_gate_wait_end:",
    "jmp 2f",
    "memtap_gate_wait_again:",
    "mov rax, -512",
    "jmp 2f",
    "memtap_gate_wait_interrupted:",
    "mov rax, -4",
    "2:",
    "pop r12",
    "pop rbx",
    "memtap_gate_wait_last:",
    "ret",
    thread = const tracee::tls::GS_AT,
    others = const OTHERS,
    births = sym BIRTH_STACKS,
    most = const MOST_BIRTHS,
);

fn address(function: unsafe extern "C" fn()) -> u64 {
    function as *const () as u64
}

/// Where a redirected system call starts.
pub(crate) fn redirect_entry() -> u64 {
    address(memtap_redirect)
}

/// Where clone and vfork are made with the program's registers.
pub(crate) fn clone_entry() -> u64 {
    address(memtap_clone)
}

/// Whether a trap is that of a child that was just created.
pub(crate) fn is_birth(rip: u64) -> bool {
    rip == address(memtap_clone_trap) + 1
}

/// Whether a child that was just created has not come to that trap yet.
pub(crate) fn is_unborn(gregs: &x86::Registers) -> bool {
    let way = address(memtap_clone) + SYSCALL_BYTES..=address(memtap_clone_trap);
    way.contains(&gregs.rip) && gregs.rax == 0
}

/// Makes a system call during which the program's signals may come, with the mask that the program wants.
pub(crate) fn wait(number: usize, args: &[usize; 6], mask: u64) -> isize {
    let mask = mask & !OURS;
    // SAFETY: the assembly reads the arguments and the mask; the dispatcher vouches for the call itself.
    unsafe { memtap_wait(number, args.as_ptr(), &raw const mask) }
}

/// The same in the gate, under the mask that the program has. `seen`: how many signals had been put off when it was looked whether
/// some are; where there are more by now the call is not made.
pub(crate) fn gate_wait(number: usize, args: &[usize; 6], arrivals: &AtomicU64, seen: u64) -> isize {
    // SAFETY: the assembly reads the arguments and the count; whoever makes the call vouches for it.
    unsafe { memtap_gate_wait(number, args.as_ptr(), &raw const *arrivals, seen) }
}

/// Where a thread stands that is in one of these stubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StubPlace {
    /// In [`wait`], before the call, under the program's signal mask.
    BeforeWait,
    /// In [`wait`], right after the call, still under that mask.
    AfterWait,
    /// In [`wait`], later: the mask is about to be set back.
    EndOfWait,
    /// Before a system call with the program's own registers, or after it.
    BeforeRedirected,
    AfterRedirected,
    /// The same for clone and vfork.
    BeforeClone,
    AfterClone,
    /// On the way from a handler of ours back to what it interrupted.
    Returning,
}

/// The place at an address; `None`: it is in none of the stubs.
pub(crate) fn place(rip: u64) -> Option<StubPlace> {
    let is_in = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| {
        (address(from)..address(to)).contains(&rip)
    };
    Some(match () {
        () if is_in(memtap_wait_begin, memtap_wait_end) => StubPlace::BeforeWait,
        () if rip == address(memtap_wait_end) => StubPlace::AfterWait,
        () if is_in(memtap_wait_end, memtap_wait_interrupted) => StubPlace::EndOfWait,
        () if rip == address(memtap_wait_interrupted) => StubPlace::EndOfWait,
        () if is_in(memtap_gate_wait_begin, memtap_gate_wait_end) => StubPlace::BeforeWait,
        () if rip == address(memtap_gate_wait_end) => StubPlace::AfterWait,
        () if is_in(memtap_gate_wait_end, memtap_gate_wait_last) => StubPlace::EndOfWait,
        () if rip == address(memtap_redirect) => StubPlace::BeforeRedirected,
        () if is_in(memtap_redirect_done, memtap_clone) => StubPlace::AfterRedirected,
        () if rip == address(memtap_clone) => StubPlace::BeforeClone,
        () if is_in(memtap_clone, memtap_clone_child) => StubPlace::AfterClone,
        () if is_in(memtap_restorer, memtap_sigreturn) => StubPlace::Returning,
        () => return None,
    })
}

/// Where handlers of ours return to.
pub(crate) fn restorer() -> u64 {
    address(memtap_restorer)
}

/// Where the program's sigreturn is made: the stack pointer is at its frame.
pub(crate) fn sigreturn_entry() -> u64 {
    address(memtap_sigreturn)
}

fn is_gate_wait(rip: u64) -> bool {
    (address(memtap_gate_wait_begin)..=address(memtap_gate_wait_last)).contains(&rip)
}

/// Where a wait at an address goes on that is to be made again after the signal's handler.
pub(crate) fn wait_again(rip: u64) -> u64 {
    address(if is_gate_wait(rip) { memtap_gate_wait_again } else { memtap_wait_again })
}

/// Where a wait at an address goes on that a signal ends before it began.
pub(crate) fn wait_interrupted(rip: u64) -> u64 {
    address(if is_gate_wait(rip) { memtap_gate_wait_interrupted } else { memtap_wait_interrupted })
}

#[cfg(test)]
mod tests {
    use tracee::sys;

    use super::*;

    #[test]
    fn places_follow_each_other_as_the_code_does() {
        let check = |rip: u64, expect: Option<StubPlace>| assert_eq!(place(rip), expect, "{rip:#x}");
        check(restorer(), Some(StubPlace::Returning));
        check(sigreturn_entry() - 1, Some(StubPlace::Returning));
        check(sigreturn_entry(), None);
        check(redirect_entry(), Some(StubPlace::BeforeRedirected));
        check(redirect_entry() + SYSCALL_BYTES, Some(StubPlace::AfterRedirected));
        check(clone_entry() - 1, Some(StubPlace::AfterRedirected));
        check(clone_entry(), Some(StubPlace::BeforeClone));
        check(clone_entry() + SYSCALL_BYTES, Some(StubPlace::AfterClone));
        check(address(memtap_clone_child), None);
        assert!(is_birth(address(memtap_clone_trap) + 1) && !is_birth(clone_entry()));
        let unborn = |rip, rax| is_unborn(&x86::Registers { rip, rax, ..Default::default() });
        assert!(unborn(clone_entry() + SYSCALL_BYTES, 0) && unborn(address(memtap_clone_trap), 0));
        assert!(!unborn(clone_entry() + SYSCALL_BYTES, 7) && !unborn(clone_entry(), 0));
        check(address(memtap_wait_begin) - 1, None);
        check(address(memtap_wait_begin), Some(StubPlace::BeforeWait));
        check(address(memtap_wait_end) - SYSCALL_BYTES, Some(StubPlace::BeforeWait));
        check(address(memtap_wait_end), Some(StubPlace::AfterWait));
        check(address(memtap_wait_end) + 3, Some(StubPlace::EndOfWait));
        check(wait_again(0), Some(StubPlace::EndOfWait));
        check(wait_interrupted(0), Some(StubPlace::EndOfWait));
        let begin = address(memtap_gate_wait_begin);
        check(begin - 1, None);
        check(begin, Some(StubPlace::BeforeWait));
        check(address(memtap_gate_wait_end) - SYSCALL_BYTES, Some(StubPlace::BeforeWait));
        check(address(memtap_gate_wait_end), Some(StubPlace::AfterWait));
        check(wait_again(begin), Some(StubPlace::EndOfWait));
        check(wait_interrupted(begin), Some(StubPlace::EndOfWait));
    }

    #[test]
    fn a_wait_in_the_gate_is_not_made_after_a_signal_that_was_put_off() {
        let arrivals = AtomicU64::new(7);
        let pid = gate_wait(libc::SYS_getpid as usize, &[0; 6], &arrivals, 7);
        assert_eq!(pid as u32, sys::getpid());
        assert_eq!(gate_wait(libc::SYS_getpid as usize, &[0; 6], &arrivals, 6), NOT_MADE);
    }

    #[test]
    fn a_wait_makes_the_call_and_blocks_all_but_faults_at_its_end() {
        let before = sys::set_mask(0);
        let result = wait(libc::SYS_getpid as usize, &[0; 6], u64::MAX);
        let after = sys::set_mask(before);
        assert_eq!(result as u32, sys::getpid());
        // The kernel blocks two of them for nobody.
        let never = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        assert_eq!(after | never, !FAULTS | never);
    }
}

//! Calls by `int 0x80`, with the numbers and structures of 32-bit programs.
//!
//! They are made as they are, with untranslated pointers below 4 GiB, and nothing that the kernel
//! reads and writes is recorded: each is a gap. Calls that would take the thread away from the tracer,
//! or change memory without its knowledge, fail with ENOSYS, as on a kernel built without them.

use core::arch::global_asm;

use memref::GapReason;
use tracee::frame::UContext;
use tracee::sys;

use crate::process::threads;
use crate::signal::delivery;
use crate::state::thread::TracedThread;

global_asm!(
    ".text",
    ".globl memtap_old_call",
    ".hidden memtap_old_call",
    // memtap_old_call(words): number and six arguments.
    "memtap_old_call:",
    "push rbx",
    "push rbp",
    "mov eax, [rdi]",
    "mov ebx, [rdi + 8]",
    "mov ecx, [rdi + 16]",
    "mov edx, [rdi + 24]",
    "mov esi, [rdi + 32]",
    "mov ebp, [rdi + 48]",
    "mov edi, [rdi + 40]",
    "int 0x80",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn memtap_old_call(words: *const [u64; 7]) -> isize;
}

const EXIT: u32 = 1;
const EXIT_GROUP: u32 = 252;

/// Calls that are refused, by the numbers of 32-bit programs, which no library of ours names.
const REFUSED: [u32; 28] = [
    2,   // fork
    11,  // execve
    26,  // ptrace
    45,  // brk
    67,  // sigaction
    72,  // sigsuspend
    90,  // mmap
    91,  // munmap
    119, // sigreturn
    120, // clone
    125, // mprotect
    126, // sigprocmask
    163, // mremap
    172, // prctl
    173, // rt_sigreturn
    174, // rt_sigaction
    175, // rt_sigprocmask
    176, // rt_sigpending
    177, // rt_sigtimedwait
    179, // rt_sigsuspend
    186, // sigaltstack
    190, // vfork
    192, // mmap2
    354, // seccomp
    358, // execveat
    386, // rseq
    425, // io_uring_setup
    435, // clone3
];

/// Whether a call is refused.
fn is_refused(number: u32) -> bool {
    REFUSED.contains(&number)
}

/// Makes the call that a context has just come to.
pub(crate) fn on_old_call(thread: &mut TracedThread, context: &mut UContext) {
    let gregs = &context.gregs;
    let number = gregs.rax as u32;
    thread.emit_gap(GapReason::LostControl, 1, gregs.rip, b"a system call of 32 bits (int 0x80)");
    let words = [gregs.rax, gregs.rbx, gregs.rcx, gregs.rdx, gregs.rsi, gregs.rdi, gregs.rbp];
    if matches!(number, EXIT | EXIT_GROUP) {
        threads::exit(thread, gregs.rbx as u8);
        sys::exit_group(gregs.rbx as i32);
    }
    context.gregs.rax = if is_refused(number) {
        -(sys::ENOSYS as i64) as u64
    } else {
        // SAFETY: the program vouches for its own arguments as it would to the kernel.
        unsafe { memtap_old_call(&raw const words) as u64 }
    };
    // SAFETY: the context that the handler of SIGSYS returns to.
    unsafe { delivery::deliver_pending(thread, context) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_thread_away_is_refused() {
        // fork, execve, clone; getpid, write.
        assert!(is_refused(2) && is_refused(11) && is_refused(120));
        assert!(!is_refused(20) && !is_refused(4));
    }
}

//! Leaving a signal handler without a system call.
//!
//! A handler's return is a system call (`rt_sigreturn`), and a process that has a filter of system calls may be killed for
//! it: OpenSSH's sandbox and others allow none of the sort. What that call restores can be restored by user code where
//! the signal mask was not changed: the extended state by `xrstor`, the registers by loads, and stack pointer, flags and
//! program counter together by `iretq`. No word below the interrupted stack pointer is touched, it is the red zone.

use std::arch::naked_asm;

/// `sigaltstack`'s flag whose state only the kernel can put back.
const SS_AUTODISARM: i32 = 1 << 31;
/// What the kernel writes into the software area of the extended state where it used `xsave`.
const XSTATE_MAGIC: u32 = 0x4650_5853;

/// Goes on where `context` says, if nothing but registers has to be restored; otherwise returns, and the handler has to.
///
/// # Safety
/// `context` must be what the kernel passed to the handler that runs, which was installed with SA_NODEFER and an empty
/// mask and changed no signal mask. Nothing of the handler's frame may need a drop.
pub(crate) unsafe fn resume(context: *mut libc::ucontext_t) {
    // SAFETY: the kernel's own frame.
    let only_registers = unsafe {
        let state = (*context).uc_mcontext.fpregs.cast::<u8>();
        (*context).uc_stack.ss_flags & SS_AUTODISARM == 0
            && !state.is_null()
            && state.add(464).cast::<u32>().read() == XSTATE_MAGIC
    };
    if only_registers {
        // SAFETY: checked above, and what the caller vouches for.
        unsafe { restore(context) };
    }
}

/// Loads everything from the kernel's frame: `struct rt_sigframe` is a return address, a ucontext of 304 bytes and a
/// siginfo, which nobody needs any more: its place takes what `iretq` pops.
///
/// # Safety
/// As for [`resume`].
#[unsafe(naked)]
unsafe extern "C" fn restore(context: *mut libc::ucontext_t) -> ! {
    naked_asm!(
        // The extended state: its features are at 472 of the area, in the part that is software's.
        "mov rcx, [rdi + 224]",
        "mov eax, [rcx + 472]",
        "mov edx, [rcx + 476]",
        "xrstor64 [rcx]",
        // What iretq pops: instruction pointer, code segment, flags, stack pointer, stack segment.
        "mov rax, [rdi + 40 + 128]",
        "mov [rdi + 304], rax",
        "mov eax, cs",
        "mov [rdi + 312], rax",
        "mov rax, [rdi + 40 + 136]",
        "mov [rdi + 320], rax",
        "mov rax, [rdi + 40 + 120]",
        "mov [rdi + 328], rax",
        "mov eax, ss",
        "mov [rdi + 336], rax",
        "lea rsp, [rdi + 304]",
        "mov r8, [rdi + 40]",
        "mov r9, [rdi + 40 + 8]",
        "mov r10, [rdi + 40 + 16]",
        "mov r11, [rdi + 40 + 24]",
        "mov r12, [rdi + 40 + 32]",
        "mov r13, [rdi + 40 + 40]",
        "mov r14, [rdi + 40 + 48]",
        "mov r15, [rdi + 40 + 56]",
        "mov rsi, [rdi + 40 + 72]",
        "mov rbp, [rdi + 40 + 80]",
        "mov rbx, [rdi + 40 + 88]",
        "mov rdx, [rdi + 40 + 96]",
        "mov rax, [rdi + 40 + 104]",
        "mov rcx, [rdi + 40 + 112]",
        "mov rdi, [rdi + 40 + 64]",
        "iretq",
    );
}

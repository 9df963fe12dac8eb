//! Leaves a signal handler without a system call.
//!
//! A handler normally returns by a system call (`rt_sigreturn`), and a process with a system call filter may be killed for
//! it: OpenSSH's sandbox and others do not allow that call. Where the signal mask was not changed, user code can restore
//! everything that the call would: the extended state by `xrstor`, the registers by loads, and stack pointer, flags and
//! program counter together by `iretq`. No word below the interrupted stack pointer is touched, because it is the red zone.

use std::{arch::naked_asm, mem::offset_of};

/// `sigaltstack`'s flag whose state only the kernel can put back.
const SS_AUTODISARM: i32 = 1 << 31;
/// What the kernel writes into the software area of the extended state where it used `xsave`.
const XSTATE_MAGIC: u32 = 0x4650_5853;

/// Where the saved registers lie in the context that a handler gets, and the pointer to the extended state.
const REGISTERS: usize = offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, gregs);
const EXTENDED: usize = offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, fpregs);
/// Where the context ends for the kernel, whose signal sets are one word: a siginfo follows in its frame.
const CONTEXT_BYTES: usize = offset_of!(libc::ucontext_t, uc_sigmask) + crate::sys::SIGNAL_SET_BYTES;
/// The software area of the extended state begins with the magic number; the features follow after another word.
const SOFTWARE_AREA: usize = 464;
const FEATURES: usize = SOFTWARE_AREA + 2 * size_of::<u32>();

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
            && state.add(SOFTWARE_AREA).cast::<u32>().read() == XSTATE_MAGIC
    };
    if only_registers {
        // SAFETY: checked above, and what the caller vouches for.
        unsafe { restore(context) };
    }
}

/// Loads everything from the kernel's frame: `struct rt_sigframe` is a return address, a context of [`CONTEXT_BYTES`] bytes
/// and a siginfo, which nobody needs any more: its place takes what `iretq` pops.
///
/// # Safety
/// As for [`resume`].
#[unsafe(naked)]
unsafe extern "C" fn restore(context: *mut libc::ucontext_t) -> ! {
    naked_asm!(
        // The extended state: its features are in the part that is software's.
        "mov rcx, [rdi + {extended}]",
        "mov eax, [rcx + {features}]",
        "mov edx, [rcx + {features} + 4]",
        "xrstor64 [rcx]",
        // What iretq pops: instruction pointer, code segment, flags, stack pointer, stack segment.
        "mov rax, [rdi + {registers} + 8 * {rip}]",
        "mov [rdi + {frame}], rax",
        "mov eax, cs",
        "mov [rdi + {frame} + 8], rax",
        "mov rax, [rdi + {registers} + 8 * {efl}]",
        "mov [rdi + {frame} + 16], rax",
        "mov rax, [rdi + {registers} + 8 * {rsp}]",
        "mov [rdi + {frame} + 24], rax",
        "mov eax, ss",
        "mov [rdi + {frame} + 32], rax",
        "lea rsp, [rdi + {frame}]",
        "mov r8, [rdi + {registers} + 8 * {r8}]",
        "mov r9, [rdi + {registers} + 8 * {r9}]",
        "mov r10, [rdi + {registers} + 8 * {r10}]",
        "mov r11, [rdi + {registers} + 8 * {r11}]",
        "mov r12, [rdi + {registers} + 8 * {r12}]",
        "mov r13, [rdi + {registers} + 8 * {r13}]",
        "mov r14, [rdi + {registers} + 8 * {r14}]",
        "mov r15, [rdi + {registers} + 8 * {r15}]",
        "mov rsi, [rdi + {registers} + 8 * {rsi}]",
        "mov rbp, [rdi + {registers} + 8 * {rbp}]",
        "mov rbx, [rdi + {registers} + 8 * {rbx}]",
        "mov rdx, [rdi + {registers} + 8 * {rdx}]",
        "mov rax, [rdi + {registers} + 8 * {rax}]",
        "mov rcx, [rdi + {registers} + 8 * {rcx}]",
        "mov rdi, [rdi + {registers} + 8 * {rdi}]",
        "iretq",
        extended = const EXTENDED,
        features = const FEATURES,
        registers = const REGISTERS,
        frame = const CONTEXT_BYTES,
        rip = const libc::REG_RIP,
        efl = const libc::REG_EFL,
        rsp = const libc::REG_RSP,
        r8 = const libc::REG_R8,
        r9 = const libc::REG_R9,
        r10 = const libc::REG_R10,
        r11 = const libc::REG_R11,
        r12 = const libc::REG_R12,
        r13 = const libc::REG_R13,
        r14 = const libc::REG_R14,
        r15 = const libc::REG_R15,
        rsi = const libc::REG_RSI,
        rbp = const libc::REG_RBP,
        rbx = const libc::REG_RBX,
        rdx = const libc::REG_RDX,
        rax = const libc::REG_RAX,
        rcx = const libc::REG_RCX,
        rdi = const libc::REG_RDI,
    );
}

//! The few system calls of the patch path, made directly: errno is not touched, and no libc call can block or allocate.
//!
//! This is not a general wrapper: it has exactly what patching and its signal handler need.

use std::arch::asm;

/// Makes a system call with up to six arguments; the result is the kernel's (negative: minus errno).
///
/// # Safety
/// The arguments must be right for the call `number`.
#[inline]
pub unsafe fn syscall(number: i64, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rcx, r11 and rax only; the caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: sched_yield takes no arguments and touches no memory.
    unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
}

/// Whether there is a process, or thread, of this number that has not given up its memory, as one does at its end.
#[must_use]
pub fn has_memory(task: u32) -> bool {
    const NO_SUCH_PROCESS: isize = -(libc::ESRCH as isize);
    let (mut here, there) = (0u8, 0u8);
    let local = libc::iovec { iov_base: (&raw mut here).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: (&raw const there).cast_mut().cast(), iov_len: 1 };
    let arguments = [task as usize, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
    // SAFETY: reads at most one byte of another process's into our own; that it may not be read, or is not mapped, is an answer, too.
    let read = unsafe { syscall(libc::SYS_process_vm_readv, arguments) };
    read != NO_SUCH_PROCESS
}

/// `membarrier(command)`; zero or minus errno (or, for the query, the set of commands).
pub fn membarrier(command: i32) -> isize {
    // SAFETY: membarrier touches no user memory.
    unsafe { syscall(libc::SYS_membarrier, [command as usize, 0, 0, 0, 0, 0]) }
}

/// The kernel's set of signals, a bit each; the C library's is longer.
pub type SignalSet = u64;
/// What the calls on signals are told of its length.
pub const SIGNAL_SET_BYTES: usize = size_of::<SignalSet>();

/// What a signal does, in the kernel's form.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Action {
    /// The address of the handler, or `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// `SA_SIGINFO` and its like.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: usize,
    /// What is blocked while the handler runs.
    pub mask: SignalSet,
}

/// Sets what a signal does, if `new` is given; what it did.
pub fn action(signal: u32, new: Option<&Action>) -> Option<Action> {
    let mut old = Action::default();
    let new = new.map_or(0, |new| std::ptr::from_ref(new) as usize);
    let arguments = [signal as usize, new, &raw mut old as usize, SIGNAL_SET_BYTES, 0, 0];
    // SAFETY: both are in the kernel's form, and outlive the call.
    (unsafe { syscall(libc::SYS_rt_sigaction, arguments) } == 0).then_some(old)
}

/// The process that asks.
pub fn process() -> i32 {
    // SAFETY: getpid takes no arguments and touches no memory.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as i32 }
}

/// All signals of this thread held back until it is dropped, so that no handler runs while a site is guarded.
pub struct SignalsBlocked {
    before: SignalSet,
}

/// What glibc sends to its own threads: SIGCANCEL, for `pthread_cancel`, and SIGSETXID, by which `setuid` and its like
/// reach every thread and wait until each has answered. No header names them.
const GLIBC_SIGNALS: [i32; 2] = [32, 33];
/// Blocked, a fault would kill without a handler.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

fn set_of(signals: &[i32]) -> SignalSet {
    signals.iter().fold(0, |set, signal| set | 1 << (signal - 1))
}

impl SignalsBlocked {
    /// Blocks every signal of the calling thread but for those of faults. For a short time: while it lasts, `setuid` in
    /// another thread waits.
    #[must_use]
    pub fn new() -> Self {
        Self::change(libc::SIG_BLOCK, !set_of(&FAULTS))
    }

    /// Blocks what a helper thread, which inherits the mask, must not take from the program, and nothing else: a thread that was
    /// borrowed may block everything. The C library's own
    /// signals stay open: a thread that blocks them for good makes `setgid` wait for ever.
    #[must_use]
    pub fn for_helper() -> Self {
        Self::change(libc::SIG_SETMASK, !set_of(&FAULTS) & !set_of(&GLIBC_SIGNALS))
    }

    fn change(how: i32, set: SignalSet) -> Self {
        let mut before: SignalSet = 0;
        // SAFETY: both sets are as long as the last argument says, and outlive the call.
        unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [how as usize, &raw const set as usize, &raw mut before as usize, SIGNAL_SET_BYTES, 0, 0],
            )
        };
        Self { before }
    }
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is as long as the last argument says and outlives the call.
        unsafe {
            syscall(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_SETMASK as usize, &raw const self.before as usize, 0, SIGNAL_SET_BYTES, 0, 0],
            )
        };
    }
}

/// The time stamp counter, in ticks.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: rdtsc is part of x86-64 and allowed in user mode on Linux.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Waits until all earlier stores of this core left its store buffer.
#[inline]
pub fn drain_stores() {
    // SAFETY: mfence is part of x86-64 (SSE2).
    unsafe { core::arch::x86_64::_mm_mfence() };
}

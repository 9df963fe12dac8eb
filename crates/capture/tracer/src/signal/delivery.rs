//! The program's signals, as it would see them without us.
//!
//! The kernel delivers every signal that the program handles to us, on our own stack. We build the program's frame by
//! hand - on its stack or its signal stack, through the open view where that memory is closed - and return into its
//! handler; its sigreturn comes back as a system call. So the program's handlers run as ordinary code of the program, may
//! be interrupted, may leave by longjmp, and may use memory that is closed.
//!
//! SIGSEGV, SIGTRAP and SIGSYS are never really blocked; what the program thinks of them is in `Thread::virtual_mask`.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{BlockFunction, BlockKind, VirtAddr};
use tracee::frame::{AltStack, SigAction, SigFrame, SigInfo, UContext, fpstate_bytes};
use tracee::sys;

use crate::memory::open_address;
use crate::state::{PROCESS, Pending, Suspended, Thread};
use crate::translate;

/// The bit of a signal in a mask.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The signals that the tracer lives on.
pub(crate) const OURS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGTRAP) | bit(libc::SIGSYS);
const SI_TKILL: i32 = -6;
/// Faults of instructions: they must get through while one of our stubs runs.
pub(crate) const FAULTS: u64 = OURS | bit(libc::SIGBUS) | bit(libc::SIGFPE) | bit(libc::SIGILL);
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
const SA_RESTORER: u64 = 0x0400_0000;
const RED_ZONE_BYTES: u64 = 128;
/// The trap, resume and direction flags.
const FLAGS_CLEARED: u64 = 1 << 8 | 1 << 16 | 1 << 10;

/// Stands for the context of a thread that waits in a system call which it made before the process was attached to.
pub(crate) const NATIVE_CALL: *mut UContext = core::ptr::dangling_mut();

/// A result that no system call has: the call was not made, make it again after the signal's handler.
pub(crate) const NOT_MADE: isize = -512;

unsafe extern "C" {
    fn memtap_restorer();
    fn memtap_wait_begin();
    fn memtap_wait_syscall();
    fn memtap_wait_end();
    fn memtap_wait_again();
    fn memtap_wait_interrupted();
    fn memtap_redirect();
    fn memtap_redirect_done();
    fn memtap_clone();
    fn memtap_clone_child();
    pub(crate) fn memtap_sigreturn();
    fn memtap_wait(number: usize, args: *const usize, mask: *const u64) -> isize;
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
    ".globl memtap_wait",
    ".hidden memtap_wait",
    ".globl memtap_wait_begin",
    ".hidden memtap_wait_begin",
    ".globl memtap_wait_syscall",
    ".hidden memtap_wait_syscall",
    ".globl memtap_wait_end",
    ".hidden memtap_wait_end",
    ".globl memtap_wait_again",
    ".hidden memtap_wait_again",
    ".globl memtap_wait_interrupted",
    ".hidden memtap_wait_interrupted",
    // Where our handlers return to.
    "memtap_restorer:",
    "mov eax, 15",
    "syscall",
    // A sigreturn of the program: rsp is at its frame.
    "memtap_sigreturn:",
    "mov eax, 15",
    "syscall",
    "ud2",
    // A system call with the program's own registers, going on at Thread::resume.
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
    // clone and vfork: the parent goes on at Thread::vfork_resume, the child reports to our trap handler.
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
    "memtap_wait_syscall:",
    "syscall",
    "memtap_wait_end:",
    "mov r13, rax",
    "2:",
    "push -1",
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
    thread = const tracee::tls::GS_AT,
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
    rip == address(memtap_clone_child) + 1
}

/// Makes a system call during which the program's signals may come, with the mask that the program wants.
pub(crate) fn wait(number: usize, args: &[usize; 6], mask: u64) -> isize {
    let mask = mask & !OURS;
    // SAFETY: the assembly reads the arguments and the mask; the dispatcher vouches for the call itself.
    unsafe { memtap_wait(number, args.as_ptr(), &raw const mask) }
}

/// Where a thread stands that makes a system call by [`wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitAt {
    /// Before the call, under the program's signal mask.
    Before,
    /// Behind it.
    Behind,
}

/// As above; `None`: it stands elsewhere.
pub(crate) fn wait_at(rip: u64) -> Option<WaitAt> {
    match rip {
        _ if (address(memtap_wait_begin)..=address(memtap_wait_syscall)).contains(&rip) => {
            Some(WaitAt::Before)
        }
        _ if rip == address(memtap_wait_end) => Some(WaitAt::Behind),
        _ => None,
    }
}

/// What the kernel is told for a signal that the program handles.
fn real_action(handler: u64, flags: u64, mask: u64) -> SigAction {
    let kept = flags & (libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    SigAction {
        handler,
        flags: kept | (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER,
        restorer: address(memtap_restorer),
        mask,
    }
}

fn set_real(signal: i32, action: &SigAction) -> isize {
    // SAFETY: the kernel reads the structure.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction as usize,
            [signal as usize, &raw const *action as usize, 0, 8, 0, 0],
        )
    }
}

/// Takes the signals that we live on, remembering what the program had for all signals.
pub(crate) fn take_over() {
    let mut actions = PROCESS.actions.lock();
    for signal in 1..=64 {
        let mut old = SigAction::default();
        // SAFETY: the kernel writes the structure.
        unsafe {
            sys::syscall(
                libc::SYS_rt_sigaction as usize,
                [signal as usize, 0, &raw mut old as usize, 8, 0, 0],
            );
        }
        if let Some(place) = actions.get_mut(signal as usize) {
            *place = old;
        }
        if OURS & bit(signal) != 0 {
            install_fault_handler(signal);
        } else if old.handler > SIG_IGN {
            set_real(signal, &handled(signal, &old));
        }
    }
}

/// What waits while a handler of ours runs. A kick does, but for that of system calls, in which a thread may wait itself: it would be
/// taken for one in the gate where the handler came on top of it, and steps would begin in the handler.
fn handler_mask(signal: i32) -> u64 {
    let kicks = PROCESS.settings().translate && signal != libc::SIGSYS;
    !FAULTS | if kicks { bit(libc::SIGTRAP) } else { 0 }
}

/// What the kernel is told where the program handles a signal.
fn handled(signal: i32, wanted: &SigAction) -> SigAction {
    let mut real = real_action(address_of_handler(signal), wanted.flags, handler_mask(signal));
    if FAULTS & bit(signal) != 0 {
        real.flags |= libc::SA_NODEFER as u64;
    }
    real
}

fn install_fault_handler(signal: i32) {
    let mut action = real_action(address_of_handler(signal), 0, handler_mask(signal));
    action.flags |= libc::SA_NODEFER as u64;
    set_real(signal, &action);
}

fn address_of_handler(signal: i32) -> u64 {
    if FAULTS & bit(signal) != 0 {
        crate::fault::on_fault as *const () as u64
    } else {
        on_async as *const () as u64
    }
}

/// rt_sigaction by the program.
///
/// # Safety
/// `new` and `old` are null or addresses that can be read and written.
pub(crate) unsafe fn sigaction(signal: i32, new: u64, old: u64, size: usize) -> isize {
    if size != 8
        || !(1..=64).contains(&signal)
        || (new != 0 && (signal == libc::SIGKILL || signal == libc::SIGSTOP))
    {
        return -(sys::EINVAL as isize);
    }
    let vfork_child = PROCESS.is_vfork_child();
    let mut actions = PROCESS.actions.lock();
    let Some(entry) = actions.get_mut(signal as usize) else { return -(sys::EINVAL as isize) };
    let former = *entry;
    if new != 0 {
        // SAFETY: the caller vouches for the address.
        let wanted = unsafe { (new as *const SigAction).read_unaligned() };
        // The table is the parent's too: a vfork child, which only prepares for exec, leaves it alone.
        if !vfork_child {
            *entry = wanted;
        }
        if OURS & bit(signal) == 0 {
            let real = if wanted.handler > SIG_IGN {
                handled(signal, &wanted)
            } else {
                SigAction { restorer: address(memtap_restorer), flags: wanted.flags | SA_RESTORER, ..wanted }
            };
            let result = set_real(signal, &real);
            if sys::failed(result) {
                return result;
            }
        }
    }
    if old != 0 {
        // SAFETY: the caller vouches for the address.
        unsafe { (old as *mut SigAction).write_unaligned(former) };
    }
    0
}

/// sigaltstack by the program.
///
/// # Safety
/// As for [`sigaction`].
pub(crate) unsafe fn sigaltstack(thread: &mut Thread, new: u64, old: u64, rsp: u64) -> isize {
    let current = thread.alt_stack;
    let on_it = is_on(&current, rsp);
    if new != 0 {
        // SAFETY: the caller vouches for the address.
        let wanted = unsafe { (new as *const AltStack).read_unaligned() };
        let mode = wanted.flags & !(1 << 31);
        if on_it {
            return -(sys::EPERM as isize);
        }
        if mode != 0 && mode != libc::SS_DISABLE && mode != libc::SS_ONSTACK {
            return -(sys::EINVAL as isize);
        }
        if mode == libc::SS_DISABLE {
            thread.alt_stack = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };
        } else if wanted.size < libc::MINSIGSTKSZ as u64 {
            return -(sys::ENOMEM as isize);
        } else {
            thread.alt_stack = AltStack { flags: wanted.flags & 1 << 31, ..wanted };
        }
    }
    if old != 0 {
        let flags = current.flags | if on_it { libc::SS_ONSTACK } else { 0 };
        // SAFETY: the caller vouches for the address.
        unsafe { (old as *mut AltStack).write_unaligned(AltStack { flags, ..current }) };
    }
    0
}

pub(crate) fn is_on(stack: &AltStack, rsp: u64) -> bool {
    stack.flags & libc::SS_DISABLE == 0 && rsp > stack.sp && rsp - stack.sp <= stack.size
}

/// rt_sigprocmask by the program: changes the mask that the return from our handler restores.
///
/// # Safety
/// As for [`sigaction`].
pub(crate) unsafe fn sigprocmask(
    thread: &mut Thread,
    context: &mut UContext,
    how: i32,
    new: u64,
    old: u64,
) -> isize {
    let current = context.mask | thread.virtual_mask;
    if new != 0 {
        // SAFETY: the caller vouches for the address.
        let set = unsafe { (new as *const u64).read_unaligned() };
        let mask = match how {
            libc::SIG_BLOCK => current | set,
            libc::SIG_UNBLOCK => current & !set,
            libc::SIG_SETMASK => set,
            _ => return -(sys::EINVAL as isize),
        };
        set_program_mask(thread, context, mask);
    }
    if old != 0 {
        // SAFETY: the caller vouches for the address.
        unsafe { (old as *mut u64).write_unaligned(current) };
    }
    0
}

fn set_program_mask(thread: &mut Thread, context: &mut UContext, mask: u64) {
    let mask = mask & !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
    thread.virtual_mask = mask & OURS;
    context.mask = mask & !OURS;
    put_off_kept(thread, mask);
}

/// A signal of ours came that the program blocks. The kernel does not know that: it waits here, as in the kernel once for the
/// thread and once for the process. Whether it does.
fn keep(thread: &mut Thread, signal: i32, info: &SigInfo) -> bool {
    let mask = thread.wait_mask.unwrap_or(thread.virtual_mask);
    if OURS & mask & bit(signal) == 0 {
        return false;
    }
    let is_for_thread = info.code == SI_TKILL;
    let is_same = |kept: &Pending| kept.signal == signal && (kept.info.code == SI_TKILL) == is_for_thread;
    if !thread.kept.iter().flatten().any(is_same)
        && let Some(place) = thread.kept.iter_mut().find(|place| place.is_none())
    {
        *place = Some(Pending { signal, info: *info });
    }
    true
}

/// Those that this mask does not block come next.
pub(crate) fn put_off_kept(thread: &mut Thread, mask: u64) {
    while let Some(pending) = take_kept(thread, !mask) {
        put_off(thread, pending.signal, &pending.info);
    }
}

/// The signals of ours that wait because the program blocks them, as a mask.
pub(crate) fn kept(thread: &Thread) -> u64 {
    thread.kept.iter().flatten().fold(0, |mask, kept| mask | bit(kept.signal))
}

/// Forgets the signals of ours that wait, which are told to the kernel again; as a mask.
pub(crate) fn take_all_kept(thread: &mut Thread) -> u64 {
    let mask = kept(thread);
    while take_kept(thread, mask).is_some() {}
    mask
}

/// Takes one of these signals that wait: the lowest, those for the thread first.
pub(crate) fn take_kept(thread: &mut Thread, set: u64) -> Option<Pending> {
    let waiting =
        thread.kept.iter_mut().filter(|place| place.as_ref().is_some_and(|kept| set & bit(kept.signal) != 0));
    let key =
        |place: &&mut Option<Pending>| place.as_ref().map(|kept| (kept.info.code != SI_TKILL, kept.signal));
    waiting.min_by_key(key).and_then(Option::take)
}

/// A signal that the program may handle, while its code, or a system call made for it, was running.
///
/// # Safety
/// Called by the kernel as a handler.
unsafe extern "C" fn on_async(signal: i32, info: &mut SigInfo, context: &mut UContext) {
    let current = Thread::current();
    if current.is_null() {
        return;
    }
    // SAFETY: this thread's state; what we interrupted does not use it, or has set `busy`.
    let thread = unsafe { &mut *current };
    on_sent(thread, signal, info, context);
}

/// A signal that somebody has sent.
pub(crate) fn on_sent(thread: &mut Thread, signal: i32, info: &SigInfo, context: &mut UContext) {
    let rip = context.gregs.rip;
    if keep(thread, signal, info) {
        // It does not end a call that waits.
        if rip == address(memtap_wait_end)
            && context.gregs.rax as isize == -(sys::EINTR as isize)
            && thread.pending.first().is_none_or(Option::is_none)
        {
            context.gregs.rax = NOT_MADE as u64;
        }
        return;
    }
    if wait_at(rip) == Some(WaitAt::Before) {
        put_off(thread, signal, info);
        // The call's number is in r12.
        let interrupted = thread.flow.interrupts(context.gregs.r12);
        context.gregs.rip =
            if interrupted { address(memtap_wait_interrupted) } else { address(memtap_wait_again) };
        // What follows blocks them anyway: it must get there, however many come.
        context.mask = !FAULTS;
        return;
    }
    if (address(memtap_wait_end)..=address(memtap_wait_interrupted)).contains(&rip) {
        put_off(thread, signal, info);
        context.mask = !FAULTS;
        return;
    }
    if thread.busy != 0 {
        put_off(thread, signal, info);
        // As above, until it is no longer busy.
        if OURS & bit(signal) == 0 && thread.held_mask.is_none() {
            thread.held_mask = Some(context.mask);
            context.mask = !FAULTS;
        }
        return;
    }
    if is_in_handler(thread, context) {
        put_off(thread, signal, info);
        if (address(memtap_restorer)..address(memtap_sigreturn)).contains(&rip) {
            // It is about to return to a context that lies right behind its own frame.
            // SAFETY: the frame that the kernel made for the handler, which nobody else uses any more.
            settle(thread, unsafe { &mut *(context.gregs.rsp as *mut UContext) });
        }
        return;
    }
    leave_redirect(thread, context);
    if thread.flow.is_stepping() {
        put_off(thread, signal, info);
        return;
    }
    if translate::holds_signals(thread, signal, info, context) {
        put_off(thread, signal, info);
        return;
    }
    if translate::enter(thread, context) == translate::Entered::Between {
        put_off(thread, signal, info);
        translate::step(thread, context);
        return;
    }
    // SAFETY: the context of this signal, which returns to the program.
    unsafe { deliver(thread, signal, info, context) };
    translate::leave(thread, context);
}

/// Whether a signal that is never blocked came while a handler of ours runs: one makes a system call by which the program sends
/// it to itself.
pub(crate) fn is_in_handler(thread: &Thread, context: &UContext) -> bool {
    !translate::is_in_gate(thread, context.gregs.rip) && is_on(&thread.handler_stack, context.gregs.rsp)
}

/// A handler returns to a context of the program or the cache: what came meanwhile comes next.
pub(crate) fn settle(thread: &mut Thread, context: &mut UContext) {
    let waits = thread.pending.first().is_some_and(Option::is_some);
    if !waits || thread.busy != 0 || thread.flow.is_stepping() || thread.step.active {
        return;
    }
    if PROCESS.owns_code(context.gregs.rip) {
        return;
    }
    if thread.flow.is_running() {
        translate::step(thread, context);
    } else {
        // SAFETY: the context that is returned to.
        unsafe { deliver_pending(thread, context) };
    }
}

/// A redirected system call looks to the program as if it stood where the program made it.
pub(crate) fn leave_redirect(thread: &Thread, context: &mut UContext) {
    let rip = context.gregs.rip;
    if rip == address(memtap_redirect) {
        context.gregs.rip = thread.resume.wrapping_sub(2);
    } else if rip == address(memtap_clone) {
        context.gregs.rip = thread.vfork_resume.wrapping_sub(2);
    } else if (address(memtap_clone) + 2..address(memtap_clone_child)).contains(&rip) {
        context.gregs.rip = thread.vfork_resume;
    } else if (address(memtap_redirect_done)..address(memtap_clone)).contains(&rip) {
        context.gregs.rip = thread.resume;
    }
}

pub(crate) fn put_off(thread: &mut Thread, signal: i32, info: &SigInfo) {
    if let Some(place) = thread.pending.iter_mut().find(|place| place.is_none()) {
        *place = Some(Pending { signal, info: *info });
    }
}

/// Delivers what was put off, at the end of a handler.
///
/// # Safety
/// `context` is the one that the handler returns to.
pub(crate) unsafe fn deliver_pending(thread: &mut Thread, context: &mut UContext) {
    for index in 0..thread.pending.len() {
        let Some(pending) = thread.pending.get_mut(index).and_then(Option::take) else { continue };
        let (signal, info) = (pending.signal, &pending.info);
        if thread.wait_mask.unwrap_or(context.mask | thread.virtual_mask) & bit(signal) == 0 {
            // SAFETY: the caller's promise.
            unsafe { deliver(thread, signal, info, context) };
        } else if !keep(thread, signal, info) {
            // The handler of one that came before it blocks it: it waits in the kernel.
            send_again(&pending);
        }
    }
}

/// Sends signals that were put off while `busy` was set to this thread again: now they can be delivered.
pub(crate) fn send_pending_again(thread: &mut Thread) {
    for place in &mut thread.pending {
        if let Some(pending) = place.take() {
            send_again(&pending);
        }
    }
}

fn send_again(pending: &Pending) {
    let (pid, tid) = (sys::getpid() as usize, sys::gettid() as usize);
    let args = [pid, tid, pending.signal as usize, &raw const pending.info as usize, 0, 0];
    // SAFETY: the kernel reads the structure.
    let sent = unsafe { sys::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
    if sys::failed(sent) {
        // The kernel refuses to forge some codes; the plain signal is still right.
        // SAFETY: no pointers.
        unsafe { sys::syscall(libc::SYS_tgkill as usize, [args[0], args[1], args[2], 0, 0, 0]) };
    }
}

/// Makes the program's handler run next, as the kernel would.
///
/// # Safety
/// `context` is the one that the running handler returns to.
pub(crate) unsafe fn deliver(thread: &mut Thread, signal: i32, info: &SigInfo, context: &mut UContext) {
    let action = {
        let mut actions = PROCESS.actions.lock();
        let Some(entry) = actions.get_mut(signal as usize) else { return };
        let action = *entry;
        if action.flags & libc::SA_RESETHAND as u32 as u64 != 0 && action.handler > SIG_IGN {
            entry.handler = SIG_DFL;
            if OURS & bit(signal) == 0 {
                set_real(
                    signal,
                    &SigAction {
                        restorer: address(memtap_restorer),
                        flags: SA_RESTORER,
                        ..Default::default()
                    },
                );
            }
        }
        action
    };
    let blocked = (context.mask | thread.virtual_mask) & bit(signal) != 0;
    let synchronous = FAULTS & bit(signal) != 0 && info.code > 0;
    if action.handler == SIG_IGN && !synchronous {
        return;
    }
    if action.handler <= SIG_IGN || (blocked && synchronous) {
        die_by(thread, signal, info, synchronous);
        return;
    }
    let gregs = &mut context.gregs;
    let mut sp = gregs.rsp.wrapping_sub(RED_ZONE_BYTES);
    if action.flags & libc::SA_ONSTACK as u64 != 0
        && thread.alt_stack.flags & libc::SS_DISABLE == 0
        && !is_on(&thread.alt_stack, gregs.rsp)
    {
        sp = thread.alt_stack.sp.wrapping_add(thread.alt_stack.size);
    }
    // SAFETY: the kernel gave us this state.
    let state_bytes = unsafe { fpstate_bytes(context.fpstate) };
    let state_at = sp.wrapping_sub(state_bytes) & !63;
    let frame_at = (state_at.wrapping_sub(size_of::<SigFrame>() as u64) & !15).wrapping_sub(8);
    let mut saved = *context;
    saved.fpstate = if state_bytes == 0 { 0 } else { state_at };
    saved.mask |= thread.virtual_mask;
    saved.old_mask = saved.mask;
    saved.stack = thread.alt_stack;
    let frame = SigFrame { return_to: action.restorer, context: saved, info: *info };
    // SAFETY: the program's stack below what it uses; where that is not writable the program dies here, by the same
    // signal as natively.
    unsafe {
        write_program(state_at, context.fpstate as *const u8, state_bytes);
        write_program(frame_at, (&raw const frame).cast(), size_of::<SigFrame>() as u64);
    }
    let gregs = &mut context.gregs;
    let interrupted = gregs.rip;
    gregs.rsp = frame_at;
    gregs.rip = action.handler;
    gregs.rdi = signal as u64;
    gregs.rsi = frame_at + core::mem::offset_of!(SigFrame, info) as u64;
    gregs.rdx = frame_at + core::mem::offset_of!(SigFrame, context) as u64;
    gregs.rax = 0;
    gregs.rflags &= !FLAGS_CLEARED;
    let blocked = thread.wait_mask.take().unwrap_or(context.mask | thread.virtual_mask);
    let mut mask = blocked | action.mask;
    if action.flags & libc::SA_NODEFER as u64 == 0 {
        mask |= bit(signal);
    }
    set_program_mask(thread, context, mask);
    if thread.alt_stack.flags & 1 << 31 != 0 && is_on(&thread.alt_stack, frame_at) {
        thread.alt_stack = AltStack { sp: 0, flags: libc::SS_DISABLE, size: 0 };
    }
    let silent = core::mem::take(&mut thread.silent);
    let allocating = core::mem::take(&mut thread.allocating);
    if let Some(place) = thread.suspended.iter_mut().find(|s| s.frame == 0 || s.frame <= frame_at) {
        *place = Suspended { frame: frame_at, silent, allocating };
    }
    if PROCESS.is_recording() {
        thread.emit(&Record::Block {
            ip: VirtAddr(interrupted),
            kind: BlockKind::Fill,
            function: BlockFunction::Signal,
            dst: VirtAddr(frame_at),
            src: VirtAddr(0),
            len: sp.wrapping_sub(frame_at),
        });
    }
}

/// Writes to the program's memory through the open view, page by page.
///
/// # Safety
/// `from` has that many readable bytes, and the program's range is one that the program would write itself now.
unsafe fn write_program(to: u64, from: *const u8, len: u64) {
    let mut done = 0;
    while done < len {
        let at = to + done;
        let part = (4096 - (at & 4095)).min(len - done);
        // SAFETY: the caller's promise, a page at a time because neighbours may differ.
        unsafe {
            core::ptr::copy_nonoverlapping(
                from.add(done as usize),
                open_address(at) as *mut u8,
                part as usize,
            );
        }
        done += part;
    }
}

/// The program has no handler: let the kernel do what it does then.
fn die_by(thread: &mut Thread, signal: i32, info: &SigInfo, synchronous: bool) {
    if OURS & bit(signal) != 0 || synchronous {
        thread.submit();
        set_real(
            signal,
            &SigAction { restorer: address(memtap_restorer), flags: SA_RESTORER, ..Default::default() },
        );
        if !synchronous {
            let args = [sys::getpid() as usize, sys::gettid() as usize, signal as usize, 0, 0, 0];
            // SAFETY: no pointers. The signal arrives when our handler returns.
            unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
        }
        // A synchronous signal comes again by itself when the instruction is executed once more.
    } else {
        let _ = info;
        let args = [sys::getpid() as usize, sys::gettid() as usize, signal as usize, 0, 0, 0];
        set_real(
            signal,
            &SigAction { restorer: address(memtap_restorer), flags: SA_RESTORER, ..Default::default() },
        );
        // SAFETY: no pointers.
        unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
    }
}

/// rt_sigreturn by the program: puts back what we took out of its frame, then lets the kernel do the rest.
///
/// # Safety
/// `context` is that of the system call.
pub(crate) unsafe fn sigreturn(thread: &mut Thread, context: &mut UContext) {
    let frame_at = context.gregs.rsp.wrapping_sub(8);
    let frame = open_address(frame_at) as *mut SigFrame;
    // SAFETY: the program says that its frame is there; if it is not, it dies here as it would in the kernel.
    unsafe {
        let saved = &raw mut (*frame).context;
        let mask = (&raw const (*saved).mask).read_unaligned();
        thread.virtual_mask = mask & OURS;
        (&raw mut (*saved).mask).write_unaligned(mask & !OURS);
        put_off_kept(thread, mask);
        let stack = (&raw const (*saved).stack).read_unaligned();
        thread.alt_stack = stack;
        (&raw mut (*saved).stack).write_unaligned(thread.handler_stack);
        let state = (&raw const (*saved).fpstate).read_unaligned();
        (&raw mut (*saved).fpstate).write_unaligned(open_address(state));
    }
    for place in &mut thread.suspended {
        if place.frame == frame_at {
            thread.silent = place.silent;
            thread.allocating = place.allocating;
        }
        if place.frame != 0 && place.frame <= frame_at {
            place.frame = 0;
        }
    }
    if thread.pending.first().is_some_and(Option::is_some) {
        // Of what the handler blocked something waits: it comes before the program's next instruction.
        // SAFETY: as above; the kernel's frame is as large as one that it made for the program.
        let whole = unsafe { restore(context, (&raw const (*frame).context).read_unaligned()) };
        if whole {
            // SAFETY: the context that the handler returns to.
            unsafe { deliver_pending(thread, context) };
            return;
        }
    }
    if thread.flow.is_running() {
        // SAFETY: as above. The kernel returns to where the cache goes on.
        unsafe {
            let place = &raw mut (*frame).context.gregs.rip;
            place.write_unaligned(translate::resume_address(thread, place.read_unaligned()));
        }
    }
    context.gregs.rsp = open_address(frame_at) + 8;
    context.gregs.rip = address(memtap_sigreturn);
    // Nothing may come between here and there: the frame is no longer as the program left it.
    context.mask = !OURS;
}

/// Makes a context what a frame says. `false`: their states of vector registers are not of one kind.
///
/// # Safety
/// Both are of this thread, and have the states that they point to.
unsafe fn restore(context: &mut UContext, saved: UContext) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = fpstate_bytes(context.fpstate);
        if bytes == 0 || fpstate_bytes(saved.fpstate) != bytes {
            return false;
        }
        core::ptr::copy(saved.fpstate as *const u8, context.fpstate as *mut u8, bytes as usize);
    }
    (context.gregs, context.mask) = (saved.gregs, saved.mask);
    true
}

/// In a new thread or child: what signals mean to it.
pub(crate) fn start_thread(thread: &mut Thread, virtual_mask: u64) {
    thread.virtual_mask = virtual_mask;
    thread.install_handler_stack();
}

/// Undoes [`take_over`] for the signals that are ours: the program is on its own.
pub(crate) fn give_back() {
    let actions = PROCESS.actions.lock();
    for signal in [libc::SIGSEGV, libc::SIGTRAP, libc::SIGSYS] {
        if let Some(action) = actions.get(signal as usize) {
            set_real(signal, action);
        }
    }
}

/// Undoes [`take_over`] for all signals, each with what the program wants by now.
pub(crate) fn give_back_all() {
    let actions = PROCESS.actions.lock();
    for signal in 1..=64 {
        let ours = OURS & bit(signal) != 0;
        if let Some(action) = actions.get(signal as usize).filter(|action| ours || action.handler > SIG_IGN) {
            set_real(signal, action);
        }
    }
}

/// The state of the signal's context that an engine step may use: never null on this architecture.
pub(crate) fn vector_state(context: &UContext) -> *mut u8 {
    context.fpstate as *mut u8
}

/// Whether this process has other threads.
pub(crate) fn is_threaded() -> bool {
    PROCESS.live_threads.load(Ordering::Relaxed) > 1
}

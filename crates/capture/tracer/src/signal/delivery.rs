//! Delivers the program's signals as it would receive them without us.
//!
//! The kernel delivers every signal that the program handles to us, on our own stack. We build the program's
//! frame by hand, on its stack or its signal stack, through the open view where that memory is closed, and return
//! into its handler; its sigreturn comes back as a system call. The program's handlers therefore run as ordinary
//! code of the program: they may be interrupted, may leave by longjmp, and may use memory that is closed.
//!
//! SIGSEGV, SIGTRAP and SIGSYS are never actually blocked; the mask that the program set for them is in `ThreadSignals::virtual_mask`.

use buffers::Record;
use memref::{BlockFunction, BlockKind, VirtAddr};
use tracee::frame::{SigFrame, SigInfo, UContext, fpstate_bytes};
use tracee::sys;

use crate::memory::{pages, program_writes};
use crate::registers::{DIRECTION_FLAG, RESUME_FLAG, TRAP_FLAG};
use crate::signal::actions::{self, ACTIONS, SIG_DFL, SIG_IGN};
use crate::signal::mask::{self, FAULTS, OURS};
use crate::signal::stubs::{self, SYSCALL_BYTES, StubPlace};
use crate::signal::{alt_stack, deaths, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::thread_signals::SetAside;

const RED_ZONE_BYTES: u64 = 128;

/// The trap, resume and direction flags.
const FLAGS_CLEARED: u64 = TRAP_FLAG | RESUME_FLAG | DIRECTION_FLAG;

/// A redirected system call looks to the program as if it stood where the program made it.
pub(crate) fn leave_redirect(thread: &TracedThread, context: &mut UContext) {
    let rip = &mut context.gregs.rip;
    match stubs::place(*rip) {
        Some(StubPlace::BeforeRedirected) => *rip = thread.words.resume.wrapping_sub(SYSCALL_BYTES),
        Some(StubPlace::AfterRedirected) => *rip = thread.words.resume,
        Some(StubPlace::BeforeClone) => *rip = thread.words.vfork_resume.wrapping_sub(SYSCALL_BYTES),
        Some(StubPlace::AfterClone) => *rip = thread.words.vfork_resume,
        _ => {}
    }
}

/// Delivers what was put off, at the end of a handler.
///
/// # Safety
/// `context` is the one that the handler returns to.
pub(crate) unsafe fn deliver_pending(thread: &mut TracedThread, context: &mut UContext) {
    for index in 0..thread.signals.pending.len() {
        let Some(pending) = thread.signals.pending.get_mut(index).and_then(Option::take) else { continue };
        let (signal, info) = (pending.signal, &pending.info);
        if thread.signals.wait_mask.unwrap_or(context.mask | thread.signals.virtual_mask) & mask::bit(signal)
            == 0
        {
            // SAFETY: the caller's promise.
            unsafe { deliver(thread, signal, info, context) };
        } else if FAULTS & mask::bit(signal) != 0 {
            waiting::hold(thread, signal, info);
        } else {
            // The handler of one that came before it blocks it: it waits in the kernel.
            waiting::send_again(&pending);
        }
    }
}

/// Makes the program's handler run next, as the kernel would.
///
/// # Safety
/// `context` is the one that the running handler returns to.
pub(crate) unsafe fn deliver(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &mut UContext) {
    let action = {
        let mut actions = ACTIONS.lock();
        let Some(entry) = actions.get_mut(signal as usize) else { return };
        let action = *entry;
        if action.flags & libc::SA_RESETHAND as u32 as u64 != 0 && action.handler > SIG_IGN {
            entry.handler = SIG_DFL;
            if OURS & mask::bit(signal) == 0 {
                actions::reset(signal);
            }
        }
        action
    };
    let blocked = (context.mask | thread.signals.virtual_mask) & mask::bit(signal) != 0;
    let synchronous = FAULTS & mask::bit(signal) != 0 && info.code > 0;
    if action.handler == SIG_IGN && !synchronous {
        return;
    }
    if action.handler <= SIG_IGN || (blocked && synchronous) {
        die_by(thread, signal, info, context, synchronous);
        return;
    }
    let gregs = &mut context.gregs;
    let mut sp = gregs.rsp.wrapping_sub(RED_ZONE_BYTES);
    if action.flags & libc::SA_ONSTACK as u64 != 0
        && let Some(end) = alt_stack::begin_at(&thread.signals.alt_stack, gregs.rsp)
    {
        sp = end;
    }
    // SAFETY: the kernel gave us this state.
    let state_bytes = unsafe { fpstate_bytes(context.fpstate) };
    let state_at = sp.wrapping_sub(state_bytes) & !63;
    let frame_at = (state_at.wrapping_sub(size_of::<SigFrame>() as u64) & !15).wrapping_sub(8);
    let mut saved = *context;
    saved.fpstate = if state_bytes == 0 { 0 } else { state_at };
    saved.mask |= thread.signals.virtual_mask;
    saved.old_mask = saved.mask;
    saved.stack = thread.signals.alt_stack;
    let frame = SigFrame { return_to: action.restorer, context: saved, info: *info };
    // SAFETY: the program's stack below what it uses, and what the kernel gave us.
    let is_written = unsafe {
        let state = match state_bytes {
            0 => &[][..],
            len => core::slice::from_raw_parts(context.fpstate as *const u8, len as usize),
        };
        let frame = core::slice::from_raw_parts((&raw const frame).cast::<u8>(), size_of::<SigFrame>());
        program_writes::write(state_at, state) && program_writes::write(frame_at, frame)
    };
    if !is_written {
        // No room for the frame is SIGSEGV, which dies by it if it was the one.
        let fault = SigInfo::fault(libc::SIGSEGV, libc::SI_KERNEL, 0);
        if signal == libc::SIGSEGV {
            die_by(thread, signal, &fault, context, false);
        } else {
            // SAFETY: the caller's promise.
            unsafe { deliver(thread, libc::SIGSEGV, &fault, context) };
        }
        return;
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
    let blocked = thread.signals.wait_mask.take().unwrap_or(context.mask | thread.signals.virtual_mask);
    let mut mask = blocked | action.mask;
    if action.flags & libc::SA_NODEFER as u64 == 0 {
        mask |= mask::bit(signal);
    }
    waiting::set_program_mask(thread, context, mask);
    alt_stack::disarm(thread);
    let silent = core::mem::take(&mut thread.calls.silent);
    let allocating = core::mem::take(&mut thread.calls.allocating);
    if let Some(place) = thread.signals.set_aside.iter_mut().find(|s| s.frame == 0 || s.frame <= frame_at) {
        *place = SetAside { frame: frame_at, silent, allocating };
    }
    if PROCESS.is_recording() {
        thread.emit(&Record::Block {
            ip: VirtAddr(interrupted),
            kind: BlockKind::Fill,
            function: BlockFunction::Signal,
            dst: VirtAddr(frame_at),
            src: VirtAddr(signal as u64),
            len: sp.wrapping_sub(frame_at),
        });
    }
    thread.take_signal(interrupted, signal, info);
}

/// A handler of ours has faulted, in its own code or in a library's that it called: the process ends by it, and that is told.
pub(crate) fn die_in_handler(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &UContext) {
    deaths::tell_of_handler(thread, signal, info, context.gregs.rip);
    thread.submit();
    // It comes again when the instruction is executed once more.
    actions::reset(signal);
}

/// The program has no handler: let the kernel do what it does then.
fn die_by(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &UContext, synchronous: bool) {
    deaths::tell(thread, signal, info, context.gregs.rip);
    // After a trap and after a call that a filter refused the next instruction would be executed.
    let comes_again = synchronous && !matches!(signal, libc::SIGTRAP | libc::SIGSYS);
    if OURS & mask::bit(signal) != 0 || synchronous {
        thread.submit();
        actions::reset(signal);
        if !comes_again {
            let args = [sys::getpid() as usize, sys::gettid() as usize, signal as usize, 0, 0, 0];
            // SAFETY: no pointers. The signal arrives when our handler returns.
            unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
        }
        // That of a fault comes again by itself when the instruction is executed once more.
    } else {
        let args = [sys::getpid() as usize, sys::gettid() as usize, signal as usize, 0, 0, 0];
        actions::reset(signal);
        // SAFETY: no pointers.
        unsafe { sys::syscall(libc::SYS_tgkill as usize, args) };
    }
}

/// rt_sigreturn by the program: puts back what we took out of its frame, then lets the kernel do the rest.
///
/// `resume` gives the address at which the kernel is to go on with a program that is translated.
///
/// # Safety
/// `context` is that of the system call.
pub(crate) unsafe fn sigreturn(
    thread: &mut TracedThread,
    context: &mut UContext,
    resume: impl FnOnce(&mut TracedThread, u64) -> u64,
) {
    let frame_at = context.gregs.rsp.wrapping_sub(8);
    let frame = pages::open_address(frame_at) as *mut SigFrame;
    // SAFETY: the program says that its frame is there; if it is not, it dies here as it would in the kernel.
    unsafe {
        let saved = &raw mut (*frame).context;
        let mask = (&raw const (*saved).mask).read_unaligned();
        thread.signals.virtual_mask = mask & OURS;
        (&raw mut (*saved).mask).write_unaligned(mask & !OURS);
        waiting::put_off_kept(thread, mask);
        let stack = (&raw const (*saved).stack).read_unaligned();
        let rsp = (&raw const (*saved).gregs.rsp).read_unaligned();
        alt_stack::restore(thread, stack, rsp);
        (&raw mut (*saved).stack).write_unaligned(thread.signals.handler_stack);
        let state = (&raw const (*saved).fpstate).read_unaligned();
        (&raw mut (*saved).fpstate).write_unaligned(pages::open_address(state));
    }
    for place in &mut thread.signals.set_aside {
        if place.frame == frame_at {
            thread.calls.silent = place.silent;
            thread.calls.allocating = place.allocating;
        }
        if place.frame != 0 && place.frame <= frame_at {
            place.frame = 0;
        }
    }
    if thread.signals.are_pending() {
        // Of what the handler blocked something waits: it comes before the program's next instruction.
        // SAFETY: the program's frame is there, see its saved words; the kernel's is as large as one that it made for the program.
        let whole = unsafe { restore(context, (&raw const (*frame).context).read_unaligned()) };
        if whole {
            // SAFETY: the context that the handler returns to.
            unsafe { deliver_pending(thread, context) };
            return;
        }
    }
    if thread.translation.is_running() {
        // SAFETY: the program's frame is there. The kernel returns to where the cache goes on.
        unsafe {
            let place = &raw mut (*frame).context.gregs.rip;
            place.write_unaligned(resume(thread, place.read_unaligned()));
        }
    } else {
        // SAFETY: the program's frame is there.
        let rip = unsafe { (&raw const (*frame).context.gregs.rip).read_unaligned() };
        thread.translation.note_return(rip);
    }
    context.gregs.rsp = pages::open_address(frame_at) + 8;
    context.gregs.rip = stubs::sigreturn_entry();
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

/// The state of the signal's context that an engine step may use: never null on this architecture.
pub(crate) fn vector_state(context: &UContext) -> *mut u8 {
    context.fpstate as *mut u8
}

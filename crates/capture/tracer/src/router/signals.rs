//! Receives every signal of both tracers, and decides who handles it.
//!
//! Faults of instructions and the tracer's own signals (SIGSEGV, SIGTRAP, SIGSYS) come to [`on_fault`],
//! which asks each possible claimant in turn ([`claimants`]). All other signals that the program handles
//! come to [`on_async`]. Work for the program is done between the two ends of a [`NativeContext`].

use core::arch::global_asm;
use core::mem::offset_of;

use tracee::frame::{SigInfo, UContext};
use tracee::{guarded, sys};

use crate::memory::pages::{self, PAGE_VIEWED};
use crate::process::threads;
use crate::protect::advance::{self, Advance};
use crate::protect::fault;
use crate::recording::breakpoint;
use crate::registers::{ALIGNMENT_FLAG, SEGV_ACCERR};
use crate::router::{direct, dispatch, exits, old_calls};
use crate::signal::actions::{self, Handlers};
use crate::signal::mask::{self, FAULTS, OURS};
use crate::signal::stubs::{self, NOT_MADE, StubPlace};
use crate::signal::{delivery, trap_reason, wait_limit, waiting};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::translate::bracket::NativeContext;
use crate::translate::{buffer_end, gate, raised, stepping, traps};
use crate::watch::hits;

/// Who the kernel calls.
pub(crate) const HANDLERS: Handlers = Handlers { fault: memtap_on_fault, sent: memtap_on_async };

global_asm!(
    // The kernel clears the direction and trap flags for a handler, but not that of alignment checks, with which our code
    // would fault. The return from the handler gives it back.
    ".globl memtap_on_fault",
    ".hidden memtap_on_fault",
    ".globl memtap_on_async",
    ".hidden memtap_on_async",
    "memtap_on_fault:",
    "test dword ptr [rdx + {flags}], {alignment}",
    "jz {on_fault}",
    "push 2",
    "popfq",
    "jmp {on_fault}",
    "memtap_on_async:",
    "test dword ptr [rdx + {flags}], {alignment}",
    "jz {on_async}",
    "push 2",
    "popfq",
    "jmp {on_async}",
    flags = const offset_of!(UContext, gregs) + offset_of!(x86::Registers, rflags),
    alignment = const ALIGNMENT_FLAG,
    on_fault = sym on_fault,
    on_async = sym on_async,
);

unsafe extern "C" {
    fn memtap_on_fault(signal: i32, info: &mut SigInfo, context: &mut UContext);
    fn memtap_on_async(signal: i32, info: &mut SigInfo, context: &mut UContext);
}

/// SIGSEGV, SIGTRAP, SIGSYS, and the other faults where the program handles them.
///
/// # Safety
/// Called by the kernel as a handler.
unsafe extern "C" fn on_fault(signal: i32, info: &mut SigInfo, context: &mut UContext) {
    let is_access = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && info.code > 0;
    if is_access && guarded::leave_copy(&mut context.gregs) {
        return;
    }
    if is_access && hits::on_fault(&mut context.gregs.rip) {
        return;
    }
    if signal == libc::SIGTRAP {
        trap_reason::complete(info, context);
    }
    if signal == libc::SIGTRAP && stubs::is_birth(context.gregs.rip) {
        threads::be_born(context);
        // The kernel keeps one SIGTRAP for a thread: one that was sent meanwhile came in the place of the trap's.
        if info.code > 0 {
            return;
        }
    }
    be_born_early(context);
    let current = TracedThread::current();
    if current.is_null() && info.code <= 0 && PROCESS.owns_code(context.gregs.rip) {
        // A new thread had one waiting in the kernel when it came to its trap: this handler stands on top of that of the trap, which
        // has not begun.
        waiting::come_again(signal, info, context);
        return;
    }
    if current.is_null() {
        // A thread that nobody announced: its faults are its own.
        actions::give_back();
        return;
    }
    // A fault inside one of our stubs: the step that runs it ends with `Outcome::Fault`.
    // SAFETY: this thread's engine; `recover` only reads it.
    if info.code > 0 && unsafe { (*(*current).engine).recover(&mut context.gregs) } {
        // SAFETY: this thread's own state; the step that we interrupted reads it after us.
        unsafe { (*current).nested = Some(*info) };
        return;
    }
    // SAFETY: this thread's state; the code that we interrupted is the program's, or ours outside of handlers, which
    // does not fault while it uses the state.
    let thread = unsafe { &mut *current };
    if signal == libc::SIGSYS && info.code == sys::SYS_USER_DISPATCH && gate::is_ours(thread, context) {
        // The loader, which we ask for a function, makes calls of its own: it may have to wait, or writes what it looks up.
        direct::make_for_library(context);
        return;
    }
    let is_nested = gate::is_in_handler(thread, context);
    raised::learn(context);
    handle(thread, signal, info, context);
    if !is_nested {
        settle(thread, context);
        traps::end_handler(thread, context);
    }
}

/// Who may say that a signal is his.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimant {
    /// A system call of the program.
    SystemCall,
    /// The end of a buffer that translated code writes.
    BufferEnd,
    /// A write to a page with code.
    CodeWrite,
    /// A function of ours in the place of one that the program called.
    OwnCall,
    /// The timer that ends a wait.
    WaitLimit,
    /// Translated code: its traps, its steps, kicks.
    TranslatedCode,
    /// A page that is closed.
    ClosedPage,
    /// An instruction that ran with memory open.
    OpenInstruction,
    /// A function whose entry starts or stops recording.
    Breakpoint,
    /// Somebody has sent it.
    Sender,
    /// The program's own fault.
    Program,
}

/// Who is asked whether a signal is his, one after the other; the last one takes it.
fn claimants(signal: i32, code: i32) -> &'static [Claimant] {
    use Claimant::{
        Breakpoint, BufferEnd, ClosedPage, CodeWrite, OpenInstruction, OwnCall, Program, Sender, SystemCall,
        TranslatedCode, WaitLimit,
    };
    let is_fault = code > 0;
    match signal {
        libc::SIGSYS if code == sys::SYS_USER_DISPATCH => &[SystemCall],
        libc::SIGSEGV if code == SEGV_ACCERR => &[BufferEnd, CodeWrite, OwnCall, ClosedPage, Program],
        libc::SIGSEGV if is_fault => &[BufferEnd, OwnCall, ClosedPage, Program],
        libc::SIGBUS if is_fault => &[OwnCall, Program],
        libc::SIGTRAP if is_fault => &[TranslatedCode, OpenInstruction, Breakpoint, Program],
        libc::SIGTRAP => &[WaitLimit, TranslatedCode, Sender],
        _ if is_fault => &[Program],
        _ => &[Sender],
    }
}

impl Claimant {
    /// Handles a signal. `false`: it is not his.
    fn takes(self, thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &mut UContext) -> bool {
        match self {
            Self::SystemCall => {
                let native = NativeContext::of_system_call(thread, context);
                if info.is_call_of_32_bits() {
                    old_calls::on_old_call(native.thread, native.context);
                } else {
                    // SAFETY: the kernel's context of a dispatched system call.
                    unsafe { dispatch::on_system_call(native.thread, native.context) };
                }
            }
            Self::BufferEnd => return buffer_end::on_buffer_end(thread, info, context),
            Self::CodeWrite => return traps::on_code_write(thread, info, context),
            Self::OwnCall => return exits::leave_own_call(thread, context),
            Self::WaitLimit => return wait_limit::on_limit(thread, info, context),
            Self::TranslatedCode => return traps::on_trap(thread, info, context),
            Self::ClosedPage => {
                if pages::page(info.addr) & PAGE_VIEWED == 0 {
                    return false;
                }
                return fault::on_closed_page(thread, info, context);
            }
            Self::OpenInstruction => {
                if !thread.protection.step.active {
                    return false;
                }
                fault::end_step(thread, context);
            }
            Self::Breakpoint => return breakpoint::on_trap(thread, context),
            Self::Sender => on_sent(thread, signal, info, context),
            Self::Program => on_own_fault(thread, signal, info, context),
        }
        true
    }
}

fn handle(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &mut UContext) {
    for claimant in claimants(signal, info.code) {
        if claimant.takes(thread, signal, info, context) {
            return;
        }
    }
}

/// A fault of the program's own.
fn on_own_fault(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &mut UContext) {
    if direct::is_refused(thread, signal, context) {
        return;
    }
    let is_fault = matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE);
    if is_fault && gate::is_ours(thread, context) {
        // What was done for the program, on a stack of ours: the program could do nothing about it.
        delivery::die_in_handler(thread, signal, info, context);
        return;
    }
    delivery::leave_redirect(thread, context);
    let fault_at = context.gregs.rip;
    let native = NativeContext::of_fault(thread, context);
    let mut own = *info;
    if own.addr == fault_at {
        // It is told of the instruction: of the program's, then.
        own.addr = native.context.gregs.rip;
    } else if matches!(signal, libc::SIGSEGV | libc::SIGBUS) && pages::program_address(own.addr) != own.addr {
        // Of a block operation, which is performed on our view: the program has no right to that memory.
        own.addr = pages::program_address(own.addr);
        native.context.cr2 = own.addr;
    }
    // SAFETY: the context that we return to.
    unsafe { delivery::deliver(native.thread, signal, &own, native.context) };
}

/// A signal may be sent to a new thread before it comes to our trap: nobody can block those that we need.
fn be_born_early(context: &mut UContext) {
    if stubs::is_unborn(&context.gregs) {
        threads::be_born(context);
    }
}

/// A signal that the program may handle, while its code, or a system call made for it, was running.
///
/// # Safety
/// Called by the kernel as a handler.
unsafe extern "C" fn on_async(signal: i32, info: &mut SigInfo, context: &mut UContext) {
    be_born_early(context);
    let current = TracedThread::current();
    if current.is_null() {
        return;
    }
    // SAFETY: this thread's state; what we interrupted does not use it, or has set `busy`.
    let thread = unsafe { &mut *current };
    on_sent(thread, signal, info, context);
}

/// A signal that somebody has sent.
fn on_sent(thread: &mut TracedThread, signal: i32, info: &SigInfo, context: &mut UContext) {
    let rip = context.gregs.rip;
    let place = stubs::place(rip);
    // Asked only where this thread can't be about to change its action.
    let is_ignored =
        || matches!(place, Some(StubPlace::BeforeWait | StubPlace::AfterWait)) && actions::ignores(signal);
    if waiting::keep(thread, signal, info) || is_ignored() {
        // It does not end a call that waits.
        if place == Some(StubPlace::AfterWait)
            && context.gregs.rax as isize == -(sys::EINTR as isize)
            && !thread.signals.are_pending()
        {
            context.gregs.rax = NOT_MADE as u64;
        }
        return;
    }
    if place == Some(StubPlace::BeforeWait) {
        waiting::put_off(thread, signal, info);
        // The call's number is in r12.
        if thread.translation.interrupts(context.gregs.r12) {
            context.gregs.rip = stubs::wait_interrupted(rip);
        } else if thread.translation.starved {
            // It would never be made.
            wait_limit::begin(thread);
        } else {
            context.gregs.rip = stubs::wait_again(rip);
        }
        // What follows blocks them anyway: it must get there, however many come.
        hold_others(thread, context);
        return;
    }
    if matches!(place, Some(StubPlace::AfterWait | StubPlace::EndOfWait)) {
        waiting::put_off(thread, signal, info);
        hold_others(thread, context);
        return;
    }
    if thread.busy != 0 {
        waiting::put_off(thread, signal, info);
        if OURS & mask::bit(signal) == 0 {
            hold_others(thread, context);
        }
        return;
    }
    if gate::is_in_handler(thread, context) {
        waiting::put_off(thread, signal, info);
        if place == Some(StubPlace::Returning) {
            // It is about to return to a context that lies right after its own frame.
            // SAFETY: the frame that the kernel made for the handler, which nobody else uses any more.
            settle(thread, unsafe { &mut *(context.gregs.rsp as *mut UContext) });
        }
        return;
    }
    delivery::leave_redirect(thread, context);
    if thread.translation.is_stepping() {
        waiting::put_off(thread, signal, info);
        return;
    }
    match advance::advance(thread, signal, info, context) {
        Advance::NotNeeded => {}
        Advance::Done => return,
        Advance::AtCall => {
            let native = NativeContext::of_system_call(thread, context);
            // SAFETY: the context is as that of a dispatched system call: all signals are blocked, and the call comes before it.
            unsafe { dispatch::on_system_call(native.thread, native.context) };
            return;
        }
    }
    if stepping::holds_signals(thread, signal, info, context) {
        waiting::put_off(thread, signal, info);
        return;
    }
    if let Some(native) = NativeContext::of_signal(thread, context) {
        // SAFETY: the context of this signal, which returns to the program.
        unsafe { delivery::deliver(native.thread, signal, info, native.context) };
        return;
    }
    waiting::put_off(thread, signal, info);
    stepping::step(thread, context);
}

/// All other signals are blocked from here on: in a handler to its end, else until the thread is no longer busy.
fn hold_others(thread: &mut TracedThread, context: &mut UContext) {
    if thread.busy != 0 && thread.signals.held_mask.is_none() {
        thread.signals.held_mask = Some(context.mask);
    }
    context.mask = !FAULTS;
}

/// A handler returns to a context of the program or the cache: what came meanwhile comes next.
fn settle(thread: &mut TracedThread, context: &mut UContext) {
    let waits = thread.signals.are_pending();
    if !waits || thread.busy != 0 || thread.translation.is_stepping() || thread.protection.step.active {
        return;
    }
    if PROCESS.owns_code(context.gregs.rip) {
        return;
    }
    if thread.translation.is_running() {
        stepping::step(thread, context);
    } else {
        // SAFETY: the context that is returned to.
        unsafe { delivery::deliver_pending(thread, context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_who_is_asked_takes_the_signal() {
        for signal in 1..=64 {
            for code in [-60, -6, 0, 1, 2, 3, 128] {
                let asked = claimants(signal, code);
                let last = asked.last().expect("somebody is asked");
                assert!(
                    matches!(last, Claimant::Program | Claimant::Sender | Claimant::SystemCall),
                    "{signal} {code}"
                );
                // Who has sent a signal is no instruction, and an instruction is no sender.
                assert_eq!(asked.contains(&Claimant::Sender), code <= 0, "{signal} {code}");
                for (index, claimant) in asked.iter().enumerate() {
                    assert!(!asked[..index].contains(claimant));
                }
            }
        }
    }

    #[test]
    fn closed_pages_come_after_what_translated_code_claims() {
        let check = |signal, code, expect: &[Claimant]| assert_eq!(claimants(signal, code), expect);
        let (buffer, page, own) = (Claimant::BufferEnd, Claimant::ClosedPage, Claimant::Program);
        check(libc::SIGSEGV, SEGV_ACCERR, &[buffer, Claimant::CodeWrite, Claimant::OwnCall, page, own]);
        check(libc::SIGSEGV, 1, &[buffer, Claimant::OwnCall, page, own]);
        check(libc::SIGSYS, sys::SYS_USER_DISPATCH, &[Claimant::SystemCall]);
        // What a seccomp filter of the program raises is the program's own.
        check(libc::SIGSYS, 1, &[own]);
        check(libc::SIGFPE, 1, &[own]);
        check(libc::SIGUSR1, 0, &[Claimant::Sender]);
        // A kick is a trap that somebody has sent, as is the end of a wait.
        let kick = [Claimant::WaitLimit, Claimant::TranslatedCode, Claimant::Sender];
        check(libc::SIGTRAP, -0x6d74, &kick);
    }
}

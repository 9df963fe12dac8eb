//! System calls of translated code that are made in the gate, without a signal.
//!
//! Most calls need nothing of what a signal provides: no context to change, no mask to set. Code in the cache leaves
//! through the gate for each call ([`CallSite`]), and such calls are made here. The following are made by `dispatch`
//! in the handler of SIGSYS: all other calls, those of a child of vfork, and all calls while the thread is stepped,
//! is compared with stepping, or has pending signals. That handler is entered from here (`translate::raised`) or,
//! while stepping, by the instruction after the gate's way out, for which the kernel raises that signal.
//!
//! The thread is `busy` meanwhile, so its signals are deferred and handled in the gate as soon as the call is
//! done, before the program's next instruction. The kernel's mask is the program's. A call that may wait checks
//! once more for deferred signals, at a place where a handler sees that it has not begun (`stubs::gate_wait`).

use core::sync::atomic::Ordering;

use buffers::flow::Live;
use code_cache::CallSite;
use tracee::frame::UContext;
use tracee::sys;

use crate::process::filters;
use crate::registers::TRAP_FLAG;
use crate::router::dispatch::Maker;
use crate::signal::stubs::{self, NOT_MADE};
use crate::state::process::PROCESS;
use crate::state::thread::{GATE_CALL, TracedThread};
use crate::stop::{kick, park};
use crate::syscall::call::SystemCall;
use crate::syscall::table::{self, Arg, Manner};
use crate::translate::{gate, stepping};

/// How a call is made that the cache was left for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// It was made here: the registers say how to go on.
    Here,
    /// The handler makes it, as if the instruction had been executed that this address comes after. The registers are at the
    /// instruction.
    ByHandler(u64),
}

/// Makes the call that the cache was left for, if it is one of those that are made here.
pub(crate) fn make(thread: &mut TracedThread, live: &Live, gregs: &mut x86::Registers) -> Made {
    let at = live.target();
    // SAFETY: the cache has left the address of a word of its own there.
    let site = CallSite::new(at, unsafe { (at as *const u64).read() });
    gregs.rip = site.instruction;
    let by_handler = Made::ByHandler(site.after);
    let call = SystemCall::of(gregs, site.next);
    let is_plain = !thread.translation.is_stepping()
        && !thread.window.is_due()
        && gregs.rflags & TRAP_FLAG == 0
        && site.mode == Some(thread.mode());
    if !is_plain || !is_direct(&call) || is_lent(thread) {
        return by_handler;
    }
    thread.translation.resumed = 0;
    stepping::note_progress(thread, call.number);
    // SAFETY: the program vouches for its own arguments as it would to the kernel.
    let result = unsafe { call.make_in_gate(thread) };
    if result == NOT_MADE {
        return by_handler;
    }
    gregs.rax = result as u64;
    // The instruction leaves these in two registers.
    (gregs.rcx, gregs.r11) = (site.next, gregs.rflags);
    gregs.rip = site.after;
    Made::Here
}

/// Makes a call of a library's that code of ours has called: it is neither the program's nor recorded.
pub(crate) fn make_for_library(context: &mut UContext) {
    let gregs = &mut context.gregs;
    let SystemCall { number, args, .. } = SystemCall::of(gregs, gregs.rip);
    // SAFETY: the library vouches for its own arguments.
    gregs.rax = unsafe { sys::syscall(number as usize, args) } as u64;
}

/// Whether this is a child of vfork. Where it is killed in a call, its parent is to find its own state as it was: not busy, and not
/// in the gate.
fn is_lent(thread: &mut TracedThread) -> bool {
    thread.system_call.is_lent = thread.system_call.is_lent && PROCESS.is_vfork_child();
    thread.system_call.is_lent
}

/// Whether a call is made in the gate.
fn is_direct(call: &SystemCall) -> bool {
    match call.number {
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_brk | libc::SYS_mprotect | libc::SYS_madvise => true,
        libc::SYS_ioctl => !may_be_left(Manner::Waits),
        // What they are about is the thread's context or mask, a signal for itself, or a name that is the tracer's to tell.
        libc::SYS_rt_sigpending
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_rt_sigsuspend
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_rt_tgsigqueueinfo
        | libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_tgkill
        | libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_restart_syscall => false,
        // The process may have to go on natively.
        libc::SYS_seccomp | libc::SYS_prctl if filters::is_one(call) => false,
        // They wait, and end with EINTR under signals that come faster than their handlers return (`stepping`).
        libc::SYS_pause => false,
        number => {
            let (manner, kinds) = table::describe(number);
            let sets_mask = kinds
                .iter()
                .zip(call.args)
                .any(|(kind, arg)| matches!(kind, Arg::Mask | Arg::MaskPair) && arg != 0);
            // Of a call that is in no table nobody knows what it does.
            manner != Manner::Open && kinds != [Arg::Any; 6] && !sets_mask && !may_be_left(manner)
        }
    }
}

/// Whether a thread that waits in such a call may be left meanwhile: for that the whole context of a handler is needed.
fn may_be_left(manner: Manner) -> bool {
    let settings = PROCESS.settings();
    manner == Manner::Waits && (settings.leaves || settings.attached)
}

impl SystemCall {
    /// # Safety
    /// The call is sound with its arguments.
    unsafe fn make_in_gate(&self, thread: &mut TracedThread) -> isize {
        if self.number == libc::SYS_futex {
            thread.tell_futex(self.ip, &self.args, None);
        }
        // SAFETY: the program's own arguments.
        let result = unsafe {
            match self.memory_call(thread) {
                Some(result) => result,
                None if self.number == libc::SYS_ioctl => Maker::Gate.wait(thread, self.number, &self.args),
                None => self.make_described(thread, &Maker::Gate),
            }
        };
        if self.number == libc::SYS_futex && result != NOT_MADE {
            thread.tell_futex(self.ip, &self.args, Some(result));
        }
        result
    }
}

/// Makes a call that may wait.
pub(super) fn wait(thread: &mut TracedThread, number: libc::c_long, args: &[usize; 6]) -> isize {
    let seen = thread.signals.arrivals.load(Ordering::Relaxed);
    if thread.signals.are_pending() {
        return NOT_MADE;
    }
    let mode = thread.mode();
    thread.system_call.calling.store(GATE_CALL, Ordering::SeqCst);
    let result = stubs::gate_wait(number as usize, args, &thread.signals.arrivals, seen);
    // Before it is looked what kind of code comes next: see `kick::kick_others`.
    thread.system_call.calling.swap(core::ptr::null_mut(), Ordering::SeqCst);
    if mode != thread.mode() || park::is_asked() {
        // What a kick would have done while it waited.
        kick::kick_self();
    }
    result
}

/// A fault that is no instruction's of the program, while a call is made in the gate: a filter of the program's own refuses the call
/// by a signal. Then the call is made as all others, where that signal finds the program's context. `false`: no such fault.
pub(crate) fn is_refused(thread: &TracedThread, signal: i32, context: &mut UContext) -> bool {
    let is_refused =
        signal == libc::SIGSYS && thread.busy != 0 && gate::is_in_gate(thread, context.gregs.rip);
    if is_refused {
        context.gregs.rax = NOT_MADE as u64;
    }
    is_refused
}

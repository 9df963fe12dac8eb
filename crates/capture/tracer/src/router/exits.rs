//! What happens where code leaves the cache by a branch: the gate calls this.

use core::ptr;

use code_cache::{Checked, Exit, FS_SPILL, Mode, SPECIAL_INSTRUCTION, SYSTEM_CALL};
use tracee::frame::UContext;
use tracee::sys;

use crate::registers::{DIRECTION_FLAG, TRAP_FLAG};
use crate::router::direct::{self, Made};
use crate::signal::busy;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::translate::engine::{self, ENGINE};
use crate::translate::{context, entry_calls, entry_table, raised, sync, verify};
use crate::watch::hits::Origin;

/// The cache was left through its gate: where the program goes on.
fn on_exit(thread: &mut TracedThread, regs: &mut x86::Registers, exit: Exit) {
    let Some(live) = thread.translation.live() else { return };
    thread.work.exits.add(1);
    match exit {
        Exit::Goto(target, mode, via) => {
            regs.rip = target;
            if mode != thread.mode() {
                context::leave_gate(thread, regs);
            } else if let Some(code) = engine::code_for(thread, target, false) {
                ENGINE.lock().set_link(via, code);
                regs.rip = code;
                verify::resume(thread, regs, ptr::null_mut());
            }
        }
        Exit::Indirect(mode) => {
            thread.work.lookups.add(1);
            let target = live.target();
            (regs.rcx, regs.rdx) = (live.spill(2), live.spill(3));
            regs.rip = target;
            if entry_calls::end_hook(thread, regs) {
                context::leave_gate(thread, regs);
                return;
            }
            if mode == Mode::Record {
                sync::returned(thread, regs);
                // SAFETY: the top of the program's stack, where the caller has just left the return address.
                let return_to = || unsafe { (regs.rsp as *const u64).read_unaligned() };
                let stop = sync::runs(thread, regs, return_to);
                if stop != 0 {
                    engine::intercept(thread, stop, Mode::Record);
                }
            }
            if PROCESS.owns_code(target) && !entry_table::is_entry(target) {
                // main returns to us.
                thread.translation.running = false;
                return;
            }
            let indirect = mode == thread.mode();
            if let Some(code) = engine::code_for(thread, target, indirect) {
                regs.rip = code;
                verify::resume(thread, regs, ptr::null_mut());
            }
        }
        Exit::Own => {
            regs.rip = live.target();
            if entry_calls::call(thread, regs, regs.rip) {
                context::leave_gate(thread, regs);
            }
        }
        Exit::Check(_) | Exit::Checked(..) => {}
    }
}

/// An instruction is about to access a marked line: goes on where it stands, or where hits go.
fn check(thread: &mut TracedThread, gregs: &mut x86::Registers, checked: &Checked) {
    thread.watch.stepped.clear();
    for access in checked.accesses() {
        thread.watch.stepped.note(access.addr.0, access.len_bytes, access.kind, true);
    }
    if thread.watch.stepped.is_empty() {
        gregs.rip = checked.resume;
    } else {
        thread.watch.before = x86::Registers { rip: checked.addr, ..*gregs };
        gregs.rip = checked.hit;
    }
}

/// A fault in a function of ours that runs in the place of the program's call: the real function runs instead, and has its
/// own. `false`: no such fault.
pub(crate) fn leave_own_call(thread: &mut TracedThread, context: &mut UContext) -> bool {
    let (Some(call), Some(live)) = (thread.translation.own_call.take(), thread.translation.live()) else {
        return false;
    };
    context.gregs = call.gregs;
    (thread.calls.silent, thread.calls.allocating, thread.busy) = (call.silent, call.allocating, 0);
    live.leave_gate();
    context::leave(thread, context);
    true
}

/// Called by the gate.
///
/// # Safety
/// The gate's own registers, of a thread that runs in the cache.
#[unsafe(no_mangle)]
unsafe extern "C" fn memtap_on_exit(gregs: &mut x86::Registers, reason: u32) {
    let raised = busy::as_thread(|thread| {
        let Some(live) = thread.translation.live() else { return Handler::None };
        if reason == SYSTEM_CALL {
            let handler = match direct::make(thread, live, gregs) {
                Made::Here => Handler::None,
                Made::ByHandler(after) if is_undisturbed(thread, gregs) => {
                    gregs.rip = after;
                    Handler::SystemCall
                }
                Made::ByHandler(_) => Handler::None,
            };
            keep_stepping(thread, gregs);
            return handler;
        }
        if reason == SPECIAL_INSTRUCTION {
            let trap = live.target();
            let is_raised = is_undisturbed(thread, gregs);
            gregs.rip = if is_raised { trap + TRAP_BYTES } else { trap };
            keep_stepping(thread, gregs);
            return if is_raised { Handler::Trap } else { Handler::None };
        }
        if let Some(exit) = Exit::of_reason(reason) {
            on_exit(thread, gregs, exit);
            keep_stepping(thread, gregs);
            return Handler::None;
        }
        let engine = ENGINE.lock();
        match engine.exit(reason) {
            Some(Exit::Check(number)) => {
                let regs = &*gregs;
                let backwards = gregs.rflags & DIRECTION_FLAG != 0;
                let checked =
                    engine.checked(number, |number| regs.get(number), live.spill(FS_SPILL), backwards);
                drop(engine);
                if let Some(checked) = checked {
                    check(thread, gregs, &checked);
                }
            }
            Some(Exit::Checked(addr, after)) => {
                drop(engine);
                gregs.rip = after;
                let (before, mut touched) = (thread.watch.before, thread.watch.stepped.take());
                touched.tell(thread, addr, &Origin::Instruction(&before));
            }
            Some(exit) => {
                drop(engine);
                on_exit(thread, gregs, exit);
            }
            None => {}
        }
        keep_stepping(thread, gregs);
        Handler::None
    });
    let (signal, code) = match raised {
        None | Some(Handler::None) => return,
        Some(Handler::SystemCall) => (libc::SIGSYS, sys::SYS_USER_DISPATCH),
        Some(Handler::Trap) => (libc::SIGTRAP, libc::SI_KERNEL),
    };
    // SAFETY: the gate's registers of this thread, which is traced and not stepped.
    unsafe { raised::enter_handler(TracedThread::current(), gregs, signal, code) }
}

/// The handler that is entered for what the cache was left for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// It is done.
    None,
    SystemCall,
    Trap,
}

/// Bytes of a trap instruction.
const TRAP_BYTES: u64 = 1;

/// Whether a handler can be entered without a signal: nobody steps through what the thread does.
fn is_undisturbed(thread: &TracedThread, gregs: &x86::Registers) -> bool {
    let is_stepped = thread.translation.is_stepping() || thread.window.is_due();
    !is_stepped && gregs.rflags & TRAP_FLAG == 0 && raised::is_possible()
}

/// The gate loads the flags: whoever made it step meanwhile wants to see it go on stepping.
fn keep_stepping(thread: &TracedThread, gregs: &mut x86::Registers) {
    let stepping = thread.translation.stepping || thread.window.is_stepping();
    gregs.rflags = gregs.rflags & !TRAP_FLAG | if stepping { TRAP_FLAG } else { 0 };
}

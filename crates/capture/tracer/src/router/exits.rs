//! Handles exits of code from the cache by a branch; the gate calls this.

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

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use buffers::flow::{IN_GATE_AT, TARGET_AT};
    use tracee::frame::FrameState;
    use tracee::tls;

    use super::*;
    use crate::state::thread_translation::OwnCall;
    use crate::testing;

    #[test]
    fn who_steps_goes_on_stepping_behind_the_gate() {
        let thread = testing::thread();
        for (stepping, window, expect) in
            [(false, false, 0), (true, false, TRAP_FLAG), (false, true, TRAP_FLAG), (true, true, TRAP_FLAG)]
        {
            (thread.translation.stepping, thread.window.is_stepping) = (stepping, window);
            for flags in [0x246, 0x246 | TRAP_FLAG] {
                let mut regs = x86::Registers { rflags: flags, ..x86::Registers::default() };
                keep_stepping(thread, &mut regs);
                assert_eq!(regs.rflags, 0x246 | expect);
            }
        }
    }

    #[test]
    fn a_handler_is_entered_without_a_signal_where_nobody_steps() {
        if !testing::is_alone(a_handler_is_entered_without_a_signal_where_nobody_steps) {
            return;
        }
        let thread = testing::thread();
        let plain = x86::Registers::default();
        // Nobody knows what a frame is like.
        assert!(!is_undisturbed(thread, &plain));
        let mut state = [0u64; 128];
        let mut context = testing::context();
        context.fpstate = state.as_mut_ptr() as u64;
        // SAFETY: the words as bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(state.as_mut_ptr().cast::<u8>(), size_of_val(&state)) };
        FrameState { parts: 7, bytes: 832 }.write(bytes);
        raised::learn(&context);
        assert!(is_undisturbed(thread, &plain));
        assert!(!is_undisturbed(thread, &x86::Registers { rflags: TRAP_FLAG, ..plain }));
        thread.translation.stepping = true;
        assert!(!is_undisturbed(thread, &plain));
        (thread.translation.stepping, thread.window.left) = (false, 1);
        assert!(!is_undisturbed(thread, &plain));
        thread.window.left = 0;
        assert!(is_undisturbed(thread, &plain));
    }

    #[test]
    fn after_a_fault_in_a_function_of_ours_the_real_one_runs() {
        let thread = testing::thread();
        let live = testing::live();
        thread.translation.live = live;
        let mut context = testing::context();
        context.gregs.rip = 7;
        assert!(!leave_own_call(thread, &mut context));
        assert_eq!(context.gregs.rip, 7);
        let gregs = x86::Registers { rip: 0x1000, rdi: 3, rsp: 0x2000, ..x86::Registers::default() };
        thread.translation.own_call = Some(OwnCall { gregs, silent: 2, allocating: 1 });
        (thread.calls.silent, thread.calls.allocating, thread.busy) = (4, 5, 1);
        testing::set_word(live, IN_GATE_AT, 1);
        assert!(leave_own_call(thread, &mut context));
        assert_eq!(context.gregs, gregs);
        assert_eq!((thread.calls.silent, thread.calls.allocating, thread.busy), (2, 1, 0));
        assert!(!live.is_in_gate());
        // That is once for each call.
        assert!(!leave_own_call(thread, &mut context));
    }

    #[test]
    fn where_the_cache_is_left_the_program_goes_on_in_code_of_the_present_kind() {
        if !testing::is_alone(where_the_cache_is_left_the_program_goes_on_in_code_of_the_present_kind) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        let live = thread.translation.live().expect("it is translated");
        thread.translation.running = true;
        tls::set(&raw mut *thread);
        PROCESS.ready.store(true, Ordering::Relaxed);
        // A jump back to a return.
        let target = testing::code(&[0xc3, 0xeb, 0xfd]);
        let jump = engine::code_for(thread, target + 1, false).expect("it is code");
        let len = (jump..).take_while(|&rip| ENGINE.lock().contains(rip)).count();
        // SAFETY: what is in the cache, which nobody writes meanwhile.
        let bytes = || unsafe { core::slice::from_raw_parts(jump as *const u8, len) }.to_vec();
        let given = x86::Registers { rcx: 1, rdx: 2, rsi: 3, ..x86::Registers::default() };
        let leave = |reason| {
            let mut regs = given;
            // SAFETY: registers of the test's own; they are told where to go on, and nobody goes there.
            unsafe { memtap_on_exit(&mut regs, reason) };
            regs
        };
        let known = |mode| ENGINE.lock().known(target, mode).expect("it was made");
        // By the jump's link, which leads there from then on.
        const FIRST_LINK: u32 = 0;
        let unlinked = bytes();
        let recorded = leave(FIRST_LINK);
        assert_eq!(recorded, x86::Registers { rip: known(Mode::Record), ..given });
        let linked = bytes();
        assert_ne!(linked, unlinked);
        // When the thread records no more, it goes elsewhere, and the link stays: it is for those that record again.
        PROCESS.recording.store(false, Ordering::Relaxed);
        let quiet = leave(FIRST_LINK);
        assert_eq!(quiet, x86::Registers { rip: known(Mode::Quiet), ..given });
        assert_ne!(quiet.rip, recorded.rip);
        assert_eq!(bytes(), linked);
        // By an indirect branch, whose look-up has put two registers aside.
        let missed = |mode| 1 << 30 | mode as u32;
        testing::set_word(live, TARGET_AT, target);
        live.set_spill(2, 5);
        live.set_spill(3, 6);
        assert_eq!(leave(missed(Mode::Quiet)), x86::Registers { rip: quiet.rip, rcx: 5, rdx: 6, ..given });
        // From main it returns to us, natively.
        PROCESS.text[0].store(target, Ordering::Relaxed);
        PROCESS.text[1].store(target + 1, Ordering::Relaxed);
        assert_eq!(leave(missed(Mode::Quiet)).rip, target);
        assert!(!thread.translation.running);
        assert_eq!((thread.work.exits.get(), thread.work.lookups.get()), (4, 2));
    }
}

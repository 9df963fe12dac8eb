//! Traps and faults of translated code: from the cache, steps, kicks, and writes to code.

use code_cache::Trap;
use tracee::frame::{SigInfo, UContext};

use crate::memory::{code_views, program_memory};
use crate::registers::{TRAP_FLAG, TRAP_TRACE};
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::stop::kick::KICK;
use crate::translate::context::{self, SwitchResult};
use crate::translate::engine::ENGINE;
use crate::translate::verify::{self, Stepped};
use crate::translate::{code_changes, emulation, gate, stepping, translated_thread};

/// The thread is to go on in code of another kind, or to wait to be left.
fn on_kick(thread: &mut TracedThread, context: &mut UContext) {
    if thread.translation.stepping {
        // At the end of its steps it is where it is to be.
        return;
    }
    if !thread.settled || gate::is_in_handler(thread, context) {
        thread.translation.kicked = true;
    } else if context::enter(thread, context) == SwitchResult::Between {
        stepping::step(thread, context);
    } else {
        context::leave_or_park(thread, context);
    }
}

/// At the end of a handler that returns to the program or the cache: a kick that came while it ran. Steps end by themselves in the
/// same way.
pub(crate) fn end_handler(thread: &mut TracedThread, context: &mut UContext) {
    if thread.translation.kicked && !thread.translation.stepping {
        thread.translation.kicked = false;
        on_kick(thread, context);
    }
}

/// SIGTRAP of a translated program: a trap of the cache, a step, or a kick. `false`: none of them.
pub(crate) fn on_trap(thread: &mut TracedThread, info: &SigInfo, context: &mut UContext) -> bool {
    if thread.translation.live().is_none() {
        return false;
    }
    if take_over(thread, context) {
        return true;
    }
    if info.code == KICK {
        on_kick(thread, context);
        return true;
    }
    if info.code <= 0 {
        // Somebody has sent it.
        return false;
    }
    match verify::on_step(thread, info, context) {
        Stepped::NotAlone => {}
        Stepped::Done => return true,
        Stepped::EndsBlock => {
            context::enter(thread, context);
            context::leave(thread, context);
            return true;
        }
    }
    if thread.translation.stepping && gate::is_in_gate(thread, context.gregs.rip) {
        // The code that was interrupted may hold the lock. The steps go on after it, with the flags that it loads.
        if !gate::is_after_gate(context.gregs.rip) {
            context.gregs.rflags &= !TRAP_FLAG;
        }
        return true;
    }
    // A step that ends right after the trap of another instruction has not executed that.
    let trap = if info.code == TRAP_TRACE { None } else { ENGINE.lock().trap(context.gregs.rip) };
    match trap {
        Some(Trap::Special(addr, native)) => {
            let stepped = core::mem::take(&mut thread.translation.stepping);
            if stepped {
                context.mask = thread.translation.step_mask;
                context.gregs.rflags &= !TRAP_FLAG;
            }
            verify::before_special(thread, context, addr);
            emulation::special(thread, context, addr, native);
            verify::after_special(thread, context);
            if stepped {
                stepping::step(thread, context);
                // Its own copy is executed before signals come, like any other instruction.
                if native != Some(context.gregs.rip) {
                    stepping::end_step(thread, context);
                }
            }
            true
        }
        None if thread.translation.stepping => {
            if !stepping::steps_further(thread, context) {
                stepping::end_step(thread, context);
            }
            true
        }
        None => info.code == TRAP_TRACE && on_own_step(thread, context),
    }
}

/// The program has set the trap flag itself: it goes on natively from its next instruction on. `false`: one was executed since, so the
/// trap is the program's.
fn on_own_step(thread: &mut TracedThread, context: &mut UContext) -> bool {
    const POPF: u8 = 0x9d;
    if !thread.translation.is_running() {
        return false;
    }
    if gate::is_in_gate(thread, context.gregs.rip) {
        // Its flags are kept, and loaded without this one.
        context.gregs.rflags &= !TRAP_FLAG;
        return true;
    }
    if context::enter(thread, context) == SwitchResult::Between {
        // It steps through what is left to do first.
        return true;
    }
    let mut before = [0];
    let is_first = program_memory::read(context.gregs.rip.wrapping_sub(1), &mut before) && before == [POPF];
    translated_thread::lose_thread(thread, b"steps itself by the trap flag");
    is_first
}

/// The program writes where it has code: that code is forgotten, and the write made. `false`: no such fault.
pub(crate) fn on_code_write(thread: &mut TracedThread, info: &SigInfo, context: &mut UContext) -> bool {
    if !PROCESS.settings().translate {
        return false;
    }
    let Some(is_own) = code_changes::open_code(info.addr, 1, context.gregs.rip) else {
        // Another thread that writes there may have been first.
        return code_views::was_opened(info.addr);
    };
    if is_own {
        // The code that writes may be what it changes: this one instruction is executed here, the next one looked at anew.
        context::enter(thread, context);
        let addr = context.gregs.rip;
        emulation::special(thread, context, addr, None);
    }
    true
}

core::arch::global_asm!(
    ".globl memtap_take_over",
    ".hidden memtap_take_over",
    ".globl memtap_take_over_trap",
    ".hidden memtap_take_over_trap",
    // memtap_take_over(argc, argv, envp, main): runs main in the cache.
    "memtap_take_over:",
    "int3",
    "memtap_take_over_trap:",
    "ud2",
);

unsafe extern "C" {
    fn memtap_take_over_trap();
    pub(crate) fn memtap_take_over(
        argc: core::ffi::c_int,
        argv: *mut *mut core::ffi::c_char,
        envp: *mut *mut core::ffi::c_char,
        main: usize,
    ) -> core::ffi::c_int;
}

/// From our own call of main into the cache.
fn take_over(thread: &mut TracedThread, context: &mut UContext) -> bool {
    if context.gregs.rip != memtap_take_over_trap as *const () as u64 {
        return false;
    }
    thread.translation.running = true;
    translated_thread::tell_base(thread);
    context.gregs.rip = context.gregs.rcx;
    if let Some((entry, stack)) = PROCESS.image_entry() {
        context.gregs = x86::Registers { rip: entry, rsp: stack, ..context.gregs };
        (context.gregs.rdx, context.gregs.rbp) = (0, 0);
    }
    context::leave(thread, context);
    true
}

#[cfg(test)]
mod tests {
    use buffers::flow::IN_GATE_AT;

    use super::*;
    use crate::registers::TRAP_BRKPT;
    use crate::testing;
    use crate::translate::engine;

    fn trap(code: i32) -> SigInfo {
        SigInfo::fault(libc::SIGTRAP, code, 0)
    }

    #[test]
    fn a_trap_that_somebody_has_sent_is_the_programs() {
        let thread = testing::thread();
        let mut context = testing::context();
        for code in [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE, KICK + 1] {
            assert!(!on_trap(thread, &trap(code), &mut context));
        }
        // By page protection nobody is kicked.
        assert!(!on_trap(thread, &trap(KICK), &mut context));
        thread.translation.live = testing::live();
        // Also while the thread steps: it is none of the steps.
        for stepping in [false, true] {
            thread.translation.stepping = stepping;
            for code in [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE, KICK + 1] {
                assert!(!on_trap(thread, &trap(code), &mut context));
            }
        }
        assert!(!thread.translation.kicked && thread.translation.stepping);
    }

    #[test]
    fn a_kick_waits_for_the_end_of_a_handler() {
        let thread = testing::thread();
        thread.translation.live = testing::live();
        let mut context = testing::context();
        // Its first moment is not over.
        assert!(on_trap(thread, &trap(KICK), &mut context) && thread.translation.kicked);
        thread.settled = true;
        end_handler(thread, &mut context);
        assert!(!thread.translation.kicked);
        // It comes on top of a handler.
        context.gregs.rsp = thread.signals.handler_stack.sp + 0x1000;
        assert!(on_trap(thread, &trap(KICK), &mut context) && thread.translation.kicked);
        // Steps end where it is to be, and so does what a kick is for.
        thread.translation.stepping = true;
        end_handler(thread, &mut context);
        assert!(thread.translation.kicked);
        thread.translation.kicked = false;
        assert!(on_trap(thread, &trap(KICK), &mut context) && !thread.translation.kicked);
    }

    #[test]
    fn steps_in_the_gate_wait_for_the_flags_that_it_loads() {
        let gate = gate::memtap_gate as *const () as u64;
        let loaded = (gate..gate + 4096).find(|&rip| gate::is_after_gate(rip)).expect("it loads them");
        let thread = testing::thread();
        thread.translation.live = testing::live();
        thread.translation.stepping = true;
        for (rip, is_stepped) in [(gate, false), (loaded - 1, false), (loaded, true)] {
            let mut context = testing::context();
            (context.gregs.rip, context.gregs.rflags) = (rip, 0x202 | TRAP_FLAG);
            assert!(on_trap(thread, &trap(TRAP_TRACE), &mut context));
            assert_eq!(context.gregs.rflags & TRAP_FLAG != 0, is_stepped);
            assert!(thread.translation.stepping);
        }
    }

    #[test]
    fn a_trap_in_the_cache_is_the_instruction_that_it_stands_for() {
        if !testing::is_alone(a_trap_in_the_cache_is_the_instruction_that_it_stands_for) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        thread.translation.running = true;
        // mov rax, gs:[rdi]; the base of gs is the tracer's, and is zero for the program.
        let addr = testing::code(&[0x65, 0x48, 0x8b, 0x07, 0xc3]);
        let code = engine::code_for(thread, addr, false).expect("it is code");
        let is_after = |&rip: &u64| ENGINE.lock().trap(rip).is_some();
        let after = (code..code + 1024).find(is_after).expect("a trap");
        let memory = 42u64;
        let mut come = |why, stepping| {
            let mut context = testing::context();
            (context.gregs.rip, context.gregs.rdi) = (after, &raw const memory as u64);
            (thread.translation.stepping, thread.translation.step_mask) = (stepping, 5);
            let is_ours = on_trap(thread, &trap(why), &mut context);
            let next = ENGINE.lock().known(addr + 4, thread.mode());
            (is_ours, context.gregs.rax, next == Some(context.gregs.rip), thread.translation.stepping)
        };
        // The kernel says so of a trap instruction.
        assert_eq!(come(libc::SI_KERNEL, false), (true, 42, true, false));
        // Steps to the next instruction end there.
        assert_eq!(come(libc::SI_KERNEL, true), (true, 42, true, false));
        assert_eq!(come(TRAP_BRKPT, false), (true, 42, true, false));
        // A step that ends right after the trap has not executed that.
        let (is_ours, loaded, ..) = come(TRAP_TRACE, true);
        assert_eq!((is_ours, loaded), (true, 0));
        // Nor is it one while the thread is in the gate, where the lock may be held.
        let live = thread.translation.live().expect("it is translated");
        testing::set_word(live, IN_GATE_AT, 1);
        let mut context = testing::context();
        (context.gregs.rip, thread.translation.stepping) = (after, true);
        assert!(on_trap(thread, &trap(TRAP_TRACE), &mut context));
        assert_eq!((context.gregs.rip, thread.translation.stepping), (after, true));
    }
}

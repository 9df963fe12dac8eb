//! Single-stepping: a thread with pending signals runs to the next instruction of the program under the trap flag.

use core::ffi::c_long;

use tracee::frame::{SigInfo, UContext};

use crate::registers::TRAP_FLAG;
use crate::signal::mask::{FAULTS, OURS};
use crate::signal::{delivery, waiting};
use crate::state::thread::TracedThread;
use crate::state::thread_translation::SignalRun;
use crate::translate::context::{self, SwitchResult};
use crate::translate::engine::ENGINE;
use crate::translate::gate;

/// Instructions that a thread executes in any case between two signals: more each time, as long as they come so fast.
const PROGRESS: u32 = 32;
const MAX_DOUBLINGS: u32 = 6;

/// Lets the thread run to the next instruction of the program, with all signals waiting.
pub(crate) fn step(thread: &mut TracedThread, context: &mut UContext) {
    if !thread.translation.stepping {
        thread.translation.stepping = true;
        // At the end of a call in the gate signals that came meanwhile still have all others blocked: from here on that is the steps'
        // doing, and their end's to undo.
        thread.translation.step_mask = thread.signals.held_mask.take().unwrap_or(context.mask);
        context.mask = !OURS;
        let rip = context.gregs.rip;
        if gate::is_in_gate(thread, rip) && !gate::is_after_gate(rip) {
            // The gate keeps the program's flags in the last word of its stack, and loads them at its end: the steps begin
            // there. Before it has kept them it will find that the thread steps.
            // SAFETY: a word of this thread's signal stack.
            unsafe { *((gate::gate_stack(thread) - 8) as *mut u64) |= TRAP_FLAG };
        } else {
            context.gregs.rflags |= TRAP_FLAG;
        }
    }
}

/// A signal has come. Where signals come as fast as their handlers return, the program would never get anywhere: then it
/// executes a few instructions first, as between two signals natively.
pub(crate) fn holds_signals(
    thread: &mut TracedThread,
    signal: i32,
    info: &SigInfo,
    context: &mut UContext,
) -> bool {
    let rip = context.gregs.rip;
    let flow = &mut thread.translation;
    if !flow.running || flow.stepping {
        return false;
    }
    if core::mem::take(&mut flow.resumed) != rip {
        flow.run = SignalRun::NONE;
        flow.doublings = 0;
        return false;
    }
    if !flow.run.is_endless(signal, info) || !ENGINE.lock().contains(rip) {
        return false;
    }
    thread.translation.run = SignalRun::NONE;
    thread.translation.progress = PROGRESS << thread.translation.doublings;
    thread.translation.doublings = (thread.translation.doublings + 1).min(MAX_DOUBLINGS);
    thread.translation.stores_flags = stores_flags(rip);
    step(thread, context);
    // Faults of these instructions are the program's.
    context.mask = !FAULTS;
    true
}

/// The program makes a system call: outside of its handlers, it has got somewhere. And a handler that sends signals itself gets as many
/// as it sends.
pub(crate) fn note_progress(thread: &mut TracedThread, number: c_long) {
    let sends = matches!(
        number,
        libc::SYS_kill
            | libc::SYS_tkill
            | libc::SYS_tgkill
            | libc::SYS_rt_sigqueueinfo
            | libc::SYS_rt_tgsigqueueinfo
    );
    if sends || thread.signals.set_aside.iter().all(|suspended| suspended.frame == 0) {
        thread.translation.run = SignalRun::NONE;
    }
}

/// Whether the thread is to execute more before its signals come.
pub(crate) fn steps_further(thread: &mut TracedThread, context: &mut UContext) -> bool {
    if core::mem::take(&mut thread.translation.stores_flags) {
        // SAFETY: the second byte of the flags that the program has just pushed, and is not to see the trap flag in.
        unsafe { *((context.gregs.rsp + 1) as *mut u8) &= !((TRAP_FLAG >> 8) as u8) };
    }
    let rip = context.gregs.rip;
    let (front, inside) = {
        let engine = ENGINE.lock();
        (engine.front(rip), engine.contains(rip))
    };
    if thread.translation.progress == 0 || !inside {
        thread.translation.progress = 0;
        return false;
    }
    // A popf has taken it away.
    context.gregs.rflags |= TRAP_FLAG;
    if front.is_some_and(|front| front.is_instruction) {
        thread.translation.progress -= 1;
        thread.translation.stores_flags = thread.translation.progress > 0 && stores_flags(rip);
        return thread.translation.progress > 0;
    }
    true
}

/// Whether a pushf stands at an address of the cache.
fn stores_flags(rip: u64) -> bool {
    /// The prefix of the extended registers, which changes nothing here.
    const REX: core::ops::RangeInclusive<u8> = 0x40..=0x4f;
    // SAFETY: three bytes of the cache: behind each instruction of the program there is at least a jump.
    match unsafe { (rip as *const [u8; 3]).read() } {
        [0x9c, ..] | [0x66, 0x9c, _] => true,
        [0x66, rex, 0x9c] | [rex, 0x9c, _] => REX.contains(&rex),
        _ => false,
    }
}

/// Ends the steps before something that the tracer does for the program: signals that wait come after it.
pub(crate) fn stop_steps(thread: &mut TracedThread, context: &mut UContext) {
    // A signal that the program sends to itself comes before the call returns.
    thread.translation.resumed = 0;
    if !thread.translation.stepping {
        return;
    }
    (thread.translation.stepping, thread.translation.stores_flags) = (false, false);
    thread.translation.starved = core::mem::take(&mut thread.translation.progress) > 0;
    context.mask = thread.translation.step_mask;
    if !thread.window.is_stepping() {
        context.gregs.rflags &= !TRAP_FLAG;
    }
    waiting::send_pending_again(thread);
}

/// Ends the steps where the program's own state can be found, and delivers what waited.
pub(crate) fn end_step(thread: &mut TracedThread, context: &mut UContext) {
    if context::enter(thread, context) == SwitchResult::Between {
        return;
    }
    thread.translation.stepping = false;
    context.mask = thread.translation.step_mask;
    context.gregs.rflags &= !TRAP_FLAG;
    // SAFETY: the context that we return to.
    unsafe { delivery::deliver_pending(thread, context) };
    context::leave_or_park(thread, context);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::thread_signals::SetAside;
    use crate::testing;
    use crate::translate::engine;

    #[test]
    fn steps_begin_once_and_give_back_what_they_changed() {
        let thread = testing::thread();
        let mut context = testing::context();
        (context.mask, context.gregs.rflags) = (5, 0x202);
        step(thread, &mut context);
        assert_eq!((context.mask, context.gregs.rflags), (!OURS, 0x202 | TRAP_FLAG));
        // They have begun: what is blocked now is not the program's.
        step(thread, &mut context);
        thread.translation.resumed = 7;
        stop_steps(thread, &mut context);
        assert_eq!((context.mask, context.gregs.rflags), (5, 0x202));
        assert!(!thread.translation.stepping && !thread.translation.starved);
        assert_eq!(thread.translation.resumed, 0);
        // Where there are none, nothing is changed.
        (context.mask, context.gregs.rflags) = (3, 0x202 | TRAP_FLAG);
        stop_steps(thread, &mut context);
        assert_eq!((context.mask, context.gregs.rflags), (3, 0x202 | TRAP_FLAG));
        // The mask of a thread that is busy is that of before. A window goes on stepping.
        thread.signals.held_mask = Some(9);
        step(thread, &mut context);
        (thread.window.is_stepping, thread.translation.progress) = (true, 1);
        stop_steps(thread, &mut context);
        assert_eq!((context.mask, context.gregs.rflags), (9, 0x202 | TRAP_FLAG));
        assert_eq!(thread.signals.held_mask, None);
        // It had not executed all that it was to execute first.
        assert!(thread.translation.starved);
    }

    #[test]
    fn in_the_gate_steps_begin_with_the_flags_that_it_loads() {
        let gate = gate::memtap_gate as *const () as u64;
        let loaded = (gate..gate + 4096).find(|&rip| gate::is_after_gate(rip)).expect("it loads them");
        for (rip, at_end) in [(gate, true), (loaded - 1, true), (loaded, false)] {
            let thread = testing::thread();
            let kept = (gate::gate_stack(thread) - 8) as *mut u64;
            let mut context = testing::context();
            (context.gregs.rip, context.gregs.rflags) = (rip, 0x202);
            // SAFETY: the last word of the thread's signal stack, which nobody else uses.
            let kept = unsafe {
                kept.write(0x203);
                step(thread, &mut context);
                kept.read()
            };
            let expect = if at_end { (0x203 | TRAP_FLAG, 0x202) } else { (0x203, 0x202 | TRAP_FLAG) };
            assert_eq!((kept, context.gregs.rflags), expect);
        }
    }

    #[test]
    fn a_call_ends_a_run_of_signals_outside_of_handlers_or_where_it_sends() {
        let thread = testing::thread();
        let mut ends = |number, frame| {
            thread.signals.set_aside[1] = SetAside { frame, ..SetAside::NONE };
            thread.translation.run = SignalRun { count: 2, ..SignalRun::NONE };
            note_progress(thread, number);
            thread.translation.run.count == 0
        };
        assert!(ends(libc::SYS_write, 0));
        assert!(!ends(libc::SYS_write, 0x1000));
        let sending = [
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_tgkill,
            libc::SYS_rt_sigqueueinfo,
            libc::SYS_rt_tgsigqueueinfo,
        ];
        assert!(sending.iter().all(|&number| ends(number, 0x1000)));
    }

    #[test]
    fn the_program_does_not_see_the_trap_flag_that_it_stores() {
        let is_one = |bytes: [u8; 3]| stores_flags(bytes.as_ptr() as u64);
        // pushf of 64 and 16 bits, and with a prefix that changes nothing.
        for bytes in [[0x9c, 0x90, 0x90], [0x66, 0x9c, 0x90], [0x48, 0x9c, 0x90], [0x66, 0x4f, 0x9c]] {
            assert!(is_one(bytes), "{bytes:x?}");
        }
        // popf; pushf after another instruction.
        for bytes in [
            [0x9d, 0x9c, 0x90],
            [0x66, 0x9d, 0x9c],
            [0x48, 0x9d, 0x9c],
            [0x90, 0x9c, 0x90],
            [0x50, 0x9c, 0x90],
        ] {
            assert!(!is_one(bytes), "{bytes:x?}");
        }
        let thread = testing::thread();
        let mut pushed = 0x246 | TRAP_FLAG;
        let mut context = testing::context();
        context.gregs.rsp = &raw mut pushed as u64;
        (thread.translation.stores_flags, thread.translation.progress) = (true, 5);
        // It is not in the cache any more.
        assert!(!steps_further(thread, &mut context));
        // SAFETY: the local, which was written by its address.
        assert_eq!(unsafe { (&raw const pushed).read_volatile() }, 0x246);
        assert!(!thread.translation.stores_flags && thread.translation.progress == 0);
    }

    #[test]
    fn a_program_gets_on_where_signals_come_as_fast_as_its_handlers_return() {
        if !testing::is_alone(a_program_gets_on_where_signals_come_as_fast_as_its_handlers_return) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        // mov rax, [rdi]; add rax, rbx; pushf; ret
        let addr = testing::code(&[0x48, 0x8b, 0x07, 0x48, 0x01, 0xd8, 0x9c, 0xc3]);
        let code = engine::code_for(thread, addr, false).expect("it is code");
        let fronts: Vec<u64> = (code..code + 1024)
            .filter(|&rip| ENGINE.lock().front(rip).is_some_and(|front| front.is_instruction))
            .collect();
        assert_eq!(fronts.len(), 4);
        let mut context = testing::context();
        context.gregs.rip = fronts[0];
        thread.translation.running = true;
        let info = SigInfo::fault(libc::SIGUSR1, 0, 0);
        // Signals come until they are held; how many, and for how many instructions.
        let come = |thread: &mut TracedThread, context: &mut UContext| {
            let count = (1..100).find(|_| {
                thread.translation.note_return(context.gregs.rip);
                holds_signals(thread, libc::SIGUSR1, &info, context)
            });
            assert_eq!((context.mask, context.gregs.rflags & TRAP_FLAG), (!FAULTS, TRAP_FLAG));
            (count, thread.translation.progress)
        };
        // Each time they go on like this the program gets further.
        for further in [32, 64, 128, 256, 512, 1024, 2048, 2048] {
            assert_eq!(come(thread, &mut context), (Some(4), further));
            stop_steps(thread, &mut context);
        }
        // One that comes elsewhere shows that it is slow enough.
        thread.translation.resumed = 0;
        assert!(!holds_signals(thread, libc::SIGUSR1, &info, &mut context));
        assert_eq!(come(thread, &mut context), (Some(4), 32));
        // Instructions are counted at their fronts, and not between them.
        thread.translation.progress = 3;
        context.gregs.rip = fronts[1] - 1;
        assert!(ENGINE.lock().front(fronts[1] - 1).is_none() && steps_further(thread, &mut context));
        context.gregs.rip = fronts[1];
        assert!(steps_further(thread, &mut context));
        context.gregs.rip = fronts[2];
        assert!(!thread.translation.stores_flags && steps_further(thread, &mut context));
        // The next one stores the flags. It stands on a stack.
        assert!(thread.translation.stores_flags && thread.translation.progress == 1);
        let mut pushed = 0x246 | TRAP_FLAG;
        (context.gregs.rsp, context.gregs.rip) = (&raw mut pushed as u64, fronts[3]);
        assert!(!steps_further(thread, &mut context));
        // SAFETY: the local, which was written by its address.
        assert_eq!(unsafe { (&raw const pushed).read_volatile() }, 0x246);
        // Out of the cache they end.
        thread.translation.progress = 3;
        context.gregs.rip = addr;
        assert!(!steps_further(thread, &mut context) && thread.translation.progress == 0);
    }
}

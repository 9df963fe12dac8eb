//! Steps: a thread runs to the next instruction of the program under the trap flag, with signals waiting.

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
    // SAFETY: two bytes of the cache: no block ends with an instruction of the program.
    matches!(unsafe { (rip as *const [u8; 2]).read() }, [0x9c, _] | [0x66, 0x9c])
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

//! The oracle: windows in which a thread's translated code is single-stepped.
//!
//! A program can't be executed twice, so both answers come from one execution. The thread runs in the cache, under
//! the trap flag. Before each of the program's instructions, the handler asks the oracle of `x86` what that
//! instruction accesses, given the current registers, masks and vectors of the processor. The answers are set aside,
//! and written after what the block's own recording code wrote for the same stretch. The recorder expands the latter
//! as always and compares the two: instruction, address, size, kind, order, and the number of instructions before it.
//!
//! Where bytes are recorded they are compared, too. Those of a load are read before the instruction, which may overwrite
//! them; those of a store or modify after it. The recording code reads them a few steps earlier or later, so they are
//! left out where memory may change between the two: where the process has, or had, other threads, and in shared memory.
//!
//! A stretch begins at the start of a block and ends wherever the cache is left: at its gate, in a system call, for a
//! signal, at a fault ([`closed`]). A window is as many stretches as its instructions need. Windows begin with a thread, and
//! then with some of its buffers: those whose numbers are powers of two, so that short runs have several, and every 512th.
//!
//! The program does not see the trap flag. `pushf` stores it, and it is removed from the program's memory before the
//! next instruction; system calls and signals get contexts without it. A program that steps itself is left alone.

use buffers::Record;
use buffers::flow::Live;
use code_cache::{Place, SPECIAL_INSTRUCTION};
use memref::VirtAddr;
use tracee::frame::{SigInfo, UContext};
use tracee::tls;
use x86::{Oracle, StepKind, StepOutcome};

use crate::registers::{DIRECTION_FLAG, TRAP_FLAG, TRAP_TRACE};
use crate::signal::delivery;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::verify_window::{self, AwaitedStep, Expected, KEPT_BYTES, VerifyWindow};
use crate::translate::engine::ENGINE;
use crate::translate::gate;

/// From that buffer on, a window begins with each that its number divides.
const EVERY_BUFFERS: u32 = 512;

/// A thread of a translated program begins: its first window.
pub(crate) fn arm(thread: &mut TracedThread) {
    let settings = PROCESS.settings();
    let instructions = settings.verify;
    let (mut list, mut bytes) = (thread.window.list, thread.window.bytes);
    if instructions > 0 && list.is_null() {
        list = verify_window::room();
    }
    if instructions > 0 && settings.data && bytes.is_null() {
        bytes = verify_window::room();
    }
    thread.window = VerifyWindow { list, bytes, ..VerifyWindow::NONE };
    if !list.is_null() && instructions > 0 {
        thread.window.oracle = Some(Oracle::new());
        (thread.window.left, thread.window.is_new) = (instructions, true);
    }
}

/// The thread fills another buffer, in the middle of a block: where a window is due, it begins with the next block.
pub(crate) fn on_buffer(thread: &mut TracedThread, context: &mut UContext) {
    let is_free = !thread.translation.is_stepping() && context.gregs.rflags & TRAP_FLAG == 0;
    let window = &mut thread.window;
    if window.oracle.is_none() {
        return;
    }
    window.buffers += 1;
    let buffers = window.buffers;
    let is_due =
        buffers.is_multiple_of(EVERY_BUFFERS) || buffers < EVERY_BUFFERS && buffers.is_power_of_two();
    if is_due && is_free && window.left == 0 {
        (window.left, window.is_new) = (PROCESS.settings().verify, true);
        window.is_stepping = true;
        context.gregs.rflags |= TRAP_FLAG;
    }
}

/// The thread is about to go on in the cache, at a block's start. The registers are the program's but for the address; `vectors`: the
/// state of the others as the kernel saved it, or null.
pub(crate) fn resume(thread: &mut TracedThread, regs: &mut x86::Registers, vectors: *mut u8) {
    if thread.window.left == 0 && !thread.window.is_open {
        return;
    }
    let front = ENGINE.lock().front(regs.rip).filter(|front| front.is_start);
    if regs.rflags & TRAP_FLAG != 0 && !thread.translation.is_stepping() {
        // The program steps itself.
        thread.window.oracle = None;
        thread.window.left = 0;
    }
    let recorded = PROCESS.is_recording() && thread.calls.silent == 0 && !PROCESS.is_vfork_child();
    let Some(front) = front.filter(|_| recorded && thread.window.left > 0) else {
        finish(thread);
        return;
    };
    if thread.window.is_full() {
        finish(thread);
    }
    begin(thread);
    // The gate's own last instruction is stepped, so that the trap comes before the block's first one. The return from
    // a handler is not.
    if thread.busy == 0 && front.is_instruction && !front.is_trap {
        let step = observe(thread, *regs, vectors, None);
        if must_stop(step, regs) {
            thread.window.left = 0;
            finish(thread);
            return;
        }
    }
    thread.window.is_stepping = true;
    regs.rflags |= TRAP_FLAG;
}

/// What a trap by the trap flag was to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// Not ours, or not ours alone: others look at it, too.
    NotAlone,
    /// Ours alone: nothing more is to be done.
    Done,
    /// Ours alone, and in the middle of a block, or of a repeated instruction, that is to be ended as for a signal.
    EndsBlock,
}

/// A trap by the trap flag.
pub(crate) fn on_step(thread: &mut TracedThread, info: &SigInfo, context: &mut UContext) -> Stepped {
    let is_done = |alone: bool| if alone { Stepped::Done } else { Stepped::NotAlone };
    if !thread.window.is_stepping || info.code != TRAP_TRACE {
        return Stepped::NotAlone;
    }
    let rip = context.gregs.rip;
    hide_flag(thread, context);
    if gate::is_gate(rip) && context.gregs.rax == u64::from(SPECIAL_INSTRUCTION) {
        // It is looked at like the others, at the trap that stands for it.
        if let Some(live) = thread.translation.live() {
            (context.gregs.rip, context.gregs.rax) = (live.target(), live.spill(1));
        }
        context.gregs.rflags |= TRAP_FLAG;
        return is_done(!thread.translation.is_stepping());
    }
    if gate::is_gate(rip) {
        thread.window.commit(false);
        finish(thread);
        thread.window.is_stepping = false;
        context.gregs.rflags &= !TRAP_FLAG;
        return Stepped::Done;
    }
    // A popf has taken it away.
    context.gregs.rflags |= TRAP_FLAG;
    let alone = !thread.translation.is_stepping();
    if gate::is_in_gate(thread, rip) {
        return is_done(alone);
    }
    let (front, inside) = {
        let engine = ENGINE.lock();
        (engine.front(rip), engine.contains(rip))
    };
    let Some(front) = front else {
        if !inside {
            // Out of the cache, by a way that is not known here.
            thread.window.is_known = false;
            stop(thread, context);
        }
        return is_done(alone && inside);
    };
    let repeats =
        thread.window.pending.is_some_and(|pending| pending.step == StepKind::Repeated && pending.rip == rip);
    thread.window.commit(repeats);
    if front.is_start && (thread.window.left == 0 || thread.window.is_full()) {
        finish(thread);
    }
    if !thread.window.is_open {
        if thread.window.left == 0 {
            thread.window.is_stepping = false;
            if alone {
                context.gregs.rflags &= !TRAP_FLAG;
            }
            return is_done(alone);
        }
        if !front.is_start {
            return is_done(alone);
        }
        begin(thread);
    }
    if front.is_instruction && !front.is_trap {
        let mut regs = context.gregs;
        if let (Some(register), Some(live)) = (front.borrowed, thread.translation.live()) {
            regs.set_number(register, live.spill(0));
        }
        let step = observe(thread, regs, delivery::vector_state(context), None);
        let ends = must_stop(step, &regs);
        let is_long =
            step == Some(StepKind::Repeated) && (thread.window.left == 0 || thread.window.is_full());
        if ends {
            thread.window.left = 0;
        }
        if alone && (ends || is_long) {
            return Stepped::EndsBlock;
        }
    }
    is_done(alone)
}

/// Whether the thread can't be stepped over that instruction.
fn must_stop(step: Option<StepKind>, regs: &x86::Registers) -> bool {
    match step {
        Some(StepKind::Hidden) => true,
        // SAFETY: the word that the program is about to load from its stack.
        Some(StepKind::LoadsFlags) => unsafe {
            (regs.rsp as *const u16).read_unaligned() & TRAP_FLAG as u16 != 0
        },
        _ => false,
    }
}

/// What was stored of the flags by the instruction that was just stepped shows the trap flag: the program's word does not.
fn hide_flag(thread: &mut TracedThread, context: &UContext) {
    if let Some(pending) = &mut thread.window.pending
        && pending.step == StepKind::StoresFlags
        && pending.rip != context.gregs.rip
    {
        pending.step = StepKind::Plain;
        // SAFETY: the second byte of the flags that the program has just pushed.
        unsafe { *((context.gregs.rsp + 1) as *mut u8) &= !((TRAP_FLAG >> 8) as u8) };
    }
}

/// Keeps aside what the instruction that the thread is about to execute will access. `addr`: where it is in the program,
/// if the registers do not stand at its copy.
fn observe(
    thread: &mut TracedThread,
    mut regs: x86::Registers,
    vectors: *mut u8,
    addr: Option<u64>,
) -> Option<StepKind> {
    let rip = regs.rip;
    let ip = addr.or_else(|| program_address(rip))?;
    regs.rip = ip;
    let (oracle, executed) = (thread.window.oracle?, thread.window.executed);
    let looks = !thread.window.bytes.is_null() && thread.translation.live().is_some_and(Live::is_alone);
    let base = thread.window.count;
    let mut accesses = 0;
    let window = &mut thread.window;
    // SAFETY: the cache has read the instruction from there; the state is that of the signal frame, or null.
    let step = unsafe {
        oracle.observe(&regs, vectors, tls::fs_base(), |operand| {
            let (addr, kind) = (operand.addr, operand.kind);
            let size = operand.len.min(u16::MAX.into()) as u16;
            window.put(base + accesses, Expected { ip, addr, executed, size, kind, known: 0 });
            accesses += 1;
        })
    };
    window.is_known &= step.is_some();
    let step_of = step.unwrap_or(StepKind::Plain);
    if looks {
        window.look_at(base, accesses, false);
    }
    window.pending = Some(AwaitedStep { rip, step: step_of, accesses, looks, regs });
    step
}

fn program_address(rip: u64) -> Option<u64> {
    match ENGINE.lock().place(rip) {
        Place::At { addr, .. } => Some(addr),
        _ => None,
    }
}

fn begin(thread: &mut TracedThread) {
    if !thread.window.is_open {
        thread.window.is_open = true;
        let first = core::mem::take(&mut thread.window.is_new);
        thread.emit(&Record::StepBegin { first });
    }
}

/// Tells what was seen of a stretch. What is recorded of it is written.
fn finish(thread: &mut TracedThread) {
    let window = &mut thread.window;
    if !window.is_open {
        return;
    }
    window.is_open = false;
    window.pending = None;
    let count = core::mem::take(&mut window.count);
    let executed = core::mem::take(&mut window.executed);
    let executed = core::mem::replace(&mut window.is_known, true).then_some(executed);
    for index in 0..count {
        let Some(&Expected { ip, addr, executed, size, kind, known }) = thread.window.list().get(index)
        else {
            break;
        };
        let kept = thread.window.room(index).map_or([0; KEPT_BYTES], |room| *room);
        let bytes = kept.get(..known.into()).unwrap_or(&[]);
        let (ip, addr) = (VirtAddr(ip), VirtAddr(addr));
        thread.emit(&Record::Expected { ip, addr, kind, size, executed, bytes });
    }
    thread.emit(&Record::StepEnd { executed });
}

fn stop(thread: &mut TracedThread, context: &mut UContext) {
    finish(thread);
    if core::mem::take(&mut thread.window.is_stepping) {
        context.gregs.rflags &= !TRAP_FLAG;
    }
}

/// The context of the cache at `rip` has become the program's own, whose next instruction is at `addr`, and all that is
/// executed is written.
pub(crate) fn closed(thread: &mut TracedThread, context: &mut UContext, rip: u64, addr: u64) {
    if !thread.window.is_open && !thread.window.is_stepping {
        return;
    }
    if let Some(pending) = thread.window.pending {
        // Before its instruction, or where the last one of a block is made of several.
        let waits = pending.rip == rip || ENGINE.lock().front(rip).is_none() && pending.regs.rip == addr;
        if waits {
            thread.window.pending = None;
        } else {
            thread.window.commit(false);
        }
    }
    stop(thread, context);
}

/// The tracer is about to execute the instruction at `addr`, whose trap the context has just come from.
pub(crate) fn before_special(thread: &mut TracedThread, context: &mut UContext, addr: u64) {
    if core::mem::take(&mut thread.window.is_stepping) {
        context.gregs.rflags &= !TRAP_FLAG;
    }
    if thread.window.is_open {
        observe(thread, context.gregs, delivery::vector_state(context), Some(addr));
    }
}

/// It has executed it, of a repeated one perhaps a part; or the instruction itself is about to run.
pub(crate) fn executed(thread: &mut TracedThread, context: &mut UContext, outcome: StepOutcome) {
    let window = &mut thread.window;
    if let Some(pending) = &mut window.pending {
        pending.looks &= matches!(outcome, StepOutcome::Executed | StepOutcome::Again);
    }
    let Some(pending) = window.pending.filter(|pending| pending.step == StepKind::Repeated) else {
        window.commit(false);
        return;
    };
    window.pending = None;
    let elements = pending.regs.rcx.wrapping_sub(context.gregs.rcx);
    let base = window.count;
    for element in 0..elements {
        for access in 0..pending.accesses {
            let Some(&first) = window.list().get(base + access) else { break };
            let distance = element.wrapping_mul(first.size.into());
            let backwards = pending.regs.rflags & DIRECTION_FLAG != 0;
            let addr = first.addr.wrapping_add(if backwards { distance.wrapping_neg() } else { distance });
            window.put(base + element as usize * pending.accesses + access, Expected { addr, ..first });
        }
        if !window.is_known {
            break;
        }
        if pending.looks {
            window.look_at_earlier(window.count, pending.accesses);
        }
        window.count += pending.accesses;
    }
    window.left = window.left.saturating_sub(elements.min(u32::MAX.into()) as u32);
    window.executed += u64::from(outcome != StepOutcome::Again);
}

/// It faulted, or recording has ended before it.
pub(crate) fn not_recorded(thread: &mut TracedThread) {
    thread.window.pending = None;
}

/// The tracer is done with the instruction: where that itself runs now, in the cache, it is stepped.
pub(crate) fn after_special(thread: &mut TracedThread, context: &mut UContext) {
    if !thread.window.is_open || thread.window.is_stepping {
        return;
    }
    if ENGINE.lock().contains(context.gregs.rip) {
        thread.window.is_stepping = true;
        context.gregs.rflags |= TRAP_FLAG;
    } else {
        finish(thread);
    }
}

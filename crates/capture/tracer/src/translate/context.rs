//! The context switch between the code cache and the program's own state.
//!
//! Every handler does the same: it finds the program's own state ([`enter`]), does what has to be done, and goes back to the
//! cache at the address that has become the next one ([`leave`]).

use core::sync::atomic::Ordering;

use buffers::flow::Live;
use code_cache::Place;
use tracee::frame::UContext;

use crate::signal::delivery;
use crate::state::process::PROCESS;
use crate::state::thread::{NATIVE_CALL, TracedThread};
use crate::stop::park;
use crate::translate::engine::{self, ENGINE};
use crate::translate::{gate, verify};

/// Whether the program's own state could be found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SwitchResult {
    /// It is there now: the context is the program's.
    Native,
    /// There is more to do first.
    Between,
}

/// Whether a block's code is about to read what it stored.
fn is_unread(place: Place) -> bool {
    matches!(place, Place::At { record: code_cache::Record::Unread(..), .. })
}

/// Makes a context of the cache the program's own.
pub(crate) fn enter(thread: &mut TracedThread, context: &mut UContext) -> SwitchResult {
    enter_as(thread, context, false)
}

/// As [`enter`], where the code faulted and can't go on.
pub(crate) fn enter_at_fault(thread: &mut TracedThread, context: &mut UContext) -> SwitchResult {
    enter_as(thread, context, true)
}

fn enter_as(thread: &mut TracedThread, context: &mut UContext, is_fault: bool) -> SwitchResult {
    let (Some(live), Some(pool)) = (thread.translation.live(), PROCESS.pool()) else {
        return SwitchResult::Native;
    };
    if gate::is_in_gate(thread, context.gregs.rip) {
        return SwitchResult::Between;
    }
    let rip = context.gregs.rip;
    let place = ENGINE.lock().place(rip);
    let (addr, executed, instructions, borrowed, aside, record, repeated) = match place {
        Place::Outside => {
            verify::closed(thread, context, rip, rip);
            thread.translation.call = 0;
            if thread.system_call.calling.load(Ordering::Relaxed) == NATIVE_CALL {
                thread.system_call.calling.swap(core::ptr::null_mut(), Ordering::SeqCst);
            }
            return SwitchResult::Native;
        }
        Place::Between => return SwitchResult::Between,
        // The bytes that are not in the buffer yet would be lost.
        _ if is_unread(place) && !is_fault => return SwitchResult::Between,
        Place::At { addr, executed, instructions, borrowed, aside, record, repeated } => {
            (addr, executed, instructions, borrowed, aside, record, repeated)
        }
    };
    thread.translation.call = context.gregs.rip;
    let regs = &mut context.gregs;
    if let Some(register) = borrowed {
        regs.set_number(register, live.spill(0));
    }
    for (index, register) in [0u8, 1, 2].into_iter().enumerate() {
        if aside & 1 << index != 0 {
            regs.set_number(register, live.spill(index + 1));
        }
    }
    match record {
        code_cache::Record::Done if executed < instructions => {
            // The buffer keeps room for this.
            let _ = live.cut(&pool, executed.into(), false);
        }
        code_cache::Record::Open(id, values) | code_cache::Record::Unread(id, values) => {
            let mut moved = false;
            if let Some(before) = repeated {
                let now = [regs.rsi, regs.rdi, regs.rcx];
                moved = live.open_value(&pool, before - 1) != regs.rcx;
                for (index, value) in now.into_iter().enumerate() {
                    live.set_open_value(&pool, before + index as u8, value);
                }
            }
            if executed > 0 || moved {
                live.close_block(&pool, id, values);
                let _ = live.cut(&pool, executed.into(), moved);
            }
        }
        code_cache::Record::Counted(counted) => {
            live.add_instructions(&pool, i64::from(executed) - i64::from(counted));
        }
        code_cache::Record::Quiet(counted) => {
            live.uncount_quiet(u64::from(counted).wrapping_sub(executed.into()));
        }
        code_cache::Record::Done | code_cache::Record::Uncounted | code_cache::Record::Trap => {}
    }
    context.gregs.rip = addr;
    verify::closed(thread, context, rip, addr);
    SwitchResult::Native
}

/// Lets a context go on in the cache.
pub(crate) fn leave(thread: &mut TracedThread, context: &mut UContext) {
    let vectors = delivery::vector_state(context);
    go_on(thread, &mut context.gregs, vectors);
}

/// Lets a thread go on in the cache that has left it by the gate.
pub(crate) fn leave_gate(thread: &mut TracedThread, regs: &mut x86::Registers) {
    go_on(thread, regs, core::ptr::null_mut());
}

fn go_on(thread: &mut TracedThread, regs: &mut x86::Registers, vectors: *mut u8) {
    if !thread.translation.running || thread.translation.own_call.is_some() || PROCESS.owns_code(regs.rip) {
        return;
    }
    if let Some(code) = engine::code_for(thread, regs.rip, false) {
        regs.rip = code;
        verify::resume(thread, regs, vectors);
    }
}

/// As [`leave`], from where a thread can be left.
pub(crate) fn leave_or_park(thread: &mut TracedThread, context: &mut UContext) {
    park::park(thread, context);
    leave(thread, context);
}

/// The address in the cache to which a system call returns, where the program's own will not do.
pub(crate) fn return_address(thread: &mut TracedThread, context: &UContext) -> u64 {
    match thread.translation.call {
        // Made natively: by a thread that waited in it when the process was attached to.
        0 => resume_address(thread, context.gregs.rip),
        call if thread.translation.running => call,
        _ => context.gregs.rip,
    }
}

/// The address in the cache at which a program's context that the kernel restores goes on.
pub(crate) fn resume_address(thread: &mut TracedThread, addr: u64) -> u64 {
    if !thread.translation.running || PROCESS.owns_code(addr) {
        return addr;
    }
    let code = engine::code_for(thread, addr, false).unwrap_or(addr);
    thread.translation.note_return(code);
    code
}

/// Whether a stopped thread's own state can be found at an address outside of the tracer.
pub(crate) fn has_state_at(thread: &TracedThread, rip: u64) -> bool {
    let Some(engine) = ENGINE.try_lock() else { return false };
    let place = engine.place(rip);
    !thread.translation.live().is_some_and(Live::is_in_gate) && place != Place::Between && !is_unread(place)
}

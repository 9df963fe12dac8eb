//! The context switch between the code cache and the program's own state.
//!
//! Every handler follows the same pattern: it restores the program's own state ([`enter`]), does
//! its work, and returns to the cache at the address where the program now continues ([`leave`]).

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use buffers::Pool;
    use buffers::flow::{Entries, Entry, IN_GATE_AT, QUIET_AT};
    use code_cache::Record;

    use super::*;
    use crate::state::thread::GATE_CALL;
    use crate::testing;

    /// More than the code of a small block has.
    const BLOCK_BYTES: u64 = 1024;

    /// Instructions that were executed, by what a thread has written. All blocks have so many values and instructions.
    fn told(thread: &TracedThread, pool: &Pool, values: u8, instructions: u16) -> u64 {
        let words = testing::written(thread, pool);
        let mut entries = Entries::new(&words);
        let mut told = 0;
        while let Some(entry) = entries.next_entry() {
            match entry {
                Entry::Block(header) => {
                    assert!(entries.values(values).is_some());
                    told += u64::from(instructions) + header.after;
                }
                // Of the block before.
                Entry::Cut(executed, _) => told = told + executed - u64::from(instructions),
                Entry::Instructions(count) => told += count,
                Entry::Record(_) => {}
            }
        }
        assert!(!entries.are_broken());
        told
    }

    /// Leaves a block of these instructions at each place where the program's own state can be found.
    fn check(thread: &mut TracedThread, pool: &Pool, instructions: &[&[u8]]) {
        let live = thread.translation.live().expect("it is translated");
        let addr = testing::code(&instructions.concat());
        let begin = |count: usize| addr + instructions[..count].concat().len() as u64;
        let code = engine::code_for(thread, addr, false).expect("it is code");
        let (id, values) = match ENGINE.lock().place(code) {
            Place::At { record: Record::Open(id, values), .. } => (id, values),
            _ => (0, 0),
        };
        // All that it writes is of this block.
        thread.submit();
        assert!(thread.refill_flow(live, pool));
        let mut left_at = BTreeSet::new();
        for rip in code..code + BLOCK_BYTES {
            let mut context = testing::context();
            (0..16).for_each(|number| context.gregs.set_number(number, 0x100 + u64::from(number)));
            (0..4).for_each(|spill| live.set_spill(spill, 0x200 + spill as u64));
            context.gregs.rip = rip;
            let mut expected = context.gregs;
            let place = ENGINE.lock().place(rip);
            if place == Place::Outside {
                // No block follows.
                break;
            }
            let Place::At { executed, instructions: all, borrowed, aside, record, .. } = place else {
                assert!(enter(thread, &mut context) == SwitchResult::Between);
                assert_eq!(context.gregs, expected);
                continue;
            };
            // What the block's code has done before it comes there.
            let before = told(thread, pool, values, all);
            match record {
                Record::Done => live.close_block(pool, id, values),
                Record::Counted(count) => assert!(live.add_instructions(pool, count.into())),
                Record::Quiet(count) => testing::set_word(live, QUIET_AT, count.into()),
                _ => {}
            }
            assert!(enter(thread, &mut context) == SwitchResult::Native);
            let now = told(thread, pool, values, all) + live.take_quiet();
            assert_eq!(now - before, u64::from(executed), "{place:?}");
            expected.rip = begin(executed.into());
            if let Some(register) = borrowed {
                expected.set_number(register, 0x200);
            }
            for number in (0..3).filter(|number| aside & 1 << number != 0) {
                expected.set_number(number, 0x201 + u64::from(number));
            }
            assert_eq!(context.gregs, expected, "{place:?}");
            left_at.insert(context.gregs.rip);
        }
        let all: BTreeSet<u64> = (0..instructions.len()).map(begin).collect();
        assert_eq!(left_at, all);
    }

    #[test]
    fn where_a_block_is_left_it_is_told_what_was_executed() {
        if !testing::is_alone(where_a_block_is_left_it_is_told_what_was_executed) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        // mov rax, [rdi]; add rsi, 8; mov [rsi], rax; ret
        let accesses: [&[u8]; 4] =
            [&[0x48, 0x8b, 0x07], &[0x48, 0x83, 0xc6, 8], &[0x48, 0x89, 0x06], &[0xc3]];
        check(thread, &pool, &accesses);
        // add rax, rbx; sub rcx, rdx; jmp rax
        check(thread, &pool, &[&[0x48, 0x01, 0xd8], &[0x48, 0x29, 0xd1], &[0xff, 0xe0]]);
        // In a function that is one event.
        thread.calls.silent = 1;
        check(thread, &pool, &accesses);
    }

    #[test]
    fn a_repeated_instruction_that_is_half_done_tells_how_far_it_is() {
        if !testing::is_alone(a_repeated_instruction_that_is_half_done_tells_how_far_it_is) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        let live = thread.translation.live().expect("it is translated");
        // rep movsb
        let addr = testing::code(&[0xf3, 0xa4]);
        let code = engine::code_for(thread, addr, false).expect("it is code");
        assert!(thread.refill_flow(live, &pool));
        let is_half_done =
            |&rip: &u64| matches!(ENGINE.lock().place(rip), Place::At { repeated: Some(3), .. });
        let rip = (code..code + BLOCK_BYTES).find(is_half_done).expect("its copy");
        for (index, value) in (0..).zip([0x1000, 0x2000, 10]) {
            live.set_open_value(&pool, index, value);
        }
        let mut leave_at = |rsi, rdi, rcx| {
            let mut context = testing::context();
            context.gregs = x86::Registers { rsi, rdi, rcx, rip, ..x86::Registers::default() };
            assert!(enter(thread, &mut context) == SwitchResult::Native);
            assert_eq!(context.gregs.rip, addr);
            testing::written(thread, &pool)
        };
        // Nothing is moved yet.
        let words = leave_at(0x1000, 0x2000, 10);
        assert_eq!(Entries::new(&words).next_entry(), Some(Entry::Instructions(0)));
        assert_eq!(words.len(), 1);
        let words = leave_at(0x1004, 0x2004, 6);
        let mut entries = Entries::new(&words[1..]);
        assert!(matches!(entries.next_entry(), Some(Entry::Block(_))));
        let values = entries.values(6).expect("three before and three after");
        let values: Vec<u64> = values.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(values, [0x1000, 0x2000, 10, 0x1004, 0x2004, 6]);
        // The instruction is not executed, and its accesses count.
        assert_eq!(entries.next_entry(), Some(Entry::Cut(0, true)));
    }

    #[test]
    fn what_is_not_in_the_cache_is_the_programs_and_goes_on_there() {
        if !testing::is_alone(what_is_not_in_the_cache_is_the_programs_and_goes_on_there) {
            return;
        }
        let (thread, _) = testing::recorded(testing::TRANSLATED);
        let live = thread.translation.live().expect("it is translated");
        let addr = testing::code(&[0xc3]);
        let mut context = testing::context();
        context.gregs.rip = addr;
        // A call that it made natively is over; one in the gate is not.
        for (calling, after) in [(NATIVE_CALL, core::ptr::null_mut()), (GATE_CALL, GATE_CALL)] {
            thread.translation.call = 7;
            thread.system_call.calling.store(calling, Ordering::Relaxed);
            assert!(enter(thread, &mut context) == SwitchResult::Native);
            assert_eq!((context.gregs.rip, thread.translation.call), (addr, 0));
            assert_eq!(thread.system_call.calling.load(Ordering::Relaxed), after);
        }
        testing::set_word(live, IN_GATE_AT, 1);
        assert!(enter(thread, &mut context) == SwitchResult::Between && !has_state_at(thread, addr));
        live.leave_gate();
        assert!(has_state_at(thread, addr));
        // One that runs natively stays where it is.
        leave(thread, &mut context);
        assert_eq!((context.gregs.rip, resume_address(thread, addr)), (addr, addr));
        thread.translation.running = true;
        leave(thread, &mut context);
        let code = ENGINE.lock().known(addr, thread.mode()).expect("it was made");
        assert_eq!((context.gregs.rip, resume_address(thread, addr)), (code, code));
        // Where signals come from now on one after the other, they come there.
        assert_eq!((thread.translation.resumed, thread.translation.run.at), (code, code));
        // The call was made natively, or in the cache.
        context.gregs.rip = addr;
        assert_eq!(return_address(thread, &context), code);
        thread.translation.call = code + 1;
        assert_eq!(return_address(thread, &context), code + 1);
        // What is ours is not translated.
        PROCESS.text[0].store(addr, Ordering::Relaxed);
        PROCESS.text[1].store(addr + 1, Ordering::Relaxed);
        leave(thread, &mut context);
        assert_eq!((context.gregs.rip, resume_address(thread, addr)), (addr, addr));
    }
}

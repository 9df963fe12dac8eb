//! Faults of closed pages. They are handled by a burst (see `burst`), or, for what the engine can't execute, as in the paper
//! (MadT, section III-D): the memory is opened, the instruction runs under the trap flag, and the trap closes the memory again.

use core::sync::atomic::Ordering;

use buffers::Record;
use memref::{AccessKind, GapReason, VirtAddr};
use tracee::frame::{SigInfo, UContext};
use tracee::{sys, tls};
use x86::Operand;

use crate::memory::pages::{self, PAGE_TRACED};
use crate::memory::ranges::RANGES;
use crate::protect::burst::{self, Burst, HELD};
use crate::registers::{FAULT_OF_FETCH, FAULT_OF_WRITE, SEGV_ACCERR, TRAP_FLAG};
use crate::signal::delivery;
use crate::signal::mask::OURS;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::touched::Touched;
use crate::watch::hits::Origin;

/// A fault of a page with two views. `false`: the program would have it natively, too, because it jumps to data.
pub(crate) fn on_closed_page(thread: &mut TracedThread, info: &SigInfo, context: &mut UContext) -> bool {
    if context.error & FAULT_OF_FETCH != 0 || info.addr == context.gregs.rip {
        if thread.protection.step.active {
            end_step(thread, context);
        }
        // Another thread may have made it code since: then it is executed now.
        return RANGES.lock().find(info.addr).is_some_and(|range| range.prot & sys::PROT_EXEC != 0);
    }
    if thread.protection.step.active || PROCESS.settings().two_signals {
        // The instruction that runs under the trap flag needs one more place, or everything goes the paper's way.
        open_for_step(thread, context, info.addr);
        return true;
    }
    thread.nested = None;
    match burst::burst(thread, context) {
        Burst::Progress => {}
        Burst::NotEmulated => open_for_step(thread, context, info.addr),
        Burst::Faulted(refused) => {
            // The program's own fault: no right, or no such memory, or a division by zero with its operand in memory. It need not be at
            // the place of ours: an instruction may have two.
            let no_right = || refused.map(|addr| SigInfo::fault(libc::SIGSEGV, SEGV_ACCERR, addr));
            let mut own = thread.nested.take().or_else(no_right).unwrap_or(*info);
            if matches!(own.signo, libc::SIGFPE | libc::SIGILL) {
                own.addr = context.gregs.rip;
            } else {
                own.addr = pages::program_address(own.addr);
                context.cr2 = own.addr;
            }
            // SAFETY: the context that we return to.
            unsafe { delivery::deliver(thread, own.signo, &own, context) };
        }
    }
    true
}

/// The paper's way, first half: opens what the instruction at rip touches and lets it run under the trap flag.
fn open_for_step(thread: &mut TracedThread, context: &mut UContext, addr: u64) {
    let first = !thread.protection.step.active;
    let ip = context.gregs.rip;
    if first {
        thread.protection.step.active = true;
        thread.protection.step.mask = context.mask;
        thread.protection.step.program_traps = context.gregs.rflags & TRAP_FLAG != 0;
        thread.protection.step.opened = [0; 4];
        thread.watch.stepped.clear();
        thread.watch.before = context.gregs;
        context.mask = !OURS;
        context.gregs.rflags |= TRAP_FLAG;
        if PROCESS.is_recording() && thread.calls.silent == 0 {
            record_operands(thread, context, ip);
        }
    }
    let ranges = RANGES.lock();
    let Some(range) = ranges.find(addr) else { return };
    // Bit 1 of the error code: it was a write. Another thread's step may have closed the range again meanwhile: then it is
    // opened once more.
    let needed =
        if context.error & FAULT_OF_WRITE != 0 { sys::PROT_WRITE } else { sys::PROT_READ | sys::PROT_WRITE };
    if range.prot & needed == 0 {
        // The program has no right to it.
        drop(ranges);
        end_step(thread, context);
        let info = SigInfo::fault(libc::SIGSEGV, SEGV_ACCERR, addr);
        // SAFETY: the context that we return to.
        unsafe { delivery::deliver(thread, libc::SIGSEGV, &info, context) };
        return;
    }
    if !thread.protection.step.opened.contains(&range.start)
        && let Some(place) = thread.protection.step.opened.iter_mut().find(|start| **start == 0)
    {
        *place = range.start;
    }
    // SAFETY: gives the program the rights that it thinks it has.
    unsafe { sys::mprotect(range.start, range.end - range.start, range.prot) };
    drop(ranges);
    if first && PROCESS.is_threaded() {
        thread.emit_gap(GapReason::OpenForInstruction, 1, ip, b"");
    }
}

/// Records what an instruction is about to access, and that it took the slow path.
fn record_operands(thread: &mut TracedThread, context: &mut UContext, ip: u64) {
    let pool = PROCESS.pool();
    let regs = context.gregs;
    let mut name = tracee::text::Text::<32>::new();
    let mut held = [Operand { addr: 0, len: 0, kind: AccessKind::Load }; HELD];
    let mut count = 0;
    // SAFETY: the processor has just executed from there.
    unsafe {
        x86::accesses(&regs, tls::fs_base(), 0, |operand: Operand| {
            if pages::page(operand.addr) & PAGE_TRACED != 0
                && let Some(place) = held.get_mut(count)
            {
                *place = operand;
                count += 1;
            }
        });
        x86::mnemonic(ip, &mut name);
    }
    if let Some(pool) = pool {
        for &Operand { addr, len, kind } in held.iter().take(count) {
            if PROCESS.is_watched() {
                // It is about to be executed: told when it was.
                thread.watch.stepped.note(addr, len.into(), kind, true);
                continue;
            }
            thread.emit_access(&pool, ip, addr, len, kind);
        }
    }
    if !PROCESS.settings().two_signals {
        thread.emit(&Record::Counter { ip: VirtAddr(ip), count: 1, name: name.as_bytes() });
    }
}

/// The paper's way, second half: the instruction is done, or can't be.
pub(crate) fn end_step(thread: &mut TracedThread, context: &mut UContext) {
    let opened = core::mem::take(&mut thread.protection.step.opened);
    if PROCESS.recording.load(Ordering::Acquire) {
        let ranges = RANGES.lock();
        for start in opened {
            if let Some(range) = ranges.find(start).filter(|range| range.traced && start != 0) {
                // SAFETY: closes what `open_for_step` opened.
                unsafe { sys::mprotect(range.start, range.end - range.start, sys::PROT_NONE) };
            }
        }
    }
    let mut stepped = core::mem::replace(&mut thread.watch.stepped, Touched::new());
    let before = thread.watch.before;
    if context.gregs.rip != before.rip {
        stepped.tell(thread, before.rip, &Origin::Instruction(&before));
    }
    context.mask = thread.protection.step.mask;
    if !thread.protection.step.program_traps {
        context.gregs.rflags &= !TRAP_FLAG;
    }
    thread.protection.step.active = false;
}

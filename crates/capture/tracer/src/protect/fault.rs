//! The fast path: one signal an access.
//!
//! A program's instruction touches a closed page. The handler executes that instruction itself - the engine of `x86` runs
//! it with its address replaced by the open view - records what it accessed, and goes on executing as long as memory
//! instructions come densely (a *burst*). Then it returns behind the last one. No page is ever opened, so no other thread
//! slips through. What the engine can't execute takes the paper's way (MadT, section III-D): the memory is opened, the
//! instruction runs under the trap flag, and the trap closes the memory again.

use core::sync::atomic::Ordering;

use buffers::{Pool, Record};
use memref::{AccessKind, GapReason, VirtAddr};
use tracee::frame::{SigInfo, UContext};
use tracee::{sys, tls};
use x86::{Environment, Operand, Outcome, Refused};

use crate::control::registers;
use crate::memory::{PAGE_READ, PAGE_TRACED, PAGE_VIEWED, PAGE_WRITE, page, view};
use crate::sharing::{self, Sharing};
use crate::state::{PROCESS, Thread};
use crate::translate::SEGV_ACCERR;
use crate::watchpoints::{self, Origin, Touched};
use crate::{breakpoint, dispatch, process, signals, translate};

/// A burst ends behind that many instructions without an access to closed memory. A new fault costs about as much as
/// executing this many instructions does: whichever comes, at most twice the best possible time is lost.
const QUIET_STEPS: u32 = 24;
/// Where the last bursts found one access each, most of the next ones end right behind it, and only each so-many-th looks
/// further: lone accesses between long computations shall not pay for what never comes.
const LONE_BURSTS: u32 = 4;
const LOOK_AGAIN: u32 = 16;
/// A burst ends in any case behind that many instructions, so that the program's signals get through.
const MAX_STEPS: u32 = 50_000;
const TRAP_FLAG: u64 = 1 << 8;
/// si_code of a system call that dispatch sent to us.
const SYS_USER_DISPATCH: i32 = 2;
/// Accesses of one instruction that can be held back until it is executed: a masked move of bytes makes 64.
const HELD: usize = 64;

/// How the engine sees memory.
struct Memory<'a> {
    thread: &'a mut Thread,
    pool: Option<Pool>,
    ip: u64,
    recorded: bool,
    /// Accesses of the instruction that is being executed: they count when it is done.
    held: [(u64, u32, AccessKind); HELD],
    count: usize,
    /// What of them is watched, and the registers before the instruction.
    watched: Touched,
    before_it: x86::Registers,
    /// Whether the instruction touched closed memory.
    touched: bool,
    /// Where other threads may see what this one does.
    sharing: Option<Sharing>,
    /// Whether the instruction is performed under the lock of ordered accesses.
    locked: bool,
    /// The order that held before the instruction wrote; zero: it did not.
    before: u64,
}

impl Memory<'_> {
    /// Records what was performed.
    fn commit(&mut self) {
        let held = self.held;
        if watchpoints::is_active() {
            let origin = Origin::Instruction(&self.before_it);
            self.watched.tell(self.thread, self.ip, &origin);
            return;
        }
        let Some(pool) = self.pool else { return };
        let accesses = held.iter().take(self.count);
        if self.sharing.is_none() {
            for &(addr, len, kind) in accesses {
                self.thread.emit_access(&pool, self.ip, addr, len, kind);
            }
        } else if self.count > 0 {
            let order = if self.locked {
                let order = pool.control().next_own_order();
                self.end();
                order
            } else if self.before != 0 {
                self.before
            } else {
                sharing::settle();
                pool.control().current_order()
            };
            for &(addr, len, kind) in accesses {
                self.thread.emit_access_at(&pool, order, (self.ip, addr, len, kind));
            }
        }
        self.count = 0;
    }

    /// The instruction is over, performed or not.
    fn end(&mut self) {
        if self.locked {
            self.locked = false;
            sharing::unlock();
        }
    }

    /// Brings an access that is about to be performed into an order with other threads' (see `sharing`).
    fn order(&mut self, sharing: Sharing, operand: Operand) {
        if operand.kind == AccessKind::Prefetch {
            return;
        }
        let thread = self.thread.number;
        if sharing.is_news(thread, operand.addr, operand.len, operand.kind) {
            if !self.locked {
                sharing::lock();
                self.locked = true;
            }
            sharing.note(thread, operand.addr, operand.len, operand.kind);
        } else if operand.kind.writes()
            && self.before == 0
            && let Some(pool) = self.pool
        {
            self.before = pool.control().current_order();
        }
    }
}

impl Environment for Memory<'_> {
    #[inline]
    fn access(&mut self, operand: Operand) -> Result<u64, Refused> {
        let first = page(operand.addr);
        let last = operand.addr.wrapping_add(u64::from(operand.len.max(1)) - 1);
        if (operand.addr ^ last) >> 12 != 0 {
            return self.access_across(operand, last);
        }
        if first & PAGE_VIEWED == 0 {
            return Ok(operand.addr);
        }
        let needed = if operand.kind.writes() { PAGE_WRITE } else { PAGE_READ };
        if first & needed == 0 && operand.kind != AccessKind::Prefetch {
            return Err(Refused);
        }
        self.hold(operand, first);
        Ok(view(operand.addr))
    }

    fn fs_base(&self) -> u64 {
        tls::fs_base()
    }

    fn gs_base(&self) -> u64 {
        const ARCH_GET_GS: usize = 0x1004;
        let mut base = 0u64;
        // SAFETY: the kernel writes the word.
        unsafe {
            let args = [ARCH_GET_GS, &raw mut base as usize, 0, 0, 0, 0];
            sys::syscall(libc::SYS_arch_prctl as usize, args);
        }
        base
    }
}

impl Memory<'_> {
    #[inline]
    fn hold(&mut self, operand: Operand, flags: u8) {
        if flags & PAGE_TRACED == 0 {
            return;
        }
        self.touched = true;
        if self.recorded && watchpoints::is_active() {
            if self.watched.is_full() {
                // As below.
                self.commit();
            }
            self.watched.note(operand.addr, operand.len.into(), operand.kind, true);
        } else if self.recorded {
            if let Some(sharing) = self.sharing {
                self.order(sharing, operand);
            }
            if self.count == HELD {
                // A repeated string instruction: those before this one are done.
                self.commit();
            }
            if let Some(place) = self.held.get_mut(self.count) {
                *place = (operand.addr, operand.len, operand.kind);
                self.count += 1;
            }
        }
    }

    /// An access that crosses pages: all viewed, or none.
    fn access_across(&mut self, operand: Operand, last: u64) -> Result<u64, Refused> {
        let (first, end) = (page(operand.addr), page(last));
        if (first | end) & PAGE_VIEWED == 0 {
            return Ok(operand.addr);
        }
        let needed = PAGE_VIEWED | if operand.kind.writes() { PAGE_WRITE } else { PAGE_READ };
        if first & end & needed != needed {
            return Err(Refused);
        }
        self.hold(operand, first | end);
        Ok(view(operand.addr))
    }
}

/// SIGSEGV, SIGTRAP, SIGSYS, and the other faults where the program handles them.
///
/// # Safety
/// Called by the kernel as a handler.
pub(crate) unsafe extern "C" fn on_fault(signal: i32, info: &mut SigInfo, context: &mut UContext) {
    let is_access = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && info.code > 0;
    if is_access && watchpoints::on_fault(&mut context.gregs.rip) {
        return;
    }
    let current = Thread::current();
    if signal == libc::SIGTRAP && signals::is_birth(context.gregs.rip) {
        process::be_born(context);
        return;
    }
    if current.is_null() {
        // A thread that nobody announced: its faults are its own.
        signals::give_back();
        return;
    }
    // A fault inside one of our stubs: the step that runs it ends with `Outcome::Fault`.
    // SAFETY: this thread's engine; `recover` only reads it.
    if info.code > 0 && unsafe { (*(*current).engine).recover(registers(context)) } {
        // SAFETY: this thread's own state; the step that we interrupted reads it after us.
        unsafe { (*current).nested = Some(*info) };
        return;
    }
    // SAFETY: this thread's state; the code that we interrupted is the program's, or ours outside of handlers, which
    // does not fault while it uses the state.
    let thread = unsafe { &mut *current };
    let is_nested = signals::is_in_handler(thread, context);
    handle(thread, signal, info, context);
    if !is_nested {
        signals::settle(thread, context);
        translate::end_handler(thread, context);
    }
}

fn handle(thread: &mut Thread, signal: i32, info: &SigInfo, context: &mut UContext) {
    match signal {
        // SAFETY: the kernel's context of a dispatched system call.
        libc::SIGSYS if info.code == SYS_USER_DISPATCH => {
            translate::stop_steps(thread, context);
            translate::enter(thread, context);
            // SAFETY: as above.
            unsafe { dispatch::on_system_call(thread, context) };
            translate::leave_or_park(thread, context);
        }
        libc::SIGSEGV if info.code > 0 && translate::on_buffer_end(thread, info, context) => {}
        libc::SIGSEGV if info.code == SEGV_ACCERR && translate::on_code_write(thread, info, context) => {}
        libc::SIGSEGV | libc::SIGBUS if info.code > 0 && translate::leave_own_call(thread, context) => {}
        libc::SIGTRAP if translate::on_trap(thread, info, context) => {}
        libc::SIGSEGV if info.code > 0 && page(info.addr) & PAGE_VIEWED != 0 => {
            on_closed_page(thread, info, context)
        }
        libc::SIGTRAP if thread.step.active && info.code > 0 => end_step(thread, context),
        libc::SIGTRAP if info.code > 0 && breakpoint::on_trap(thread, context) => {}
        _ if info.code <= 0 => signals::on_sent(thread, signal, info, context),
        _ => {
            translate::stop_steps(thread, context);
            signals::leave_redirect(thread, context);
            let fault_at = context.gregs.rip;
            translate::enter_at_fault(thread, context);
            let mut own = *info;
            if own.addr == fault_at {
                own.addr = context.gregs.rip;
            }
            // SAFETY: the context that we return to.
            unsafe { signals::deliver(thread, signal, &own, context) };
            translate::leave(thread, context);
        }
    }
}

fn on_closed_page(thread: &mut Thread, info: &SigInfo, context: &mut UContext) {
    if thread.step.active || PROCESS.settings().two_signals {
        // The instruction that runs under the trap flag needs one more place, or everything goes the paper's way.
        open_for_step(thread, context, info.addr);
        return;
    }
    thread.nested = None;
    match burst(thread, context) {
        Burst::Progress => {}
        Burst::NotEmulated => open_for_step(thread, context, info.addr),
        Burst::Faulted => {
            // The program's own fault: no right, or no such memory, or a division by zero with its operand in memory.
            let mut own = thread.nested.take().unwrap_or(*info);
            if matches!(own.signo, libc::SIGFPE | libc::SIGILL) {
                own.addr = context.gregs.rip;
            } else if own.addr != 0 {
                own.addr = info.addr;
            }
            // SAFETY: the context that we return to.
            unsafe { signals::deliver(thread, own.signo, &own, context) };
        }
    }
}

enum Burst {
    /// At least one instruction was executed.
    Progress,
    /// The first instruction is none of the engine's.
    NotEmulated,
    /// The first instruction faults by itself.
    Faulted,
}

/// Executes the instruction at rip and those behind it.
fn burst(thread: &mut Thread, context: &mut UContext) -> Burst {
    let state = signals::vector_state(context);
    let regs = registers(context);
    let engine = thread.engine;
    let recorded = PROCESS.is_recording() && thread.silent == 0;
    let limit = if PROCESS.settings().bursts { MAX_STEPS } else { 1 };
    let pool = PROCESS.pool();
    let mut memory = Memory {
        thread,
        pool,
        ip: 0,
        recorded,
        held: [(0, 0, AccessKind::Load); HELD],
        count: 0,
        watched: Touched::new(),
        before_it: x86::Registers::default(),
        touched: false,
        sharing: sharing::current().filter(|_| !watchpoints::is_active()),
        locked: false,
        before: 0,
    };
    let mut steps = 0;
    let mut quiet = 0;
    let mut touching = 0;
    let lone = memory.thread.lone_bursts;
    let quiet_steps = if lone >= LONE_BURSTS && !lone.is_multiple_of(LOOK_AGAIN) { 1 } else { QUIET_STEPS };
    while steps < limit {
        if PROCESS.owns_code(regs.rip) {
            break;
        }
        memory.ip = regs.rip;
        memory.touched = false;
        memory.count = 0;
        memory.before = 0;
        if watchpoints::is_active() {
            memory.watched.clear();
            memory.before_it = *regs;
        }
        // SAFETY: this thread's engine, which nobody else uses and `memory` does not reach; the state is that of the
        // signal frame.
        let outcome = unsafe { (*engine).step(regs, state, &mut memory) };
        match outcome {
            Outcome::Executed | Outcome::Again => memory.commit(),
            _ => memory.end(),
        }
        match outcome {
            Outcome::Executed | Outcome::Again => {}
            Outcome::NotEmulated(_) if steps == 0 => return Burst::NotEmulated,
            Outcome::Refused | Outcome::Fault if steps == 0 => return Burst::Faulted,
            // Natively it will fault or trap again, with the context that the program expects.
            Outcome::NotEmulated(_) | Outcome::Refused | Outcome::Fault => break,
        }
        steps += 1;
        quiet = if memory.touched { 0 } else { quiet + 1 };
        touching += u32::from(memory.touched);
        if quiet >= quiet_steps {
            break;
        }
    }
    memory.thread.lone_bursts = if touching > 1 { 0 } else { lone.wrapping_add(1) };
    Burst::Progress
}

/// Executes the one instruction at rip, natively if the engine can't.
pub(crate) fn execute_one(thread: &mut Thread, context: &mut UContext) {
    let state = signals::vector_state(context);
    let regs = registers(context);
    let engine = thread.engine;
    let recorded = PROCESS.is_recording() && thread.silent == 0;
    let pool = PROCESS.pool();
    let ip = regs.rip;
    let mut memory = Memory {
        thread,
        pool,
        ip,
        recorded,
        held: [(0, 0, AccessKind::Load); HELD],
        count: 0,
        watched: Touched::new(),
        before_it: x86::Registers::default(),
        touched: false,
        sharing: sharing::current().filter(|_| !watchpoints::is_active()),
        locked: false,
        before: 0,
    };
    memory.before_it = *regs;
    // SAFETY: as in `burst`.
    if unsafe { (*engine).step(regs, state, &mut memory) } == Outcome::Executed {
        memory.commit();
    }
    memory.end();
}

/// The paper's way, first half: opens what the instruction at rip touches and lets it run under the trap flag.
fn open_for_step(thread: &mut Thread, context: &mut UContext, addr: u64) {
    let first = !thread.step.active;
    let ip = context.gregs.rip;
    if first {
        thread.step.active = true;
        thread.step.mask = context.mask;
        thread.step.program_traps = context.gregs.rflags & TRAP_FLAG != 0;
        thread.step.opened = [0; 4];
        thread.stepped.clear();
        thread.before = *registers(context);
        context.mask = !signals::OURS;
        context.gregs.rflags |= TRAP_FLAG;
        if PROCESS.is_recording() && thread.silent == 0 {
            record_operands(thread, context, ip);
        }
    }
    let ranges = PROCESS.ranges.lock();
    let Some(range) = ranges.find(addr) else { return };
    // Bit 1 of the error code: it was a write. Another thread's step may have closed the range again meanwhile: then it is
    // opened once more.
    let needed = if context.error & 2 != 0 { sys::PROT_WRITE } else { sys::PROT_READ | sys::PROT_WRITE };
    if range.prot & needed == 0 {
        // The program has no right to it.
        drop(ranges);
        end_step(thread, context);
        let info = SigInfo::fault(libc::SIGSEGV, SEGV_ACCERR, addr);
        // SAFETY: the context that we return to.
        unsafe { signals::deliver(thread, libc::SIGSEGV, &info, context) };
        return;
    }
    if !thread.step.opened.contains(&range.start)
        && let Some(place) = thread.step.opened.iter_mut().find(|start| **start == 0)
    {
        *place = range.start;
    }
    // SAFETY: gives the program the rights that it thinks it has.
    unsafe { sys::mprotect(range.start, range.end - range.start, range.prot) };
    drop(ranges);
    if first && signals::is_threaded() {
        thread.emit_gap(GapReason::OpenForInstruction, 1, ip, b"");
    }
}

/// Records what an instruction is about to access, and that it took the slow path.
fn record_operands(thread: &mut Thread, context: &mut UContext, ip: u64) {
    let pool = PROCESS.pool();
    let regs = *registers(context);
    let mut name = tracee::text::Text::<32>::new();
    let mut held = [(0u64, 0u32, AccessKind::Load); HELD];
    let mut count = 0;
    // SAFETY: the processor has just executed from there.
    unsafe {
        x86::accesses(&regs, tls::fs_base(), 0, |operand: Operand| {
            if page(operand.addr) & PAGE_TRACED != 0
                && let Some(place) = held.get_mut(count)
            {
                *place = (operand.addr, operand.len, operand.kind);
                count += 1;
            }
        });
        x86::mnemonic(ip, &mut name);
    }
    if let Some(pool) = pool {
        for &(addr, len, kind) in held.iter().take(count) {
            if watchpoints::is_active() {
                // It is about to be executed: told when it was.
                thread.stepped.note(addr, len.into(), kind, true);
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
fn end_step(thread: &mut Thread, context: &mut UContext) {
    let opened = core::mem::take(&mut thread.step.opened);
    if PROCESS.recording.load(Ordering::Acquire) {
        let ranges = PROCESS.ranges.lock();
        for start in opened {
            if let Some(range) = ranges.find(start).filter(|range| range.traced && start != 0) {
                // SAFETY: closes what `open_for_step` opened.
                unsafe { sys::mprotect(range.start, range.end - range.start, sys::PROT_NONE) };
            }
        }
    }
    let mut stepped = core::mem::replace(&mut thread.stepped, Touched::new());
    let before = thread.before;
    if context.gregs.rip != before.rip {
        stepped.tell(thread, before.rip, &Origin::Instruction(&before));
    }
    context.mask = thread.step.mask;
    if !thread.step.program_traps {
        context.gregs.rflags &= !TRAP_FLAG;
    }
    thread.step.active = false;
}

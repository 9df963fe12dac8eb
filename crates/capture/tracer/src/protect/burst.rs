//! The fast path: one signal per access.
//!
//! An instruction of the program touches a closed page. The handler executes that instruction itself: the engine of `x86` runs it with
//! its address replaced by that of the open view. The handler records the accesses, and keeps executing as long as memory instructions
//! are dense (a *burst*). It returns after the last one. No page is ever opened, so no access of another thread goes unnoticed.

use buffers::Pool;
use memref::AccessKind;
use tracee::frame::UContext;
use tracee::tls;
use x86::{Environment, MAX_INSTRUCTION_BYTES, Operand, Refused, StepOutcome};

use crate::memory::code_ranges::{self, Executable};
use crate::memory::code_views::CodeStretch;
use crate::memory::pages::{self, PAGE_READ, PAGE_TRACED, PAGE_VIEWED, PAGE_WRITE};
use crate::protect::gs_words;
use crate::protect::sharing::{self, Sharing};
use crate::signal::delivery;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;
use crate::state::touched::Touched;
use crate::watch::hits::Origin;

/// A burst ends after that many instructions without an access to closed memory. A new fault costs about as much as
/// executing this many instructions does: whichever comes, at most twice the best possible time is lost.
const QUIET_STEPS: u32 = 24;

/// Where the last bursts found one access each, most of the next ones end right after it, and only each so-many-th looks
/// further: lone accesses between long computations shall not pay for what never comes.
const LONE_BURSTS: u32 = 4;
const LOOK_AGAIN: u32 = 16;

/// A burst ends in any case after that many instructions, so that the program's signals get through.
const MAX_STEPS: u32 = 50_000;

/// Accesses of one instruction that can be held back until it is executed: a masked move of bytes makes 64.
pub(crate) const HELD: usize = 64;

/// How the engine sees memory.
struct OpenMemory<'a> {
    thread: &'a mut TracedThread,
    pool: Option<Pool>,
    ip: u64,
    recorded: bool,
    /// Accesses of the instruction that is being executed: they count when it is done.
    held: [Operand; HELD],
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
    /// Why the program may not make an access.
    refused: Option<RefusedAccess>,
}

/// An access that the program may not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedAccess {
    /// It has no right to this address.
    At(u64),
    /// A part of it is in memory without a second view, or without the right: the processor knows where it faults, if it does.
    Across,
}

impl OpenMemory<'_> {
    /// Records what was performed.
    fn commit(&mut self) {
        let held = self.held;
        if PROCESS.is_watched() {
            let origin = Origin::Instruction(&self.before_it);
            self.watched.tell(self.thread, self.ip, &origin);
            return;
        }
        let Some(pool) = self.pool else { return };
        let accesses = held.iter().take(self.count);
        if self.sharing.is_none() {
            for &Operand { addr, len, kind } in accesses {
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
            for &Operand { addr, len, kind } in accesses {
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

impl OpenMemory<'_> {
    #[inline]
    fn hold(&mut self, operand: Operand, flags: u8) {
        if flags & PAGE_TRACED == 0 {
            return;
        }
        self.touched = true;
        if self.recorded && PROCESS.is_watched() {
            if self.watched.is_full() {
                // A repeated string instruction: those before this one are done.
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
                *place = operand;
                self.count += 1;
            }
        }
    }

    /// An access that crosses pages: all viewed and with the right, or none.
    fn access_across(&mut self, operand: Operand, last: u64) -> Result<u64, Refused> {
        let (first, end) = (pages::page(operand.addr), pages::page(last));
        if (first | end) & PAGE_VIEWED == 0 {
            return Ok(operand.addr);
        }
        let needed = PAGE_VIEWED | if operand.kind.writes() { PAGE_WRITE } else { PAGE_READ };
        if first & end & needed != needed {
            self.refused = Some(RefusedAccess::Across);
            return Err(Refused);
        }
        self.hold(operand, first | end);
        Ok(pages::view(operand.addr))
    }
}

impl Environment for OpenMemory<'_> {
    #[inline]
    fn access(&mut self, operand: Operand) -> Result<u64, Refused> {
        let first = pages::page(operand.addr);
        let last = operand.addr.wrapping_add(u64::from(operand.len.max(1)) - 1);
        if (operand.addr ^ last) >> 12 != 0 {
            return self.access_across(operand, last);
        }
        if first & PAGE_VIEWED == 0 {
            return Ok(operand.addr);
        }
        let needed = if operand.kind.writes() { PAGE_WRITE } else { PAGE_READ };
        if first & needed == 0 && operand.kind != AccessKind::Prefetch {
            self.refused = Some(RefusedAccess::At(operand.addr));
            return Err(Refused);
        }
        self.hold(operand, first);
        Ok(pages::view(operand.addr))
    }

    fn fs_base(&self) -> u64 {
        tls::fs_base()
    }

    fn gs_base(&self) -> u64 {
        // Where it is ours it was zero.
        if tls::by_gs() { 0 } else { gs_words::base() }
    }
}

pub(crate) enum Burst {
    /// At least one instruction was executed.
    Progress,
    /// The first instruction is none of the engine's.
    NotEmulated,
    /// The first instruction faults by itself, at an address that the program has no right to, or as the engine's stub did.
    Faulted(Option<u64>),
}

/// Executes the instruction at rip and those after it.
pub(crate) fn burst(thread: &mut TracedThread, context: &mut UContext) -> Burst {
    let state = delivery::vector_state(context);
    let regs = &mut context.gregs;
    let engine = thread.engine;
    let recorded = PROCESS.is_recording() && thread.calls.silent == 0;
    let limit = if PROCESS.settings().bursts { MAX_STEPS } else { 1 };
    let pool = PROCESS.pool();
    let mut memory = OpenMemory {
        thread,
        pool,
        ip: 0,
        recorded,
        held: [Operand { addr: 0, len: 0, kind: AccessKind::Load }; HELD],
        count: 0,
        watched: Touched::new(),
        before_it: x86::Registers::default(),
        touched: false,
        sharing: sharing::current().filter(|_| !PROCESS.is_watched()),
        locked: false,
        before: 0,
        refused: None,
    };
    let mut steps = 0;
    let mut quiet = 0;
    let mut touching = 0;
    let lone = memory.thread.protection.lone_bursts;
    let quiet_steps = if lone >= LONE_BURSTS && !lone.is_multiple_of(LOOK_AGAIN) { 1 } else { QUIET_STEPS };
    // The first instruction has faulted at data, so the processor had come to it.
    let mut code = code_ranges::around_executed(regs.rip);
    while steps < limit {
        if PROCESS.owns_code(regs.rip) {
            break;
        }
        if !is_code(&mut code, regs.rip) {
            if steps == 0 {
                return Burst::NotEmulated;
            }
            break;
        }
        memory.ip = regs.rip;
        memory.touched = false;
        memory.count = 0;
        memory.before = 0;
        memory.refused = None;
        if PROCESS.is_watched() {
            memory.watched.clear();
            memory.before_it = *regs;
        }
        // SAFETY: this thread's engine, which nobody else uses and `memory` does not reach; the state is that of the
        // signal frame.
        let outcome = unsafe { (*engine).step(regs, state, &mut memory) };
        match outcome {
            StepOutcome::Executed | StepOutcome::Again => memory.commit(),
            _ => memory.end(),
        }
        match outcome {
            StepOutcome::Executed | StepOutcome::Again => {}
            StepOutcome::NotEmulated(_) if steps == 0 => return Burst::NotEmulated,
            StepOutcome::Refused | StepOutcome::Fault if steps == 0 => {
                return match memory.refused {
                    Some(RefusedAccess::Across) => Burst::NotEmulated,
                    Some(RefusedAccess::At(addr)) => Burst::Faulted(Some(addr)),
                    None => Burst::Faulted(None),
                };
            }
            // Natively it will fault or trap again, with the context that the program expects.
            StepOutcome::NotEmulated(_) | StepOutcome::Refused | StepOutcome::Fault => break,
        }
        steps += 1;
        quiet = if memory.touched { 0 } else { quiet + 1 };
        touching += u32::from(memory.touched);
        if quiet >= quiet_steps {
            break;
        }
    }
    memory.thread.protection.lone_bursts = if touching > 1 { 0 } else { lone.wrapping_add(1) };
    Burst::Progress
}

/// Whether the instruction at rip can be executed as a whole, wherever it ends. Natively it is, or faults as the program expects.
fn is_code(code: &mut CodeStretch, rip: u64) -> bool {
    if !(code.start..code.end).contains(&rip) {
        let Executable::Within(stretch) = code_ranges::around(rip) else { return false };
        *code = stretch;
    }
    code.end - rip >= MAX_INSTRUCTION_BYTES as u64
}

/// Executes the one instruction at rip, natively if the engine can't.
pub(crate) fn execute_one(thread: &mut TracedThread, context: &mut UContext) {
    let state = delivery::vector_state(context);
    let regs = &mut context.gregs;
    let engine = thread.engine;
    let recorded = PROCESS.is_recording() && thread.calls.silent == 0;
    let pool = PROCESS.pool();
    let ip = regs.rip;
    let mut memory = OpenMemory {
        thread,
        pool,
        ip,
        recorded,
        held: [Operand { addr: 0, len: 0, kind: AccessKind::Load }; HELD],
        count: 0,
        watched: Touched::new(),
        before_it: x86::Registers::default(),
        touched: false,
        sharing: sharing::current().filter(|_| !PROCESS.is_watched()),
        locked: false,
        before: 0,
        refused: None,
    };
    memory.before_it = *regs;
    // SAFETY: this thread's engine, which nobody else uses; the views that `memory` names are mapped.
    if unsafe { (*engine).step(regs, state, &mut memory) } == StepOutcome::Executed {
        memory.commit();
    }
    memory.end();
}

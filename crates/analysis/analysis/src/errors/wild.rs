//! Accesses that killed their program. They never completed, so they are not
//! in the trace, but the cause of the signal tells which address they were to.

use memref::{Access, AccessKind, Gap, GapReason, ThreadId, VirtAddr};
use rustc_hash::FxHashSet;
use symbols::{BlockState, Resolver};
use x86::{Examiner, MemoryOperand};

use crate::code_files::CodeFiles;
use crate::{Death, amount};

/// Programs do not map the pages below it: an address in them is that of a member of an object that is not there.
const LEAST_MAPPED: u64 = 0x1_0000;
/// A frame that is entered reaches no further below the last one, unless it has very large arrays.
const MOST_FRAME: u64 = 1 << 20;
/// The number of the stack pointer.
const STACK_POINTER: u8 = 4;

/// What ends a program that the tracer has a part in is no error of the program: where that may be, it is a gap.
#[derive(Debug, Default)]
pub(super) struct LostThreads(FxHashSet<(ThreadId, VirtAddr)>);

impl LostThreads {
    pub(super) fn gap(&mut self, gap: &Gap) {
        if gap.reason == GapReason::LostControl {
            self.0.insert((gap.thread, gap.addr));
        }
    }
}

/// An access that a signal answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WildAccess {
    pub(super) thread: ThreadId,
    pub(super) access: Access,
    /// In words.
    pub(super) what: String,
    /// Whether the address lies in what was released.
    pub(super) is_released: bool,
}

impl WildAccess {
    /// That which a process ended by, if it did by one of its own. `last` is where the thread accessed last.
    pub(super) fn of(
        death: &Death,
        resolver: &Resolver,
        lost: &LostThreads,
        last: Option<VirtAddr>,
    ) -> Option<Self> {
        let thread = death.thread.filter(|thread| !lost.0.contains(&(*thread, death.ip)))?;
        if !matches!(&*death.signal, "SIGSEGV" | "SIGBUS") {
            return None;
        }
        let ip = death.ip;
        let fault = death.fault.as_ref();
        let wild = |addr, size, kind, what| {
            let access = Access { cycle: 0, ip, addr, size, kind };
            Some(Self { thread, access, what, is_released: false })
        };
        if let Some(fault) = fault.filter(|fault| fault.addr == ip) {
            let what = format!("a branch to {}{}", pointed(ip), cause(&fault.code, "executed"));
            return wild(ip, 0, AccessKind::Load, what);
        }
        let is_below =
            |addr: VirtAddr| last.is_some_and(|last| last > addr && last.distance(addr) < MOST_FRAME);
        let is_on_stack = fault.is_some_and(|fault| is_below(fault.addr));
        let operand = faulting_operand(resolver, ip, is_on_stack)?;
        let (size, kind) = (u32::from(operand.len_bytes), operand.kind);
        let of = match size {
            0 => kind.name().to_owned(),
            _ => format!("{} of {}", kind.name(), amount(size.into(), "byte")),
        };
        let Some(fault) = fault else {
            let what = format!("{of} at what can't be an address: its upper bits are not those of one");
            return wild(VirtAddr(0), size, kind, what);
        };
        let why = if operand.base == Some(STACK_POINTER) && is_on_stack {
            ", below the stack, which has no more room".to_owned()
        } else {
            cause(&fault.code, if kind.writes() { "written" } else { "read" })
        };
        // A block, or a mapping, was there once, and nothing is since.
        let is_released = fault.code == "SEGV_MAPERR"
            && resolver.heap().get(fault.addr).is_some_and(|hit| hit.state != BlockState::Live);
        let wild = wild(fault.addr, size, kind, format!("{of} at {}{why}", pointed(fault.addr)))?;
        Some(Self { is_released, ..wild })
    }
}

/// An address, and what it may come from.
fn pointed(addr: VirtAddr) -> String {
    match addr.0 {
        0 => "0x0, a null pointer".to_owned(),
        at if at < LEAST_MAPPED => format!("{addr}, by a null pointer"),
        _ => addr.to_string(),
    }
}

/// Why a signal came, by its code of sigaction(2).
fn cause(code: &str, done: &str) -> String {
    match code {
        "SEGV_MAPERR" => ", where nothing is mapped".to_owned(),
        "SEGV_ACCERR" => format!(", which may not be {done}"),
        "BUS_ADRERR" => ", behind the end of the file that is mapped there".to_owned(),
        _ => format!(" ({code})"),
    }
}

/// The operand of the instruction there that met the fault: of several, not the stack's, unless the address is that; of two, the one
/// that stores.
fn faulting_operand(resolver: &Resolver, ip: VirtAddr, is_on_stack: bool) -> Option<MemoryOperand> {
    let instruction = CodeFiles::default().instruction(resolver, ip)?;
    let mut examiner = Examiner::new();
    let effects = examiner.examine(&instruction);
    let operands = || effects.operands().filter(|operand| operand.kind != AccessKind::Prefetch);
    let of_stack = |operand: &MemoryOperand| operand.base == Some(STACK_POINTER);
    operands().filter(|operand| of_stack(operand) == is_on_stack).last().or_else(|| operands().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_addresses_come_from_null_pointers() {
        for (addr, expect) in [
            (0, "0x0, a null pointer"),
            (0x18, "0x18, by a null pointer"),
            (0xffff, "0xffff, by a null pointer"),
            (0x1_0000, "0x10000"),
        ] {
            assert_eq!(pointed(VirtAddr(addr)), expect);
        }
    }
}

//! What is recorded of accesses besides addresses (their bytes, or an order), and which accesses are checked.

use alloc::vec::Vec;
use blocks::MAX_VALUES;
use memref::AccessKind;

use super::end::End;
use super::{ORDER_WORDS, Plan};
use crate::capture::Capture;
use crate::check::Check;
use crate::mode::Task;
use crate::register::Gpr;

impl Plan {
    /// Ends the block after the first instruction that accesses memory, and finds what is to be written of that.
    pub(super) fn find_captures(&mut self) -> bool {
        let Some(index) = self.steps.iter().position(|step| step.operands > 0) else {
            // There are no bytes to record.
            self.captures = None;
            return true;
        };
        self.truncate(index + 1);
        let next = self.next();
        let Some(step) = self.steps.get(index) else { return false };
        let offset = step.offset;
        let mut captures = Vec::with_capacity(2);
        for operand in step.accesses(&self.operands) {
            let pushed = (operand.kind == AccessKind::Store
                && matches!(self.end, End::Call(_) | End::CallIndirect))
            .then_some(next);
            let mut capture = Capture::new(operand, pushed);
            if self.task != Some(Task::Data) {
                capture.leave_bytes();
            }
            captures.push(capture);
        }
        let mut word = 0;
        for capture in &mut captures {
            capture.word = word as u8;
            word += capture.words();
            self.accesses.push(capture.access(index as u16, offset));
        }
        // What is written after the instruction comes last, and no place in the buffer is left out before it.
        let late = captures.iter().position(Capture::is_late);
        let orders = if self.ordered { ORDER_WORDS } else { 0 };
        let fits = word + orders <= MAX_VALUES && late.is_none_or(|late| late + 1 == captures.len());
        self.captures = Some(captures);
        fits || index == 0 && {
            self.make_special();
            true
        }
    }

    /// Finds the accesses that are looked at.
    pub(super) fn find_checks(&mut self) {
        let mut checks = Vec::with_capacity(16);
        for (index, step) in self.steps.iter().enumerate() {
            let masked = step.instruction.mask().is_some();
            for operand in step.accesses(&self.operands) {
                if operand.kind == AccessKind::Prefetch {
                    continue;
                }
                let repeated = self.end == End::Repeat
                    && matches!(operand.base.map(Gpr::numbered), Some(Gpr::RSI | Gpr::RDI));
                let place = Capture::new(operand, None);
                checks.push(Check { instruction: index as u16, place, repeated, masked });
            }
        }
        self.checks = Some(checks);
    }
}

/// Whether the bytes of an instruction's accesses are left to the tracer: how many they are depends on more than registers, or
/// no move of ours has that length.
pub(super) fn needs_tracer(instruction: &x86::Instruction) -> bool {
    instruction.is_repeated()
        || instruction.names_memory()
            && (instruction.mask().is_some() || matches!(instruction.memory_bytes(), 3 | 5..=7))
}

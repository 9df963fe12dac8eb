//! Side exits: branches in the middle of a block, where the block continues in one direction, and returns in the middle of a long path.
//!
//! When a side exit is taken, the executed part counts as a shorter block
//! with a number of its own, whose header is written after the main code.

use buffers::flow::POSITION_AT;
use x86::Transfer;

use super::{BlockEmitter, TakenBranch, TooFar, condition};
use crate::assembler::JumpWhen;
use crate::place::{CodeWith, Recording};
use crate::register::Gpr;
use crate::slot::{SPILL_RCX, SPILL_RDX, SPILL_SCRATCH};

impl BlockEmitter<'_> {
    /// A branch in the middle, or a return.
    pub(super) fn exit(&mut self, exit: usize, index: usize) -> Result<(), TooFar> {
        let plan = self.plan;
        let Some(step) = plan.steps.get(index) else { return Ok(()) };
        let Some(target) = plan.exit_target(index) else { return self.compare(exit, index) };
        let other_way = u8::from(plan.is_taken(index));
        let when = JumpWhen::Condition(condition(&step.instruction) ^ other_way);
        if self.recording != Recording::Values {
            self.link(when, target);
            return Ok(());
        }
        let distance = self.code.jump(when);
        self.taken.push(TakenBranch { exit, distance });
        Ok(())
    }

    /// A return in the middle of a long path, or another indirect branch: goes on where the path does, or by the look-up.
    fn compare(&mut self, exit: usize, index: usize) -> Result<(), TooFar> {
        let plan = self.plan;
        let Some(step) = plan.steps.get(index) else { return Ok(()) };
        let expected = plan.addr_of(index + 1).unwrap_or(0);
        self.code.store_gs(SPILL_RCX, Gpr::RCX);
        self.code.store_gs(SPILL_RDX, Gpr::RDX);
        self.inner_part(index);
        match step.transfer {
            Transfer::Return(bytes) => {
                self.code.pop(Gpr::RCX);
                if bytes > 0 {
                    self.code.lea(Gpr::RSP, Gpr::RSP, i32::from(bytes));
                }
            }
            _ => self.target(index).ok_or(TooFar(index))?,
        }
        if step.transfer == Transfer::CallIndirect {
            self.inner_part(index);
            self.push_return(step.instruction.next());
        }
        self.code.number(Gpr::RDX, expected.wrapping_neg());
        self.code.add_to_rcx(Gpr::RDX);
        let is_it = self.code.jump_if_rcx_is_zero();
        self.code.number(Gpr::RDX, expected);
        self.code.add_to_rcx(Gpr::RDX);
        let distance = self.code.jump(JumpWhen::Always);
        self.taken.push(TakenBranch { exit, distance });
        self.code.land(is_it);
        self.code.load_gs(Gpr::RCX, SPILL_RCX);
        self.code.load_gs(Gpr::RDX, SPILL_RDX);
        Ok(())
    }

    /// What stands here makes an access of that instruction.
    fn inner_part(&mut self, index: usize) {
        let distance = self.distance();
        self.inner_parts.push(CodeWith { instruction: index as u16, distance });
    }

    /// Where the block is left early: what is executed becomes a block of its own.
    pub(super) fn leave_early(&mut self) {
        for TakenBranch { exit, distance } in core::mem::take(&mut self.taken) {
            self.code.set_distance(distance, self.code.here());
            let plan = self.plan;
            let Some(&index) = plan.exits.get(exit) else { continue };
            let (values, accesses) = plan.before(index);
            if accesses.is_empty() {
                self.count(u32::from(index) + 1, false);
            } else {
                self.commit_shorter(index, values, self.around.id + 1 + exit as u32);
            }
            match plan.exit_target(index.into()) {
                Some(target) => self.link_to(target),
                None => {
                    self.code.low_half_of_rcx();
                    self.code.jump_by_number(self.around.way_numbers, self.around.ways);
                }
            }
        }
    }

    /// Writes the header of the shorter block that ends with that instruction; where the whole block's header is written already,
    /// over its number.
    fn commit_shorter(&mut self, index: u16, values: u8, id: u32) {
        let scratch = self.block.scratch.iter().find(|own| (own.from..own.until).contains(&index));
        let (register, is_scratch) = scratch.map_or((Gpr::RAX, false), |own| (own.register, true));
        let from = self.distance();
        if !is_scratch {
            self.code.store_gs(SPILL_SCRATCH, register);
            self.code.load_gs(register, POSITION_AT);
        }
        if index >= self.block.commit {
            // All values are written: the shorter block has as many.
            self.code.store_number(register, -8 - i32::from(values) * 8, id);
        } else {
            self.header(register, id, values);
        }
        self.code.load_gs(register, SPILL_SCRATCH);
        self.points(from, register);
    }
}

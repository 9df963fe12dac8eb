//! Side exits: branches in the middle of a block, which the block goes on after as if they were not taken.
//!
//! Where one is taken, what was executed is a shorter block with a number of its own, whose header is written after the main code.

use buffers::flow::POSITION_AT;
use x86::Instruction;

use super::{BlockEmitter, TakenBranch, condition};
use crate::assembler::JumpWhen;
use crate::place::Recording;
use crate::register::Gpr;
use crate::slot::SPILL_SCRATCH;

impl BlockEmitter<'_> {
    /// A branch in the middle.
    pub(super) fn branch(&mut self, exit: usize, instruction: &Instruction) {
        let other_way = u8::from(self.plan.repeats(instruction));
        let when = JumpWhen::Condition(condition(instruction) ^ other_way);
        if self.recording != Recording::Values {
            self.link(when, self.plan.exit_target(instruction));
            return;
        }
        let distance = self.code.jump(when);
        self.taken.push(TakenBranch { exit, distance });
    }

    /// Where branches in the middle are taken: what is executed becomes a block of its own.
    pub(super) fn leave_early(&mut self) {
        for TakenBranch { exit, distance } in core::mem::take(&mut self.taken) {
            self.code.set_distance(distance, self.code.here());
            let plan = self.plan;
            let Some(&index) = plan.exits.get(exit) else { continue };
            let Some(step) = plan.steps.get(usize::from(index)) else { continue };
            let (values, accesses) = plan.before(index);
            if accesses.is_empty() {
                self.count(u32::from(index) + 1, false);
            } else {
                self.commit_shorter(index, values, self.around.id + 1 + exit as u32);
            }
            self.link_to(plan.exit_target(&step.instruction));
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

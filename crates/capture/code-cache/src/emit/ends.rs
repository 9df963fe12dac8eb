//! How a block ends: with the program's last instruction, or with cache code that has the same effect.

use buffers::flow::TARGET_AT;

use super::stubs::leave;
use super::{BlockEmitter, PushedWord, TooFar, condition};
use crate::assembler::JumpWhen;
use crate::call_site::CallSite;
use crate::exit_reason::EXIT_CALL;
use crate::place::PartAt;
use crate::plan::End;
use crate::register::Gpr;
use crate::slot::{SPILL_RAX, SPILL_RCX, SPILL_RDX, aside};

impl BlockEmitter<'_> {
    /// Writes the end of the block.
    pub(super) fn end(&mut self) -> Result<(), TooFar> {
        let plan = self.plan;
        let next = plan.next();
        match plan.end {
            End::Fall | End::Repeat => self.link_to(next),
            End::Jump(target) => self.link_to(target),
            End::Branch(target) => {
                let condition = plan.steps.last().map_or(0, |step| condition(&step.instruction));
                self.link(JumpWhen::Condition(condition), target);
                self.link_to(next);
            }
            End::CountBranch(target) => {
                let own = plan.bytes_of(plan.steps.len().saturating_sub(1));
                let own = own.split_last().map_or(&[][..], |(_, opcode)| opcode);
                let ways = self.code.count_branch(own);
                self.link_to(target);
                self.code.other_way(ways);
                self.link_to(next);
            }
            End::Call(target) => {
                self.push_return(next);
                self.link_to(target);
            }
            End::JumpIndirect | End::CallIndirect | End::Return(_) => self.end_indirectly(next)?,
            End::Syscall => {
                self.system_call(next);
                self.block.after = self.distance();
                self.link_to(next);
            }
            End::Special => {}
        }
        Ok(())
    }

    /// A system call: out of the cache by the gate, and the instruction itself for calls that are not made there ([`CallSite`]).
    /// Where accesses are checked all calls are of these.
    fn system_call(&mut self, next: u64) {
        if self.around.marks.is_none() {
            self.code.store_gs(SPILL_RAX, Gpr::RAX);
            let word = self.code.lea_near(Gpr::RAX);
            self.code.store_gs(TARGET_AT, Gpr::RAX);
            leave(&mut self.code, EXIT_CALL, false);
            self.code.align(8, 0);
            self.code.set_distance(word, self.code.here());
            self.code.word(CallSite::word(next, self.around.mode));
            self.block.parts[0] = PartAt { distance: self.distance(), aside: 0 };
        }
        self.code.system_call();
    }

    /// An indirect branch: its target goes to rcx, and the look-up begins.
    fn end_indirectly(&mut self, next: u64) -> Result<(), TooFar> {
        let plan = self.plan;
        self.code.store_gs(SPILL_RCX, Gpr::RCX);
        self.code.store_gs(SPILL_RDX, Gpr::RDX);
        let part = |distance| PartAt { distance, aside: aside::INDIRECT };
        self.block.parts[0] = part(self.distance());
        match plan.end {
            End::Return(bytes) => {
                self.code.pop(Gpr::RCX);
                if bytes > 0 {
                    self.code.lea(Gpr::RSP, Gpr::RSP, i32::from(bytes));
                }
            }
            _ => {
                let last = plan.steps.len().saturating_sub(1);
                self.target(last).ok_or(TooFar(last))?;
            }
        }
        if plan.end == End::CallIndirect {
            self.block.parts[1] = part(self.distance());
            self.push_return(next);
        }
        self.code.low_half_of_rcx();
        self.code.jump_by_number(self.around.way_numbers, self.around.ways);
        Ok(())
    }

    /// Pushes the native return address by one instruction: as a number, or from a word after the block.
    pub(super) fn push_return(&mut self, next: u64) {
        match i32::try_from(next as i64) {
            Ok(small) => self.code.push_number(small),
            Err(_) => {
                let distance = self.code.push_word();
                self.pushed.push(PushedWord { address: next, distance });
            }
        }
    }

    /// Moves what the indirect branch of that number names into rcx.
    pub(super) fn target(&mut self, index: usize) -> Option<()> {
        let rcx = Gpr::RCX.number();
        let instruction = self.plan.steps.get(index)?.instruction;
        if instruction.target_register() != Some(rcx) {
            self.code.put(&instruction.target_loaded(rcx, self.code.here())?);
        }
        Some(())
    }
}

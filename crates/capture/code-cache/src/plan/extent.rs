//! How far a block goes: which basic blocks are joined to its first one, and where it may be left early.
//!
//! A branch that leads forwards is likely not to be taken, and the block goes on after it ([`Plan::exits`]); at a jump that leads
//! forwards the block goes on at its target. One header then serves several basic blocks. A loop, which is a block that ends with
//! a branch or a jump to its own start, is unrolled: its instructions come again after the branch, as if it was taken. Where such a
//! branch goes the other way, what was executed counts as a shorter block of its own.

use x86::{Disassembler, Examiner, Instruction, MAX_INSTRUCTION_BYTES, Transfer};

use super::end::End;
use super::{Plan, Planned};
use crate::asked::{Flow, Task};

/// Branches after which a block goes on.
pub(crate) const MAX_EXITS: usize = 7;
/// Of them, those that lead forwards and are all in one turn of a loop.
pub(super) const FORWARD_EXITS: usize = 3;
/// After so many instructions it does not.
const LONG: usize = 32;
/// Turns of a loop in one block.
pub(super) const TURNS: usize = 4;

impl Plan {
    /// Takes instructions from its bytes. `None` where not even one can be decoded.
    pub(super) fn decode(&mut self, bytes: &[u8], limit: usize, stops: impl Fn(u64) -> bool) -> Option<()> {
        let mut disassembler = Disassembler::new(bytes, self.addr);
        let mut examiner = Examiner::new();
        let mut offset = 0usize;
        let mut turns = None;
        while self.steps.len() < limit {
            let ip = self.addr.wrapping_add(offset as u64);
            if !self.steps.is_empty() && stops(ip) {
                break;
            }
            let instruction = disassembler.next_instruction();
            if !instruction.is_valid() {
                if self.steps.is_empty() && bytes.len() < MAX_INSTRUCTION_BYTES {
                    return None;
                }
                if self.steps.is_empty() {
                    self.push(&mut examiner, instruction, 0);
                    self.len = 1;
                    self.make_special();
                }
                break;
            }
            let ordered = matches!(self.task, Some(Task::Addresses | Task::Data)) && instruction.is_locked();
            if ordered && !self.steps.is_empty() {
                break;
            }
            let end = match &self.captures {
                Some(_) if super::captures::needs_tracer(&instruction) => Some(End::Special),
                _ => End::of(&instruction),
            };
            if matches!(end, Some(End::Special | End::Repeat)) && !self.steps.is_empty() {
                break;
            }
            self.push(&mut examiner, instruction, offset as u16);
            offset += instruction.len_bytes();
            self.len = offset as u16;
            if ordered && end.is_none() {
                self.ordered = true;
                self.captures.get_or_insert_default();
                break;
            }
            let Some(end) = end else { continue };
            let target = match end {
                End::Branch(target) if target > ip && (turns.is_some() || self.goes_on()) => {
                    self.exits.push(self.steps.len() as u16 - 1);
                    continue;
                }
                End::Branch(target) if target == self.addr => target,
                End::Jump(target) if turns.is_some() || self.follows(target, ip, bytes.len()) => target,
                _ => {
                    self.end = end;
                    break;
                }
            };
            if target == self.addr {
                let left = turns.get_or_insert_with(|| self.turns(limit));
                *left -= 1;
                if *left == 0 {
                    self.end = end;
                    break;
                }
            }
            if end == End::Branch(target) {
                self.exits.push(self.steps.len() as u16 - 1);
            }
            offset = target.wrapping_sub(self.addr) as usize;
            if !disassembler.seek(offset, target) {
                return None;
            }
        }
        self.end_at_exit();
        (!self.steps.is_empty()).then_some(())
    }

    /// Whether basic blocks are joined to this one.
    fn joins(&self) -> bool {
        self.flow == Flow::Accesses
            && matches!(self.task, None | Some(Task::Addresses))
            && self.captures.is_none()
            && self.steps.len() < LONG
    }

    /// Whether the block may have another branch in its middle.
    fn goes_on(&self) -> bool {
        self.joins() && self.exits.len() < FORWARD_EXITS
    }

    /// Whether the block goes on where a jump leads: forwards to what was read, or to the start if it can leave the loop.
    fn follows(&self, target: u64, from: u64, read: usize) -> bool {
        let distance = target.wrapping_sub(self.addr) as usize;
        let is_read = distance < read && read - distance >= MAX_INSTRUCTION_BYTES;
        self.joins() && is_read && (target > from || distance == 0 && !self.exits.is_empty())
    }

    /// Whether that instruction is a jump after which the block goes on: it does nothing there.
    pub(crate) fn is_followed(&self, index: usize) -> bool {
        let is_jump = |step: &Planned| matches!(step.instruction.transfer(), Transfer::Jump(_));
        index + 1 < self.steps.len() && self.steps.get(index).is_some_and(is_jump)
    }

    /// How many turns of the loop that was just decoded one block may have.
    fn turns(&self, limit: usize) -> usize {
        if self.task != Some(Task::Addresses) || self.flow == Flow::Full {
            return 1;
        }
        TURNS.min(limit / self.steps.len()).min((MAX_EXITS + 1) / (self.exits.len() + 1))
    }

    /// Where a branch in the middle leads if the block does not go on after it.
    pub(crate) fn exit_target(&self, branch: &Instruction) -> u64 {
        if self.repeats(branch) { branch.next() } else { branch.transfer().target().unwrap_or(branch.next()) }
    }

    /// Whether a branch in the middle is one of a loop: after it comes what it leads to.
    pub(crate) fn repeats(&self, branch: &Instruction) -> bool {
        branch.transfer().target() == Some(self.addr)
    }

    /// Bytes of the program that its instructions are in.
    pub(crate) fn covered(&self) -> u16 {
        let ends = self.steps.iter().map(|step| step.offset + step.instruction.len_bytes() as u16);
        ends.max().unwrap_or(self.len).max(self.len)
    }

    /// A branch or a jump that is the last instruction is the block's end.
    fn end_at_exit(&mut self) {
        let len = self.steps.len();
        self.exits.retain(|&exit| usize::from(exit) < len);
        if let (Some(last), Some(&exit)) = (self.steps.last(), self.exits.last())
            && usize::from(exit) + 1 == len
        {
            self.end = End::of(&last.instruction).unwrap_or(End::Fall);
            self.exits.pop();
        } else if self.end == End::Fall
            && let Some(Some(End::Jump(target))) = self.steps.last().map(|last| End::of(&last.instruction))
        {
            self.end = End::Jump(target);
        }
    }

    /// The stretches between its branches: the first instruction of each, and the one after its last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u16, u16)> {
        let starts = core::iter::once(0).chain(self.exits.iter().map(|exit| exit + 1));
        let ends = self.exits.iter().map(|exit| exit + 1).chain([self.steps.len() as u16]);
        starts.zip(ends)
    }

    fn push(&mut self, examiner: &mut Examiner, instruction: Instruction, offset: u16) {
        let registers = examiner.examine(&instruction).registers();
        self.steps.push(Planned { instruction, offset, used: registers.used, set: registers.set });
    }

    /// Makes the block end before that instruction.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.steps.len()
            && let Some(last) = len.checked_sub(1).and_then(|last| self.steps.get(last))
        {
            self.len = last.offset + last.instruction.len_bytes() as u16;
            self.end = End::Fall;
            self.steps.truncate(len);
            self.end_at_exit();
        }
    }
}

//! How far a block extends: which basic blocks are joined to its first one, and where it may be left early.
//!
//! A forward branch is likely not to be taken, and the block continues after it ([`Plan::exits`]); at a forward jump
//! the block continues at the target. One header then serves several basic blocks. A loop, meaning a block that ends
//! with a branch or jump to its own start, is unrolled: its instructions are repeated after the branch, as if it was
//! taken. Where such a branch goes the other way, the executed part counts as a shorter block of its own.
//!
//! A *long path* goes wherever the program was seen to go ([`Plan::decode_path`]): beyond taken branches, through calls and returns,
//! into other functions. A return or another indirect branch in it is compared with where it went before, and is a side exit otherwise.

use alloc::vec::Vec;
use blocks::MAX_INSTRUCTIONS;
use x86::{Disassembler, Examiner, Instruction, MAX_INSTRUCTION_BYTES, RegisterUse, Transfer};

use super::end::End;
use super::{Plan, Planned};
use crate::mode::{Flow, Task};
use crate::place::Stretch;
use crate::register::Gpr;

/// Branches after which a block goes on.
pub(crate) const MAX_EXITS: usize = 7;
/// As [`MAX_EXITS`], of a long path.
pub(crate) const MAX_PATH_EXITS: usize = 24;
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
                    self.push(&mut examiner, instruction, instruction.transfer(), bytes);
                    self.make_special();
                }
                break;
            }
            let ordered = matches!(self.task, Some(Task::Addresses | Task::Data)) && instruction.is_locked();
            if ordered && !self.steps.is_empty() {
                break;
            }
            let transfer = instruction.transfer();
            let end = match &self.captures {
                Some(_) if super::captures::needs_tracer(&instruction) => Some(End::Special),
                _ => End::of(&instruction, transfer),
            };
            if matches!(end, Some(End::Special | End::Repeat)) && !self.steps.is_empty() {
                break;
            }
            self.push(&mut examiner, instruction, transfer, bytes.get(offset..).unwrap_or(&[]));
            offset += instruction.len_bytes();
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

    /// Takes the instructions of a path, as far as it can be one block. `None` where there are none.
    pub(super) fn decode_path(
        &mut self,
        path: &[u64],
        mut read: impl FnMut(u64, &mut [u8]) -> usize,
        stops: impl Fn(u64) -> bool,
    ) -> Option<()> {
        let mut examiner = Examiner::new();
        for (index, &ip) in path.iter().take(MAX_INSTRUCTIONS).enumerate() {
            let mut bytes = [0; MAX_INSTRUCTION_BYTES];
            let len = read(ip, &mut bytes);
            let bytes = bytes.get(..len).unwrap_or(&[]);
            let Some(instruction) = Instruction::decode(bytes, ip) else { break };
            let transfer = instruction.transfer();
            let end = End::of(&instruction, transfer);
            let is_alone = instruction.is_locked()
                || matches!(end, Some(End::Special | End::Repeat | End::Syscall | End::CountBranch(_)));
            if is_alone || index > 0 && stops(ip) {
                break;
            }
            self.push(&mut examiner, instruction, transfer, bytes);
            let Some(&next) = path.get(index + 1) else { break };
            let goes_there = match end {
                None => instruction.next() == next,
                Some(End::Jump(target) | End::Call(target)) => target == next,
                Some(End::Branch(target)) => {
                    self.exits.push(index as u16);
                    [target, instruction.next()].contains(&next)
                }
                _ => {
                    self.exits.push(index as u16);
                    // What it is compared by needs them.
                    if let Some(step) = self.steps.last_mut() {
                        step.used |= Gpr::RCX.bit() | Gpr::RDX.bit();
                    }
                    true
                }
            };
            if !goes_there || self.exits.len() > MAX_PATH_EXITS {
                break;
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
        let is_jump = |step: &Planned| matches!(step.transfer, Transfer::Jump(_));
        index + 1 < self.steps.len() && self.steps.get(index).is_some_and(is_jump)
    }

    /// Whether that instruction is a call after which the block goes on in what is called.
    pub(crate) fn is_followed_call(&self, index: usize) -> bool {
        let is_call = |step: &Planned| matches!(step.transfer, Transfer::Call(_));
        index + 1 < self.steps.len() && self.steps.get(index).is_some_and(is_call)
    }

    /// The address of the instruction of that number.
    pub(crate) fn addr_of(&self, index: usize) -> Option<u64> {
        self.steps.get(index).map(|step| step.instruction.addr())
    }

    /// The bytes of the instruction of that number.
    pub(crate) fn bytes_of(&self, index: usize) -> &[u8] {
        self.steps.get(index).map_or(&[], |step| {
            let from = usize::from(step.code_at);
            self.code.get(from..from + step.instruction.len_bytes()).unwrap_or(&[])
        })
    }

    /// How many turns of the loop that was just decoded one block may have.
    fn turns(&self, limit: usize) -> usize {
        if self.task != Some(Task::Addresses) || self.flow == Flow::Full {
            return 1;
        }
        TURNS.min(limit / self.steps.len()).min((MAX_EXITS + 1) / (self.exits.len() + 1))
    }

    /// Where the branch in the middle of that number leads if the block does not go on after it; `None`: the processor knows.
    pub(crate) fn exit_target(&self, index: usize) -> Option<u64> {
        let branch = self.steps.get(index)?;
        let target = branch.transfer.target()?;
        Some(if self.is_taken(index) { branch.instruction.next() } else { target })
    }

    /// Whether the block goes on where the branch in the middle of that number leads.
    pub(crate) fn is_taken(&self, index: usize) -> bool {
        let target = self.steps.get(index).and_then(|step| step.transfer.target());
        target.is_some() && target == self.addr_of(index + 1)
    }

    /// Bytes of the program from the block's address on that its instructions are in; nothing of a path that goes elsewhere.
    pub(crate) fn covered(&self) -> u16 {
        let ends = self.steps.iter().map(|step| step.offset + step.instruction.len_bytes() as i64);
        u16::try_from(ends.max().unwrap_or(0).max(1)).unwrap_or(0)
    }

    /// The stretches of the program that the instructions of a long path are in.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        let mut all: Vec<Stretch> = Vec::new();
        for step in self.steps.iter().filter(|_| self.is_path) {
            let (start, end) = (step.instruction.addr(), step.instruction.next());
            match all.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => all.push(Stretch { start, end }),
            }
        }
        all
    }

    /// A branch, a call or a return that is the last instruction is the block's end.
    fn end_at_exit(&mut self) {
        let len = self.steps.len();
        self.exits.retain(|&exit| usize::from(exit) + 1 < len);
        let last = self.steps.last().and_then(|last| End::of(&last.instruction, last.transfer));
        if self.end == End::Fall
            && let Some(end) = last
            && end != End::Special
        {
            self.end = end;
        }
    }

    /// The stretches between its branches: the first instruction of each, and the one after its last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u16, u16)> {
        let starts = core::iter::once(0).chain(self.exits.iter().map(|exit| exit + 1));
        let ends = self.exits.iter().map(|exit| exit + 1).chain([self.steps.len() as u16]);
        starts.zip(ends)
    }

    /// Takes an instruction, where it leads, and its bytes, which these begin with.
    fn push(&mut self, examiner: &mut Examiner, instruction: Instruction, transfer: Transfer, bytes: &[u8]) {
        let effects = examiner.examine(&instruction);
        let RegisterUse { used, set, written } = effects.registers();
        let mut sums = effects.sums();
        let sums = [sums.next(), sums.next()];
        let operands_at = self.operands.len();
        self.operands.extend(effects.operands());
        let offset = instruction.addr().wrapping_sub(self.addr) as i64;
        let code_at = self.code.len() as u16;
        self.code.extend_from_slice(bytes.get(..instruction.len_bytes()).unwrap_or(bytes));
        self.steps.push(Planned {
            instruction,
            transfer,
            offset,
            code_at,
            used,
            set,
            written,
            sums,
            operands_at: operands_at as u16,
            operands: (self.operands.len() - operands_at) as u16,
        });
    }

    /// Makes the block end before that instruction.
    pub(crate) fn truncate(&mut self, len: usize) {
        if (1..self.steps.len()).contains(&len) {
            self.end = End::Fall;
            self.steps.truncate(len);
            self.end_at_exit();
        }
    }
}

//! The program's instructions, decoded from the files it executed: the successors of each, and whether it accesses memory.

use std::sync::Arc;

use memref::{AccessKind, VirtAddr};
use rustc_hash::FxHashMap;
use symbols::Resolver;
use x86::{DataFlow, Examiner, Instruction, RegisterKind, Transfer};

use super::registers::RegisterSet;
use super::system_calls::{CALL_NUMBER, SYSCALL_ARGUMENTS};
use crate::code_files::CodeFiles;

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    Next,
    Jump(VirtAddr),
    Branch(VirtAddr),
    Call(VirtAddr),
    IndirectJump,
    IndirectCall,
    Return,
    /// The instruction after it, where the kernel returns to.
    Syscall,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct KnownInstruction {
    pub(crate) instruction: Instruction,
    pub(crate) successor: Successor,
    /// How it moves labels.
    pub(crate) flow: DataFlow,
    /// The registers that labels move from and to, and those that decide where it leads or what the kernel does. Where none of them has a
    /// label, nor memory that it accesses, it changes nothing.
    pub(crate) registers: RegisterSet,
    /// The registers that make the addresses of what it accesses, a bit each.
    pub(crate) address_registers: u16,
    /// Whether it replaces or changes the arithmetic flags.
    pub(crate) changes_flags: bool,
    /// Whether it can be executed without an access that the trace would have.
    pub(crate) can_be_silent: bool,
}

impl KnownInstruction {
    /// Its address.
    pub(crate) fn addr(&self) -> VirtAddr {
        VirtAddr(self.instruction.addr())
    }

    /// The address after it.
    pub(crate) fn next(&self) -> VirtAddr {
        VirtAddr(self.instruction.next())
    }
}

/// So many addresses are remembered that were asked about lately.
const RECENT: usize = 1 << 13;

/// What was found at an address.
#[derive(Clone, Copy)]
struct RecentCode {
    ip: VirtAddr,
    index: u32,
}

/// The code of one process.
pub(crate) struct ProgramCode {
    known: FxHashMap<VirtAddr, Option<u32>>,
    all: Vec<Arc<KnownInstruction>>,
    /// The instructions that ran lately, each in the one place where it can be, so that most need one look. The index of an empty
    /// place is none's.
    recent: Box<[RecentCode]>,
    files: CodeFiles,
    examiner: Examiner,
}

impl Default for ProgramCode {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            all: Vec::new(),
            recent: vec![RecentCode { ip: VirtAddr(0), index: u32::MAX }; RECENT].into_boxed_slice(),
            files: CodeFiles::default(),
            examiner: Examiner::new(),
        }
    }
}

impl std::fmt::Debug for ProgramCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramCode").field("instructions", &self.all.len()).finish_non_exhaustive()
    }
}

impl ProgramCode {
    /// The instruction at an address; `None` where there is no file with it.
    #[inline]
    pub(crate) fn at(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<Arc<KnownInstruction>> {
        let place = (ip.0 ^ ip.0 >> 13) as usize % RECENT;
        let recent = self.recent[place];
        if recent.ip == ip
            && let Some(known) = self.all.get(recent.index as usize)
        {
            return Some(Arc::clone(known));
        }
        let index = self.find(resolver, ip)?;
        self.recent[place] = RecentCode { ip, index };
        self.all.get(index as usize).map(Arc::clone)
    }

    fn find(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<u32> {
        match self.known.get(&ip) {
            Some(&index) => index,
            None => {
                let decoded = self.decode(resolver, ip);
                let index = decoded.map(|decoded| {
                    self.all.push(Arc::new(decoded));
                    self.all.len() as u32 - 1
                });
                self.known.insert(ip, index);
                index
            }
        }
    }

    /// The addresses of instructions that follow each other: `count` of them after the first `skipped` from `start` on. Fewer
    /// where the code is not known.
    pub(crate) fn row(
        &mut self,
        resolver: &Resolver,
        start: VirtAddr,
        skipped: u64,
        count: u64,
    ) -> Vec<VirtAddr> {
        let mut row = Vec::with_capacity(count as usize);
        let mut ip = start;
        for index in 0..skipped + count {
            let Some(decoded) = self.at(resolver, ip) else { break };
            if index >= skipped {
                row.push(ip);
            }
            ip = decoded.next();
        }
        row
    }

    fn decode(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<KnownInstruction> {
        let instruction = self.files.instruction(resolver, ip)?;
        let effects = self.examiner.examine(&instruction);
        let (successor, flow) = (Successor::of(&instruction), effects.data_flow());
        Some(KnownInstruction {
            successor,
            registers: registers_of(&instruction, successor, &flow),
            address_registers: effects
                .operands()
                .filter(|operand| operand.kind != AccessKind::Prefetch)
                .flat_map(|operand| operand.base.into_iter().chain(operand.index))
                .filter(|&register| register < 16)
                .fold(0, |all, register| all | 1 << register),
            changes_flags: instruction.flags().changed != 0,
            flow,
            can_be_silent: effects.may_access_nothing(),
            instruction,
        })
    }
}

fn registers_of(instruction: &Instruction, successor: Successor, flow: &DataFlow) -> RegisterSet {
    let mut registers = RegisterSet::default();
    flow.registers().for_each(|bytes| registers.add(bytes.register));
    let arguments = SYSCALL_ARGUMENTS.into_iter().chain([CALL_NUMBER]);
    let decide = arguments.filter(|_| successor == Successor::Syscall).chain(instruction.target_register());
    decide.for_each(|number| registers.add(RegisterKind::General(number)));
    registers
}

impl Successor {
    fn of(instruction: &Instruction) -> Self {
        match instruction.transfer() {
            Transfer::Jump(target) => Self::Jump(VirtAddr(target)),
            Transfer::Branch(_, target) | Transfer::CountBranch(target) => Self::Branch(VirtAddr(target)),
            Transfer::Call(target) => Self::Call(VirtAddr(target)),
            Transfer::Syscall => Self::Syscall,
            Transfer::JumpIndirect | Transfer::FarJump => Self::IndirectJump,
            Transfer::CallIndirect | Transfer::FarCall => Self::IndirectCall,
            Transfer::Return(_) | Transfer::FarReturn => Self::Return,
            Transfer::Next
            | Transfer::Kernel
            | Transfer::Interrupt
            | Transfer::Exception
            | Transfer::Transaction(_) => Self::Next,
        }
    }
}

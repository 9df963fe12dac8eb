//! A block before it is written: its instructions, what they access, and which registers must be saved for that.
//!
//! The effects of an instruction come from the crate `x86`. How far a block extends is in `extent`, how it ends
//! in `end`, which values it saves in `values`, what else it records of accesses in `captures`, which registers
//! are free for that in `scratch`, and where the flags are live in `liveness`. Start with [`Plan::new`].

mod captures;
mod end;
mod extent;
mod liveness;
mod scratch;
#[cfg(test)]
mod tests;
mod values;

use alloc::vec::Vec;
use blocks::{BlockAccess, MAX_INSTRUCTIONS, RecordedValues};
use x86::{Instruction, MemoryOperand, RegisterSum, Transfer};

use crate::capture::{self, Capture};
use crate::check::Check;
use crate::mode::{Flow, Task};
use crate::register::{Gpr, KeptRegister};

pub(crate) use self::end::End;
pub(crate) use self::extent::MAX_PATH_EXITS;
pub(crate) use self::scratch::ScratchRegister;

/// The registers that a repeated string instruction moves, in the order in which they are kept.
pub(crate) const REPEATED: [Gpr; 3] = [Gpr::RSI, Gpr::RDI, Gpr::RCX];

/// An instruction of the block.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) instruction: Instruction,
    /// Where it leads.
    pub(crate) transfer: Transfer,
    /// Its distance from the block's address.
    pub(crate) offset: i64,
    /// Where its bytes begin among the plan's.
    pub(crate) code_at: u16,
    /// General registers that it names or uses.
    pub(crate) used: u16,
    /// Those of them that it sets as a whole, without reading them.
    pub(crate) set: u16,
    /// Those of them that it may change.
    written: u16,
    /// Registers of which it is known what they hold after it: the stack pointer, and one result.
    sums: [Option<RegisterSum>; 2],
    /// Where its accesses begin among the plan's operands, and how many there are.
    operands_at: u16,
    operands: u16,
}

impl Planned {
    /// Its accesses among the plan's operands: those that only store come last.
    fn accesses<'a>(&self, operands: &'a [MemoryOperand]) -> &'a [MemoryOperand] {
        let from = usize::from(self.operands_at);
        operands.get(from..from + usize::from(self.operands)).unwrap_or(&[])
    }
}

/// A value to keep: a register, before the instruction of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptValue {
    pub(crate) at: u16,
    pub(crate) register: KeptRegister,
}

/// Words of a locked instruction's orders.
const ORDER_WORDS: usize = 2;

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) addr: u64,
    pub(crate) steps: Vec<Planned>,
    /// What its instructions access, as their encodings tell it. Of instructions that were left out again, too.
    operands: Vec<MemoryOperand>,
    /// The bytes of all instructions.
    pub(crate) code: Vec<u8>,
    pub(crate) values: Vec<KeptValue>,
    pub(crate) accesses: Vec<BlockAccess>,
    pub(crate) end: End,
    /// The instructions before which the flags are dead, a bit each.
    pub(crate) flags_dead: u64,
    /// Registers that point into the buffer, one after the other.
    pub(crate) scratch: Vec<ScratchRegister>,
    /// Branches and returns in the middle, by their instructions: the block ends there where one goes another way.
    pub(crate) exits: Vec<u16>,
    /// Where the bytes of accesses are recorded, or an order: what is written of its only instruction that accesses memory.
    pub(crate) captures: Option<Vec<Capture>>,
    /// Where accesses are looked at: those of all instructions, in their order.
    pub(crate) checks: Option<Vec<Check>>,
    /// Whether that is a locked instruction, around which the session's orders are written. It is the block's only one.
    pub(crate) ordered: bool,
    /// Whether it goes wherever its instructions are.
    is_path: bool,
    task: Option<Task>,
    flow: Flow,
}

impl Plan {
    /// Plans the block at `addr` from its bytes, in the memory of a plan that is done, if there is one. `None` where not even one instruction
    /// can be decoded from them. `stops` says at which addresses other blocks must begin; at most `limit` instructions are taken.
    pub(crate) fn new(
        done: Option<Self>,
        addr: u64,
        bytes: &[u8],
        limit: usize,
        (task, flow): (Option<Task>, Flow),
        stops: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        let empty = done.map_or_else(|| Self::empty(addr, task, flow), |done| done.emptied(addr, task, flow));
        let mut plan = Self {
            captures: (task == Some(Task::Data)).then(Vec::new),
            checks: matches!(task, Some(Task::Check(_))).then(Vec::new),
            ..empty
        };
        plan.decode(bytes, limit.min(MAX_INSTRUCTIONS), stops)?;
        plan.complete();
        Some(plan)
    }

    /// Plans a long path: the instructions at these addresses, one after the other, as they were executed before. `None` where they are none.
    pub(crate) fn of_path(
        path: &[u64],
        read: impl FnMut(u64, &mut [u8]) -> usize,
        stops: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        let own = Self::empty(*path.first()?, Some(Task::Addresses), Flow::Accesses);
        let mut plan = Self { is_path: true, ..own };
        plan.decode_path(path, read, stops)?;
        plan.complete();
        Some(plan)
    }

    fn empty(addr: u64, task: Option<Task>, flow: Flow) -> Self {
        Self {
            addr,
            steps: Vec::new(),
            operands: Vec::new(),
            code: Vec::new(),
            values: Vec::new(),
            accesses: Vec::new(),
            end: End::Fall,
            flags_dead: 0,
            scratch: Vec::new(),
            exits: Vec::new(),
            captures: None,
            checks: None,
            ordered: false,
            is_path: false,
            task,
            flow,
        }
    }

    fn emptied(mut self, addr: u64, task: Option<Task>, flow: Flow) -> Self {
        self.steps.clear();
        self.operands.clear();
        self.code.clear();
        self.values.clear();
        self.accesses.clear();
        self.scratch.clear();
        self.exits.clear();
        let Self { steps, operands, code, values, accesses, scratch, exits, .. } = self;
        Self { steps, operands, code, values, accesses, scratch, exits, ..Self::empty(addr, task, flow) }
    }

    /// Plans what follows from the instructions; there may be fewer of them then.
    fn complete(&mut self) {
        loop {
            if self.find_values() && (!self.records() || self.find_scratch()) {
                break;
            }
            let shorter = (self.steps.len() / 2).max(1);
            if shorter == self.steps.len() {
                self.make_special();
                break;
            }
            self.truncate(shorter);
        }
        self.find_dead_flags();
    }

    /// Whether an execution of it is written.
    pub(crate) fn records(&self) -> bool {
        let is_full = self.flow == Flow::Full && matches!(self.task, Some(Task::Addresses | Task::Data));
        !self.accesses.is_empty() || is_full && self.end != End::Special
    }

    /// The address after it.
    pub(crate) fn next(&self) -> u64 {
        self.steps.last().map_or(self.addr, |last| last.instruction.next())
    }

    /// Leaves the one instruction to the tracer.
    pub(crate) fn make_special(&mut self) {
        self.end = End::Special;
        self.exits.clear();
        self.values.clear();
        self.accesses.clear();
        if let Some(captures) = &mut self.captures {
            captures.clear();
        }
        if let Some(checks) = &mut self.checks {
            checks.clear();
        }
        self.ordered = false;
    }

    /// Words that an execution writes before its header.
    pub(crate) fn words(&self) -> usize {
        self.words_of_accesses() + if self.ordered { ORDER_WORDS } else { 0 }
    }

    /// Words that an execution writes before its orders, which come last.
    pub(crate) fn words_of_accesses(&self) -> usize {
        match &self.captures {
            Some(captures) => captures.iter().map(Capture::words).sum(),
            None => self.values.len(),
        }
    }

    /// Where the orders are written, if there are any.
    pub(crate) fn orders(&self) -> Option<capture::Orders> {
        let keep_flags = self.flags_dead & 1 == 0;
        self.ordered.then(|| capture::Orders { word: self.words_of_accesses(), keep_flags })
    }

    /// What the recorder has to know of the words of an execution.
    pub(crate) fn recorded(&self) -> RecordedValues {
        RecordedValues { count: self.words() as u8, ordered: self.ordered }
    }

    /// What is known of the block when its branch at that instruction is taken: values, and accesses.
    pub(crate) fn before(&self, exit: u16) -> (u8, &[BlockAccess]) {
        let values = self.values.iter().take_while(|value| value.at <= exit).count();
        let accesses = self.accesses.partition_point(|access| access.instruction <= exit);
        (values as u8, self.accesses.get(..accesses).unwrap_or(&[]))
    }

    /// Plans again, with fewer instructions.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.truncate(len);
        while !(self.find_values() && (!self.records() || self.find_scratch())) {
            let shorter = self.steps.len() / 2;
            if shorter == 0 {
                self.make_special();
                break;
            }
            self.truncate(shorter);
        }
        self.find_dead_flags();
    }
}

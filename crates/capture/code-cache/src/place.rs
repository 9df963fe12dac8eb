//! From an address in the cache back to the program: which instruction that is, and what of its block is done.

use alloc::boxed::Box;

/// Where the recording of a block stands at one of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The block is written and counts as executed.
    Done,
    /// Its values are being written behind the position; block, and number of values.
    Open(u32, u8),
    /// As before, and all of it is executed: the bytes that its last instruction stored are still to be written. Only a fault
    /// ends it here.
    Unread(u32, u8),
    /// It has no accesses, and its instructions are counted in the header before the position: how many so far.
    Counted(u16),
    /// It does not record, its instructions are counted apart: how many so far.
    Quiet(u16),
    /// It neither records nor counts.
    Uncounted,
    /// Its one instruction is executed by the tracer, which writes and counts.
    Trap,
}

/// What an address in the cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not in the cache.
    Outside,
    /// Between two instructions of the program there is more to do first.
    Between,
    /// In front of an instruction of the program (or behind the block's last one).
    At {
        /// That instruction's own address.
        addr: u64,
        /// Instructions of the block before it.
        executed: u16,
        /// Instructions of the block.
        instructions: u16,
        /// The register that is put aside in spill 0.
        borrowed: Option<u8>,
        /// Whether rax, rcx and rdx are in spills 1 to 3, as far as bits 0 to 2 say.
        aside: u8,
        /// What is written.
        record: Record,
        /// A repeated string instruction that may be half done: how many of the values are written in front of it. As
        /// many follow behind it.
        repeated: Option<u8>,
    },
}

/// A place in the cache that is in front of a copy of one of the program's instructions, or of a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The code of the block.
    pub block: u64,
    /// Which of its instructions comes next.
    pub step: u16,
    /// Nothing of the block is done, not even what records it.
    pub is_start: bool,
    /// Only the program's instruction is left to do; otherwise there is recording code in front of it.
    pub is_instruction: bool,
    /// The tracer executes it.
    pub is_trap: bool,
    /// The register that is put aside in spill 0.
    pub borrowed: Option<u8>,
}

/// One instruction of a block in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Its distance in the program from the block's address.
    pub(crate) offset: u16,
    /// The distance of its copy from the block's code.
    pub(crate) at: u16,
}

/// A block in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) addr: u64,
    pub(crate) code: u64,
    pub(crate) id: u32,
    pub(crate) values: u8,
    /// The distance in the program of what comes behind its last instruction, and of the end of them all.
    pub(crate) len: u16,
    pub(crate) covered: u16,
    pub(crate) steps: Box<[Step]>,
    /// From which instruction on, and up to which (not included), a register is borrowed; and which.
    pub(crate) borrowed: Box<[(u16, u16, u8)]>,
    /// Between which distances a register points into the buffer; and which.
    pub(crate) pointers: Box<[(u16, u16, u8)]>,
    /// Before which instruction the block is written.
    pub(crate) commit: u16,
    /// Before which instructions some are counted, and how many are from there on.
    pub(crate) counts: Box<[(u16, u16)]>,
    pub(crate) record: Kind,
    /// The distance of the code behind the last instruction, where a system call returns to.
    pub(crate) behind: u16,
    /// Distances at which the last instruction's own accesses are made by other instructions, and which registers are
    /// aside there.
    pub(crate) parts: [(u16, u8); 2],
    /// Whether it is a repeated string instruction, and the values written in front of it.
    pub(crate) repeated: Option<u8>,
    /// Distances at which recording code looks at the program's memory, and how many instructions are executed there.
    pub(crate) looks: Box<[(u16, u16)]>,
    /// Distances of the copies of instructions that are executed where they access watched bytes, and of traps in their
    /// place; and which instructions those are.
    pub(crate) copies: Box<[(u16, u16)]>,
    pub(crate) traps: Box<[(u16, u16)]>,
}

/// How a block is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Values,
    Counted,
    Quiet,
    Uncounted,
    /// By a trap: its handler does all.
    Trap,
}

impl Block {
    /// The register that is put aside in front of an instruction.
    fn borrowed(&self, step: u16) -> Option<u8> {
        self.borrowed.iter().find(|&&(from, until, _)| (from..until).contains(&step)).map(|own| own.2)
    }

    /// The register that points into the buffer at an address of the block, where recording code writes.
    pub(crate) fn pointer(&self, addr: u64) -> Option<u8> {
        let distance = u16::try_from(addr.wrapping_sub(self.code)).ok()?;
        self.pointers.iter().find(|&&(from, until, _)| (from..until).contains(&distance)).map(|own| own.2)
    }

    /// How many instructions are counted in front of one.
    fn counted(&self, step: usize) -> u16 {
        let counts = self.counts.iter().take_while(|&&(at, _)| usize::from(at) <= step);
        counts.last().map_or(0, |&(_, count)| count)
    }

    /// The instruction that a trap at an address of the block stands for: its own address, and where it stands natively
    /// in the cache.
    pub(crate) fn trapped(&self, addr: u64) -> Option<(u64, Option<u64>)> {
        if self.record == Kind::Trap {
            let native = self.parts[0].0;
            return Some((self.addr, (native != 0).then(|| self.code + u64::from(native))));
        }
        let &(_, index) = self.traps.iter().find(|trap| self.code + u64::from(trap.0) == addr)?;
        let step = self.steps.get(usize::from(index))?;
        Some((self.addr + u64::from(step.offset), Some(self.code + u64::from(step.at))))
    }

    pub(crate) fn front(&self, addr: u64) -> Option<Front> {
        let distance = u16::try_from(addr.wrapping_sub(self.code)).ok()?;
        let step = self.steps.iter().position(|step| step.at == distance);
        if step.is_none() && distance != 0 {
            return None;
        }
        let number = step.unwrap_or(0) as u16;
        Some(Front {
            block: self.code,
            step: number,
            is_start: distance == 0,
            is_instruction: step.is_some(),
            is_trap: self.record == Kind::Trap,
            borrowed: step.and_then(|_| self.borrowed(number)),
        })
    }

    /// The program's own address of an instruction; behind the last one where the block ends.
    fn native(&self, index: usize) -> u64 {
        self.addr + u64::from(self.steps.get(index).map_or(self.len, |step| step.offset))
    }

    pub(crate) fn place(&self, addr: u64) -> Place {
        let distance = addr.wrapping_sub(self.code);
        let Ok(distance) = u16::try_from(distance) else { return Place::Between };
        let at = |step: usize, aside: u8, executed: usize| {
            let done = step >= usize::from(self.commit);
            let record = match self.record {
                Kind::Values if done => Record::Done,
                Kind::Values => Record::Open(self.id, self.values),
                Kind::Counted => Record::Counted(self.counted(step)),
                Kind::Quiet => Record::Quiet(self.counted(step)),
                Kind::Uncounted => Record::Uncounted,
                Kind::Trap => Record::Trap,
            };
            let borrowed = self.borrowed(step as u16);
            Place::At {
                addr: self.native(executed),
                executed: executed as u16,
                instructions: self.steps.len() as u16,
                borrowed,
                aside,
                record,
                repeated: self.repeated.filter(|_| executed == 0),
            }
        };
        if let Some(step) = self.steps.iter().position(|step| step.at == distance) {
            return at(step, 0, step);
        }
        if distance == 0 {
            // Nothing is done yet, not even the recording in front of the first instruction.
            let record = match self.record {
                Kind::Values => Record::Open(self.id, self.values),
                Kind::Counted => Record::Counted(0),
                Kind::Quiet => Record::Quiet(0),
                Kind::Uncounted => Record::Uncounted,
                Kind::Trap => Record::Trap,
            };
            return Place::At {
                addr: self.addr,
                executed: 0,
                instructions: self.steps.len() as u16,
                borrowed: None,
                aside: 0,
                record,
                repeated: None,
            };
        }
        if let Some(&(_, executed)) = self.looks.iter().find(|look| look.0 == distance) {
            return Place::At {
                addr: self.native(executed.into()),
                executed,
                instructions: self.steps.len() as u16,
                borrowed: self.borrowed.first().map(|own| own.2),
                aside: crate::data::ASIDE,
                record: if usize::from(executed) == self.steps.len() {
                    Record::Unread(self.id, self.values)
                } else {
                    Record::Open(self.id, self.values)
                },
                repeated: None,
            };
        }
        let last = self.steps.len().saturating_sub(1);
        if let Some(&(_, aside)) = self.parts.iter().find(|part| part.0 != 0 && part.0 == distance) {
            return at(last, aside, last);
        }
        if let Some(&(_, step)) = self.copies.iter().find(|copy| copy.0 == distance) {
            return at(step.into(), 0, step.into());
        }
        if self.behind != 0 && distance == self.behind {
            return at(self.steps.len(), 0, self.steps.len());
        }
        Place::Between
    }
}

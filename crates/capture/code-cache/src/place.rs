//! Maps an address in the cache back to the program: to its instruction, and to how much of the block is done.

use alloc::boxed::Box;

use crate::register::Gpr;
use crate::slot::aside;

/// Where the recording of a block stands at one of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The block is written and counts as executed.
    Done,
    /// Its values are being written after the position; block, and number of values.
    Open(u32, u8),
    /// As before, and all of it is executed: the bytes that its last instruction stored are still to be written. Only a fault
    /// ends it here.
    Unread(u32, u8),
    /// It has no accesses, and its instructions are counted in the last header: how many so far.
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
    /// Before an instruction of the program (or after the block's last one).
    At {
        /// That instruction's own address.
        addr: u64,
        /// Instructions of the block before it.
        executed: u16,
        /// Instructions of the block.
        instructions: u16,
        /// The scratch register whose own value is in spill 0.
        borrowed: Option<u8>,
        /// Which of rax, rcx and rdx are in spills 1 to 3, as far as bits 0 to 2 say.
        aside: u8,
        /// What is written.
        record: Record,
        /// A repeated string instruction that may be half done: how many of the values are written before it. As
        /// many follow after it.
        repeated: Option<u8>,
    },
}

/// A place in the cache that is just before a copy of one of the program's instructions, or of a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The code of the block.
    pub block: u64,
    /// Which of its instructions comes next.
    pub step: u16,
    /// Nothing of the block is done, not even what records it.
    pub is_start: bool,
    /// Only the program's instruction is left to do; otherwise there is recording code before it.
    pub is_instruction: bool,
    /// The tracer executes it.
    pub is_trap: bool,
    /// The scratch register whose own value is in spill 0.
    pub borrowed: Option<u8>,
}

/// One instruction of a block in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedStep {
    /// Its distance in the program from the block's address.
    pub(crate) offset: i64,
    /// The distance of its copy from the block's code.
    pub(crate) at: u16,
}

/// A stretch of instructions before which a register is the scratch register: it points into the buffer, and the program's
/// value of it is in spill 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchRange {
    pub(crate) from: u16,
    /// The first instruction that it is the program's before.
    pub(crate) until: u16,
    pub(crate) register: Gpr,
}

/// A stretch of a block's code in which a register points into the buffer, by its distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointerRange {
    pub(crate) from: u16,
    pub(crate) until: u16,
    pub(crate) register: Gpr,
}

/// Where instructions are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountAt {
    /// Before which instruction.
    pub(crate) instruction: u16,
    /// How many of the block are counted from there on.
    pub(crate) counted: u16,
}

/// A place in a block's code, and the instruction that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeWith {
    pub(crate) distance: u16,
    pub(crate) instruction: u16,
}

/// A place at which another instruction makes accesses of the block's last one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartAt {
    /// Its distance; zero: there is none.
    pub(crate) distance: u16,
    /// Registers that are spilled there, as in [`Place::At`].
    pub(crate) aside: u8,
}

impl PartAt {
    pub(crate) const NONE: Self = Self { distance: 0, aside: 0 };
}

/// A stretch of the program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What a block is where it is left early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShorterBlock {
    pub(crate) instructions: u16,
    pub(crate) values: u8,
}

/// A block in the cache.
#[derive(Clone, Debug)]
pub(crate) struct CachedBlock {
    pub(crate) addr: u64,
    pub(crate) code: u64,
    pub(crate) id: u32,
    pub(crate) values: u8,
    /// The address in the program of what comes after its last instruction.
    pub(crate) next: u64,
    /// The bytes of the program from its address on that it was made of.
    pub(crate) covered: u16,
    /// What a long path was made of instead.
    pub(crate) stretches: Box<[Stretch]>,
    /// The shorter blocks that it is where it is left early.
    pub(crate) exits: Box<[ShorterBlock]>,
    pub(crate) steps: Box<[CachedStep]>,
    pub(crate) scratch: Box<[ScratchRange]>,
    pub(crate) pointers: Box<[PointerRange]>,
    /// Before which instruction the block is written.
    pub(crate) commit: u16,
    pub(crate) counts: Box<[CountAt]>,
    pub(crate) recording: Recording,
    /// The distance of the code after the last instruction, where a system call returns to; zero: it is none.
    pub(crate) after: u16,
    pub(crate) parts: [PartAt; 2],
    /// The accesses of returns and calls in the middle of a long path, with [`aside::INDIRECT`].
    pub(crate) inner_parts: Box<[CodeWith]>,
    /// Whether it is a repeated string instruction, and the values written before it.
    pub(crate) repeated: Option<u8>,
    /// Where recording code looks at the program's memory, and how many instructions are executed there.
    pub(crate) looks: Box<[CodeWith]>,
    /// The copies of instructions that are executed where they access watched bytes, and traps in their place.
    pub(crate) copies: Box<[CodeWith]>,
    pub(crate) traps: Box<[CodeWith]>,
}

/// How a block is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Values,
    Counted,
    Quiet,
    Uncounted,
    /// By a trap: its handler does all.
    Trap,
}

impl CachedBlock {
    /// The scratch register before an instruction.
    fn scratch(&self, step: u16) -> Option<u8> {
        let own = self.scratch.iter().find(|own| (own.from..own.until).contains(&step))?;
        Some(own.register.number())
    }

    /// The register that points into the buffer at an address of the block, where recording code writes.
    pub(crate) fn pointer(&self, addr: u64) -> Option<u8> {
        let distance = u16::try_from(addr.wrapping_sub(self.code)).ok()?;
        let own = self.pointers.iter().find(|own| (own.from..own.until).contains(&distance))?;
        Some(own.register.number())
    }

    /// How many instructions are counted before one.
    fn counted(&self, step: usize) -> u16 {
        let counts = self.counts.iter().take_while(|count| usize::from(count.instruction) <= step);
        counts.last().map_or(0, |count| count.counted)
    }

    /// The instruction that a trap at an address of the block stands for: its own address, and where it stands natively
    /// in the cache.
    pub(crate) fn trapped(&self, addr: u64) -> Option<(u64, Option<u64>)> {
        if self.recording == Recording::Trap {
            let native = self.parts[0].distance;
            return Some((self.addr, (native != 0).then(|| self.code + u64::from(native))));
        }
        let trap = self.traps.iter().find(|trap| self.code + u64::from(trap.distance) == addr)?;
        let step = self.steps.get(usize::from(trap.instruction))?;
        Some((self.addr.wrapping_add_signed(step.offset), Some(self.code + u64::from(step.at))))
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
            is_trap: self.recording == Recording::Trap,
            borrowed: step.and_then(|_| self.scratch(number)),
        })
    }

    /// The program's own address of an instruction; after the last one where the block ends.
    fn native(&self, index: usize) -> u64 {
        self.steps.get(index).map_or(self.next, |step| self.addr.wrapping_add_signed(step.offset))
    }

    /// The addresses of the instructions that an execution of the whole block has, or of the shorter one of that number.
    pub(crate) fn executed(&self, exit: Option<usize>) -> impl Iterator<Item = u64> {
        let shorter = |exit: usize| self.exits.get(exit).map_or(0, |own| usize::from(own.instructions));
        let count = exit.map_or(self.steps.len(), shorter);
        self.steps.iter().take(count).map(|step| self.addr.wrapping_add_signed(step.offset))
    }

    /// Whether it was made of code in that range.
    pub(crate) fn is_of(&self, start: u64, end: u64) -> bool {
        let all = [Stretch { start: self.addr, end: self.addr + u64::from(self.covered) }];
        let own = if self.stretches.is_empty() { &all[..] } else { &self.stretches };
        own.iter().any(|own| own.start < end && own.end > start)
    }

    pub(crate) fn place(&self, addr: u64) -> Place {
        let distance = addr.wrapping_sub(self.code);
        let Ok(distance) = u16::try_from(distance) else { return Place::Between };
        let at = |step: usize, aside: u8, executed: usize| {
            let done = step >= usize::from(self.commit);
            let record = match self.recording {
                Recording::Values if done => Record::Done,
                Recording::Values => Record::Open(self.id, self.values),
                Recording::Counted => Record::Counted(self.counted(step)),
                Recording::Quiet => Record::Quiet(self.counted(step)),
                Recording::Uncounted => Record::Uncounted,
                Recording::Trap => Record::Trap,
            };
            let borrowed = self.scratch(step as u16);
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
            // Nothing is done yet, not even the recording before the first instruction.
            let record = match self.recording {
                Recording::Values => Record::Open(self.id, self.values),
                Recording::Counted => Record::Counted(0),
                Recording::Quiet => Record::Quiet(0),
                Recording::Uncounted => Record::Uncounted,
                Recording::Trap => Record::Trap,
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
        if let Some(&CodeWith { instruction: executed, .. }) =
            self.looks.iter().find(|look| look.distance == distance)
        {
            return Place::At {
                addr: self.native(executed.into()),
                executed,
                instructions: self.steps.len() as u16,
                borrowed: self.scratch.first().map(|own| own.register.number()),
                aside: aside::CAPTURE,
                record: if usize::from(executed) == self.steps.len() {
                    Record::Unread(self.id, self.values)
                } else {
                    Record::Open(self.id, self.values)
                },
                repeated: None,
            };
        }
        let last = self.steps.len().saturating_sub(1);
        if let Some(part) = self.parts.iter().find(|part| part.distance != 0 && part.distance == distance) {
            return at(last, part.aside, last);
        }
        if let Some(part) = self.inner_parts.iter().find(|part| part.distance == distance) {
            return at(part.instruction.into(), aside::INDIRECT, part.instruction.into());
        }
        if let Some(copy) = self.copies.iter().find(|copy| copy.distance == distance) {
            return at(copy.instruction.into(), 0, copy.instruction.into());
        }
        if self.after != 0 && distance == self.after {
            return at(self.steps.len(), 0, self.steps.len());
        }
        Place::Between
    }
}

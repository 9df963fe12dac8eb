//! A block before it is written: its instructions, what they access, and which registers must be kept for that.
//!
//! A block goes on behind a branch that is likely not to be taken (forwards; [`Plan::exits`]), and where a jump leads that
//! goes forwards: one header then serves several basic blocks. A loop, a block that ends with a branch or a jump to its own
//! start, is unrolled: the instructions come again behind the branch, as if it was taken, and what a register has moved on
//! since the first turn is no new value. Where such a branch goes the other way, what is executed counts as a shorter block
//! of its own.

use alloc::vec::Vec;
use blocks::{
    BlockAccess, Chosen, MAX_ACCESSES, MAX_INSTRUCTIONS, MAX_VALUES, Masked, NO_VALUE,
    RecordedValues as Recorded, Repeated,
};
use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use memref::AccessKind;

use crate::check::Check;
use crate::code::{RCX, RDI, RSI, RSP};
use crate::data::{self, Capture};
use crate::engine::{Flow, Task};
use crate::processor;

/// Arithmetic flags, as iced numbers them: what programs compute with.
const FLAGS: u32 = iced_x86::RflagsBits::OF
    | iced_x86::RflagsBits::SF
    | iced_x86::RflagsBits::ZF
    | iced_x86::RflagsBits::AF
    | iced_x86::RflagsBits::CF
    | iced_x86::RflagsBits::PF;
/// The registers that a repeated string instruction moves, in the order in which they are kept.
pub(crate) const REPEATED: [u8; 3] = [RSI, RDI, RCX];

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on at the next address.
    Fall,
    Jump(u64),
    Branch(u64),
    CountBranch(u64),
    Call(u64),
    JumpIndirect,
    CallIndirect,
    Return(u16),
    Syscall,
    /// Its one instruction is a repeated string instruction.
    Repeat,
    /// Its one instruction needs the tracer's help.
    Special,
}

/// An instruction of the block.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) instruction: Instruction,
    pub(crate) offset: u16,
    /// Where in its bytes the displacement is, if it is relative to rip.
    pub(crate) relative: Option<u8>,
    /// General registers that it names or uses.
    pub(crate) used: u16,
    /// Those of them that it sets as a whole, without reading them.
    pub(crate) set: u16,
}

/// A value to keep: a register, before the instruction of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) at: u16,
    /// A general register, or from [`FIRST_MASK`] on a mask register.
    pub(crate) register: u8,
}

/// Words of a locked instruction's orders.
const ORDER_WORDS: usize = 2;

/// The number of k0 among the registers whose values are kept.
pub(crate) const FIRST_MASK: u8 = 16;

/// A register that points into the buffer for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Borrowed {
    pub(crate) register: u8,
    /// The instruction in front of which it is put aside, and the last one in front of which it points there.
    pub(crate) from: u16,
    pub(crate) to: u16,
    /// The instruction that sets it anyway, behind the commit: it need not be loaded again.
    pub(crate) until: Option<u16>,
}

/// Branches behind which a block goes on.
pub(crate) const MAX_EXITS: usize = 7;
/// Of them, those that lead forwards and are all in one turn of a loop.
const FORWARD_EXITS: usize = 3;
/// Behind so many instructions it does not.
const LONG: usize = 32;
/// The longest instruction.
const MAX_INSTRUCTION_BYTES: usize = 15;
/// Turns of a loop in one block.
const TURNS: usize = 4;

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) addr: u64,
    pub(crate) steps: Vec<Planned>,
    pub(crate) values: Vec<Value>,
    pub(crate) accesses: Vec<BlockAccess>,
    pub(crate) end: End,
    /// Bytes of the program.
    pub(crate) len: u16,
    /// The instructions before which the flags are dead, a bit each.
    pub(crate) flags_dead: u64,
    /// Registers that point into the buffer, one after the other.
    pub(crate) borrowed: Vec<Borrowed>,
    /// Branches in the middle, by their instructions: the block ends there where one is taken.
    pub(crate) exits: Vec<u16>,
    /// Where the bytes of accesses are recorded, or an order: what is written of its only instruction that accesses memory.
    pub(crate) captures: Option<Vec<Capture>>,
    /// Where accesses are looked at: those of all instructions, in their order.
    pub(crate) checks: Option<Vec<Check>>,
    /// Whether that is a locked instruction, around which the session's orders are written. It is the block's only one.
    pub(crate) ordered: bool,
    task: Option<Task>,
    flow: Flow,
}

/// What is known of a register: a value that was kept plus a constant, or a constant alone.
#[derive(Clone, Copy, Debug)]
enum Known {
    Nothing,
    Value(u8, i64),
    Number(i64),
}

fn number(register: Register) -> Option<u8> {
    (register.is_gpr()).then(|| register.full_register().number() as u8)
}

fn bit(register: Register) -> u16 {
    number(register).map_or(0, |number| 1 << number)
}

impl Plan {
    /// Plans the block at `addr` from its bytes. `None` where not even one instruction can be decoded from them. `stops`
    /// says at which addresses other blocks must begin; at most `limit` instructions are taken.
    pub(crate) fn new(
        addr: u64,
        bytes: &[u8],
        limit: usize,
        (task, flow): (Option<Task>, Flow),
        stops: impl Fn(u64) -> bool,
    ) -> Option<Self> {
        let mut plan = Self {
            addr,
            steps: Vec::with_capacity(16),
            values: Vec::with_capacity(16),
            accesses: Vec::with_capacity(32),
            end: End::Fall,
            len: 0,
            flags_dead: 0,
            borrowed: Vec::new(),
            exits: Vec::new(),
            captures: (task == Some(Task::Data)).then(Vec::new),
            checks: matches!(task, Some(Task::Check(_))).then(Vec::new),
            ordered: false,
            task,
            flow,
        };
        plan.decode(bytes, limit.min(MAX_INSTRUCTIONS), stops)?;
        loop {
            if plan.find_values() && (!plan.records() || plan.find_borrowed()) {
                break;
            }
            let shorter = (plan.steps.len() / 2).max(1);
            if shorter == plan.steps.len() {
                plan.make_special();
                break;
            }
            plan.truncate(shorter);
        }
        plan.find_dead_flags();
        Some(plan)
    }

    /// Whether an execution of it is written.
    pub(crate) fn records(&self) -> bool {
        let is_full = self.flow == Flow::Full && matches!(self.task, Some(Task::Addresses | Task::Data));
        !self.accesses.is_empty() || is_full && self.end != End::Special
    }

    /// The address behind it.
    pub(crate) fn next(&self) -> u64 {
        self.addr.wrapping_add(u64::from(self.len))
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

    /// Words that an execution writes in front of its header.
    pub(crate) fn words(&self) -> usize {
        self.words_of_accesses() + if self.ordered { ORDER_WORDS } else { 0 }
    }

    /// As above, without the orders, which come last.
    pub(crate) fn words_of_accesses(&self) -> usize {
        match &self.captures {
            Some(captures) => captures.iter().map(Capture::words).sum(),
            None => self.values.len(),
        }
    }

    /// Where these are.
    pub(crate) fn orders(&self) -> Option<data::Orders> {
        let keep_flags = self.flags_dead & 1 == 0;
        self.ordered.then(|| data::Orders { word: self.words_of_accesses(), keep_flags })
    }

    /// What the recorder has to know of these words.
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded { count: self.words() as u8, ordered: self.ordered }
    }

    fn decode(&mut self, bytes: &[u8], limit: usize, stops: impl Fn(u64) -> bool) -> Option<()> {
        let mut decoder = Decoder::with_ip(64, bytes, self.addr, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        let mut offset = 0usize;
        let mut turns = None;
        while self.steps.len() < limit {
            let ip = self.addr.wrapping_add(offset as u64);
            if !self.steps.is_empty() && stops(ip) {
                break;
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                if self.steps.is_empty() && bytes.len() < 15 {
                    return None;
                }
                if self.steps.is_empty() {
                    self.push(&mut factory, &decoder, instruction, 0);
                    self.len = 1;
                    self.make_special();
                }
                break;
            }
            let ordered = matches!(self.task, Some(Task::Addresses | Task::Data)) && is_locked(&instruction);
            if ordered && !self.steps.is_empty() {
                break;
            }
            let end = match &self.captures {
                Some(_) if data::needs_help(&instruction) => Some(End::Special),
                _ => end_of(&instruction),
            };
            if matches!(end, Some(End::Special | End::Repeat)) && !self.steps.is_empty() {
                break;
            }
            self.push(&mut factory, &decoder, instruction, offset as u16);
            offset += instruction.len();
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
            decoder.set_position(offset).ok()?;
            decoder.set_ip(target);
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

    /// Whether that instruction is a jump behind which the block goes on: it does nothing there.
    pub(crate) fn is_followed(&self, index: usize) -> bool {
        let is_jump = |step: &Planned| step.instruction.flow_control() == FlowControl::UnconditionalBranch;
        index + 1 < self.steps.len() && self.steps.get(index).is_some_and(is_jump)
    }

    /// How many turns of the loop that was just decoded one block may have.
    fn turns(&self, limit: usize) -> usize {
        if self.task != Some(Task::Addresses) || self.flow == Flow::Full {
            return 1;
        }
        TURNS.min(limit / self.steps.len()).min((MAX_EXITS + 1) / (self.exits.len() + 1))
    }

    /// Where a branch in the middle leads if the block does not go on behind it.
    pub(crate) fn exit_target(&self, branch: &Instruction) -> u64 {
        if self.repeats(branch) { branch.next_ip() } else { branch.near_branch_target() }
    }

    /// Whether a branch in the middle is one of a loop: behind it comes what it leads to.
    pub(crate) fn repeats(&self, branch: &Instruction) -> bool {
        branch.near_branch_target() == self.addr
    }

    /// Bytes of the program that its instructions are in.
    pub(crate) fn covered(&self) -> u16 {
        let ends = self.steps.iter().map(|step| step.offset + step.instruction.len() as u16);
        ends.max().unwrap_or(self.len).max(self.len)
    }

    /// A branch or a jump that is the last instruction is the block's end.
    fn end_at_exit(&mut self) {
        let len = self.steps.len();
        self.exits.retain(|&exit| usize::from(exit) < len);
        if let (Some(last), Some(&exit)) = (self.steps.last(), self.exits.last())
            && usize::from(exit) + 1 == len
        {
            self.end = End::Branch(last.instruction.near_branch_target());
            self.exits.pop();
        } else if self.end == End::Fall
            && let Some(Some(End::Jump(target))) = self.steps.last().map(|last| end_of(&last.instruction))
        {
            self.end = End::Jump(target);
        }
    }

    /// The stretches between its branches: the first instruction of each, and the one behind its last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (u16, u16)> {
        let starts = core::iter::once(0).chain(self.exits.iter().map(|exit| exit + 1));
        let ends = self.exits.iter().map(|exit| exit + 1).chain([self.steps.len() as u16]);
        starts.zip(ends)
    }

    /// An instruction of a stretch before which the flags are dead.
    pub(crate) fn dead_in(&self, from: u16, until: u16) -> Option<u16> {
        (from..until).find(|&index| self.flags_dead >> index & 1 != 0)
    }

    /// What is known of the block when its branch at that instruction is taken: values, and accesses.
    pub(crate) fn before(&self, exit: u16) -> (u8, &[BlockAccess]) {
        let values = self.values.iter().take_while(|value| value.at <= exit).count();
        let accesses = self.accesses.partition_point(|access| access.instruction <= exit);
        (values as u8, self.accesses.get(..accesses).unwrap_or(&[]))
    }

    fn push(
        &mut self,
        factory: &mut InstructionInfoFactory,
        decoder: &Decoder<'_>,
        instruction: Instruction,
        offset: u16,
    ) {
        let relative = instruction
            .is_ip_rel_memory_operand()
            .then(|| decoder.get_constant_offsets(&instruction).displacement_offset() as u8);
        let (mut used, mut set, mut read) = (0, 0, 0);
        for register in factory.info(&instruction).used_registers() {
            let bit = bit(register.register());
            used |= bit;
            match register.access() {
                OpAccess::Write if register.register().size() >= 4 => set |= bit,
                _ => read |= bit,
            }
        }
        set &= !read;
        // What may leave the target as it was: a source of zero, a selector of nothing, no shadow stack.
        use Mnemonic::{Bsf, Bsr, Lar, Lsl, Rdsspd, Rdsspq};
        if matches!(instruction.mnemonic(), Bsf | Bsr | Lar | Lsl | Rdsspd | Rdsspq) {
            set = 0;
        }
        self.steps.push(Planned { instruction, offset, relative, used, set });
    }

    /// Makes the block end in front of that instruction.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.steps.len()
            && let Some(last) = len.checked_sub(1).and_then(|last| self.steps.get(last))
        {
            self.len = last.offset + last.instruction.len() as u16;
            self.end = End::Fall;
            self.steps.truncate(len);
            self.end_at_exit();
        }
    }

    /// Plans again, with fewer instructions.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.truncate(len);
        while !(self.find_values() && (!self.records() || self.find_borrowed())) {
            let shorter = self.steps.len() / 2;
            if shorter == 0 {
                self.make_special();
                break;
            }
            self.truncate(shorter);
        }
        self.find_dead_flags();
    }

    /// Finds the accesses and the values from which their addresses follow. `false` where they are too many.
    fn find_values(&mut self) -> bool {
        self.values.clear();
        self.accesses.clear();
        match self.end {
            End::Special => return true,
            _ if self.captures.is_some() => return self.find_captures(),
            _ if self.checks.is_some() => {
                self.find_checks();
                return true;
            }
            End::Repeat => return self.find_repeated(),
            _ => {}
        }
        let mut factory = InstructionInfoFactory::new();
        let mut known = [Known::Nothing; 16];
        for index in 0..self.steps.len() {
            let Some(step) = self.steps.get(index) else { break };
            let (instruction, offset) = (step.instruction, step.offset);
            let info = factory.info(&instruction);
            if !has_no_access(&instruction) {
                for memory in info.used_memory().iter().chain(&x86::prefetched(&instruction)) {
                    let Some(kind) = x86::kind_of(memory.access()) else { continue };
                    if self.values.len() + 3 > MAX_VALUES || self.accesses.len() >= MAX_ACCESSES {
                        return false;
                    }
                    let access = self.access(index as u16, offset, &instruction, memory, kind, &mut known);
                    self.accesses.push(access);
                }
                self.order(index as u16);
            }
            update(&mut known, &instruction, info);
        }
        true
    }

    /// Ends the block behind the first instruction that accesses memory, and finds what is to be written of that.
    fn find_captures(&mut self) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let accesses = |step: &Planned, factory: &mut InstructionInfoFactory| {
            let used = factory.info(&step.instruction).used_memory();
            !has_no_access(&step.instruction)
                && (used.iter().any(|memory| x86::kind_of(memory.access()).is_some())
                    || x86::prefetched(&step.instruction).is_some())
        };
        let Some(index) = self.steps.iter().position(|step| accesses(step, &mut factory)) else {
            // There are no bytes to record.
            self.captures = None;
            return true;
        };
        self.truncate(index + 1);
        let next = self.next();
        let Some(step) = self.steps.get(index) else { return false };
        let instruction = step.instruction;
        let mut captures = Vec::with_capacity(2);
        for memory in factory.info(&instruction).used_memory().iter().chain(&x86::prefetched(&instruction)) {
            let Some(kind) = x86::kind_of(memory.access()) else { continue };
            let pushed = (kind == AccessKind::Store && matches!(self.end, End::Call(_) | End::CallIndirect))
                .then_some(next);
            let mut capture = Capture::new(memory, kind, size_of(&instruction, memory), pushed);
            if self.task != Some(Task::Data) {
                capture.leave_bytes();
            }
            captures.push(capture);
        }
        captures.sort_by_key(|capture| capture.kind == AccessKind::Store);
        let mut word = 0;
        for capture in &mut captures {
            capture.word = word as u8;
            word += capture.words();
            self.accesses.push(capture.access(index as u16, step.offset));
        }
        // What is written behind the instruction comes last, and no place in the buffer is left out before it.
        let behind = captures.iter().position(Capture::is_behind);
        let orders = if self.ordered { ORDER_WORDS } else { 0 };
        let fits = word + orders <= MAX_VALUES && behind.is_none_or(|behind| behind + 1 == captures.len());
        self.captures = Some(captures);
        fits || index == 0 && {
            self.make_special();
            true
        }
    }

    /// Finds the accesses that are looked at.
    fn find_checks(&mut self) {
        let mut factory = InstructionInfoFactory::new();
        let mut checks = Vec::with_capacity(16);
        for (index, step) in self.steps.iter().enumerate() {
            let instruction = step.instruction;
            if has_no_access(&instruction) {
                continue;
            }
            let repeated = self.end == End::Repeat;
            for memory in factory.info(&instruction).used_memory() {
                let Some(kind) = x86::kind_of(memory.access()) else { continue };
                let place = Capture::new(memory, kind, size_of(&instruction, memory), None);
                let masked = instruction.op_mask() != Register::None;
                let repeated = repeated && matches!(place.base(), Some(RSI | RDI));
                checks.push(Check { instruction: index as u16, place, repeated, masked });
            }
        }
        self.checks = Some(checks);
    }

    /// An instruction stores behind what it loads.
    fn order(&mut self, instruction: u16) {
        let first = self.accesses.iter().position(|access| access.instruction == instruction);
        let Some(own) = first.and_then(|first| self.accesses.get_mut(first..)) else { return };
        own.sort_by_key(|access| access.kind == AccessKind::Store);
    }

    fn access(
        &mut self,
        index: u16,
        offset: u16,
        instruction: &Instruction,
        memory: &UsedMemory,
        kind: AccessKind,
        known: &mut [Known; 16],
    ) -> BlockAccess {
        let mut displacement = memory.displacement() as i64;
        let mut keep = |register: Register, scale: i64| -> u8 {
            let Some(number) = number(register) else { return NO_VALUE };
            let Some(place) = known.get_mut(usize::from(number)) else { return NO_VALUE };
            match *place {
                Known::Value(value, delta) => {
                    displacement = displacement.wrapping_add(delta.wrapping_mul(scale));
                    value
                }
                Known::Number(number) => {
                    displacement = displacement.wrapping_add(number.wrapping_mul(scale));
                    NO_VALUE
                }
                Known::Nothing => {
                    let value = self.values.len() as u8;
                    self.values.push(Value { at: index, register: number });
                    *place = Known::Value(value, 0);
                    value
                }
            }
        };
        let scale = memory.scale().max(1) as u8;
        let base = keep(memory.base(), 1);
        let value = keep(memory.index(), i64::from(scale));
        let short = memory.base().is_gpr32() || memory.index().is_gpr32();
        let mask = instruction.op_mask();
        let masked = (mask != Register::None).then(|| {
            let kept = self.values.len() as u8;
            self.values.push(Value { at: index, register: FIRST_MASK + mask.number() as u8 });
            let chosen = if instruction.is_broadcast() {
                Chosen::Any
            } else if x86::is_packed(instruction.mnemonic()) {
                Chosen::Packed
            } else {
                Chosen::Each
            };
            Masked { value: kept, bytes: instruction.memory_size().element_size() as u8, chosen }
        });
        BlockAccess {
            instruction: index,
            offset,
            size: size_of(instruction, memory),
            kind,
            base,
            index: value,
            scale,
            fs: memory.segment() == Register::FS,
            short,
            repeated: None,
            masked,
            data: 0,
            displacement,
        }
    }

    /// A repeated string instruction keeps its three registers before and after.
    fn find_repeated(&mut self) -> bool {
        let Some(step) = self.steps.first() else { return false };
        let mut factory = InstructionInfoFactory::new();
        let instruction = step.instruction;
        for memory in factory.info(&instruction).used_memory() {
            let Some(kind) = x86::kind_of(memory.access()) else { continue };
            let base = match number(memory.base()) {
                Some(RSI) => 0,
                Some(RDI) => 1,
                _ => return false,
            };
            self.accesses.push(BlockAccess {
                size: size_of(&instruction, memory),
                kind,
                base,
                index: 2,
                repeated: Some(Repeated { count_after: 5, place_after: base + 3 }),
                fs: memory.segment() == Register::FS,
                ..BlockAccess::NONE
            });
        }
        self.order(0);
        for at in [0, 1] {
            for register in REPEATED {
                self.values.push(Value { at, register });
            }
        }
        true
    }

    /// The instruction in front of which the header is written: behind the last value, and not before the first access.
    pub(crate) fn commit(&self) -> u16 {
        let first = self.accesses.first().map_or(0, |access| access.instruction);
        self.values.last().map_or(first, |value| value.at)
    }

    /// Finds registers that nobody needs while they point into the buffer. `false` where there are none: only a block that records
    /// bytes has but one stretch, and can't take another register for the next.
    fn find_borrowed(&mut self) -> bool {
        self.borrowed.clear();
        if self.captures.is_some() {
            let last = self.steps.len().saturating_sub(1) as u16;
            let used = self.steps.last().map_or(0, |step| step.used);
            let free = !(used | data::BUSY);
            let register = free.trailing_zeros() as u8;
            self.borrowed.push(Borrowed { register, from: last, to: last, until: None });
            return free != 0;
        }
        let mut from = self.values.first().map_or(self.commit(), |value| value.at);
        let (mut to, mut busy) = (from, 1u16 << RSP);
        for group in self.values.chunk_by(|one, other| one.at == other.at) {
            let Some(at) = group.first().map(|value| value.at) else { continue };
            let general = group.iter().filter(|value| value.register < FIRST_MASK);
            let own = general.fold(1 << RSP, |own, value| own | 1 << value.register);
            let between = self.steps.get(usize::from(to)..usize::from(at)).unwrap_or(&[]);
            let further = between.iter().fold(busy | own, |used, step| used | step.used);
            if further == u16::MAX {
                let register = (!busy).trailing_zeros() as u8;
                self.borrowed.push(Borrowed { register, from, to, until: None });
                (from, busy) = (at, own);
            } else {
                busy = further;
            }
            to = at;
        }
        // One that is set before it is used need not be loaded again.
        let mut seen = busy;
        let behind =
            if self.end == End::Repeat { &[] } else { self.steps.get(usize::from(to)..).unwrap_or(&[]) };
        for (index, step) in behind.iter().enumerate() {
            let index = to + index as u16;
            // Where the block branches or leaves, the register must be whole.
            let is_last = usize::from(index) + 1 == self.steps.len() && self.end != End::Fall;
            if is_last || self.exits.contains(&index) {
                break;
            }
            let free = step.set & !seen;
            if free != 0 {
                let register = free.trailing_zeros() as u8;
                self.borrowed.push(Borrowed { register, from, to, until: Some(index) });
                return true;
            }
            seen |= step.used;
        }
        self.borrowed.push(Borrowed { register: (!busy).trailing_zeros() as u8, from, to, until: None });
        true
    }

    /// Finds the instructions before which no flag is needed any more.
    fn find_dead_flags(&mut self) {
        self.flags_dead = 0;
        let mut live = FLAGS;
        for (index, step) in self.steps.iter().enumerate().rev() {
            let instruction = &step.instruction;
            // A shift by a count that may be zero leaves the flags.
            let may_not = matches!(
                instruction.mnemonic(),
                Mnemonic::Shl
                    | Mnemonic::Shr
                    | Mnemonic::Sar
                    | Mnemonic::Rol
                    | Mnemonic::Ror
                    | Mnemonic::Rcl
                    | Mnemonic::Rcr
                    | Mnemonic::Shld
                    | Mnemonic::Shrd
            ) || instruction.is_string_instruction();
            if !may_not {
                live &= !instruction.rflags_modified();
            }
            live |= instruction.rflags_read() & FLAGS;
            if matches!(
                instruction.mnemonic(),
                Mnemonic::Syscall | Mnemonic::Pushfq | Mnemonic::Pushf | Mnemonic::Lahf
            ) || self.exits.contains(&(index as u16))
            {
                live = FLAGS;
            }
            if live & FLAGS == 0 {
                self.flags_dead |= 1 << index;
            }
        }
    }
}

/// Whether no other thread's access can come between those that the instruction makes.
fn is_locked(instruction: &Instruction) -> bool {
    has_memory(instruction) && (instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg)
}

/// Instructions that name memory and do not access it.
fn has_no_access(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop)
}

fn size_of(instruction: &Instruction, memory: &UsedMemory) -> u16 {
    if memory.access() == OpAccess::NoMemAccess {
        return 64;
    }
    // A repeated instruction accesses an unknown number of elements: the size is that of one.
    let size =
        if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
    // A broadcast reads one element.
    if instruction.is_broadcast() { size.element_size() as u16 } else { size.size() as u16 }
}

/// Where a block ends with this instruction, and how.
fn end_of(instruction: &Instruction) -> Option<End> {
    if needs_help(instruction) {
        return Some(End::Special);
    }
    if x86::repeats(instruction) && !matches!(instruction.mnemonic(), Mnemonic::Insb | Mnemonic::Outsb) {
        return Some(End::Repeat);
    }
    let near = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let target = instruction.near_branch_target();
    Some(match instruction.flow_control() {
        FlowControl::Next => return None,
        FlowControl::UnconditionalBranch if near => End::Jump(target),
        FlowControl::ConditionalBranch if near => match instruction.condition_code() {
            iced_x86::ConditionCode::None => End::CountBranch(target),
            _ => End::Branch(target),
        },
        FlowControl::Call if near => End::Call(target),
        FlowControl::Call if instruction.code() == Opcode::Syscall => End::Syscall,
        FlowControl::IndirectBranch if is_near(instruction) => End::JumpIndirect,
        FlowControl::IndirectCall if is_near(instruction) => End::CallIndirect,
        FlowControl::Return if instruction.code() == Opcode::Retnq => End::Return(0),
        FlowControl::Return if instruction.code() == Opcode::Retnq_imm16 => {
            End::Return(instruction.immediate16())
        }
        _ => End::Special,
    })
}

fn is_near(instruction: &Instruction) -> bool {
    match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().is_gpr64(),
        OpKind::Memory => instruction.memory_size().size() == 8,
        _ => false,
    }
}

/// Whether the instruction's accesses do not follow from general registers, or it does what a copy may not.
fn needs_help(instruction: &Instruction) -> bool {
    let mnemonic = instruction.mnemonic();
    if instruction.is_vsib()
        || instruction.is_privileged()
        || instruction.segment_prefix() == Register::GS
        || instruction.op_mask() != Register::None && has_memory(instruction) && !processor::keeps_masks()
    {
        return true;
    }
    match mnemonic {
        Mnemonic::Maskmovq
        | Mnemonic::Maskmovdqu
        | Mnemonic::Vmaskmovdqu
        | Mnemonic::Vmaskmovps
        | Mnemonic::Vmaskmovpd
        | Mnemonic::Vpmaskmovd
        | Mnemonic::Vpmaskmovq
        | Mnemonic::Wrgsbase
        | Mnemonic::Rdgsbase
        | Mnemonic::Wrfsbase
        | Mnemonic::Sysenter
        | Mnemonic::Xbegin
        | Mnemonic::Enter
        | Mnemonic::Int3
        | Mnemonic::Int
        | Mnemonic::Int1
        | Mnemonic::Into
        | Mnemonic::Hlt
        | Mnemonic::Ud0
        | Mnemonic::Ud1
        | Mnemonic::Ud2 => return true,
        // The address follows from a part of a register, or from rsp after its change.
        Mnemonic::Xlatb => return true,
        Mnemonic::Pop if has_memory(instruction) && instruction.memory_base() == Register::RSP => {
            return true;
        }
        _ if instruction.is_string_instruction() && !is_wide(instruction) => return true,
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
            if has_memory(instruction) && instruction.op1_kind() == OpKind::Register =>
        {
            return true;
        }
        _ => {}
    }
    if !has_memory(instruction) || has_no_access(instruction) || x86::prefetched(instruction).is_some() {
        return false;
    }
    // Sizes that depend on the processor's state; addresses of 16 bits or of segments that are not flat.
    instruction.memory_size() == MemorySize::Unknown
        || instruction.memory_size().size() == 0
            && !instruction.is_string_instruction()
            && instruction.flow_control() == FlowControl::Next
        || instruction.is_save_restore_instruction() && instruction.memory_size().size() == 0
}

/// A string instruction with 64-bit addresses.
fn is_wide(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).all(|index| {
        !matches!(
            instruction.op_kind(index),
            OpKind::MemorySegESI
                | OpKind::MemorySegEDI
                | OpKind::MemoryESEDI
                | OpKind::MemorySegSI
                | OpKind::MemorySegDI
                | OpKind::MemoryESDI
        )
    })
}

pub(crate) fn has_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory)
}

/// What is known of the registers behind an instruction.
fn update(known: &mut [Known; 16], instruction: &Instruction, info: &InstructionInfo) {
    let get = |known: &[Known; 16], register: Register| {
        number(register).and_then(|number| known.get(usize::from(number)).copied()).unwrap_or(Known::Nothing)
    };
    let plus = |what: Known, delta: i64| match what {
        Known::Value(value, old) => Known::Value(value, old.wrapping_add(delta)),
        Known::Number(old) => Known::Number(old.wrapping_add(delta)),
        Known::Nothing => Known::Nothing,
    };
    let op0 = if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register {
        instruction.op0_register()
    } else {
        Register::None
    };
    let wide = op0.is_gpr64();
    let immediate = || match instruction.op1_kind() {
        OpKind::Immediate8to64 => Some(instruction.immediate8to64()),
        OpKind::Immediate32to64 => Some(instruction.immediate32to64()),
        _ => None,
    };
    // What the instruction computes where it is one of the few whose result is known.
    let mut result: Option<(Register, Known)> = match instruction.mnemonic() {
        Mnemonic::Add if wide => immediate().map(|number| (op0, plus(get(known, op0), number))),
        Mnemonic::Sub if wide => {
            immediate().map(|number| (op0, plus(get(known, op0), number.wrapping_neg())))
        }
        Mnemonic::Inc if wide => Some((op0, plus(get(known, op0), 1))),
        Mnemonic::Dec if wide => Some((op0, plus(get(known, op0), -1))),
        Mnemonic::Mov if wide && instruction.op1_kind() == OpKind::Register => {
            Some((op0, get(known, instruction.op1_register())))
        }
        Mnemonic::Mov if wide && instruction.op1_kind() == OpKind::Immediate64 => {
            Some((op0, Known::Number(instruction.immediate64() as i64)))
        }
        Mnemonic::Mov if wide && instruction.op1_kind() == OpKind::Immediate32to64 => {
            Some((op0, Known::Number(instruction.immediate32to64())))
        }
        Mnemonic::Mov if op0.is_gpr32() && instruction.op1_kind() == OpKind::Immediate32 => {
            Some((op0, Known::Number(i64::from(instruction.immediate32()))))
        }
        Mnemonic::Xor
            if op0.is_gpr()
                && op0.size() >= 4
                && instruction.op1_kind() == OpKind::Register
                && instruction.op1_register() == op0 =>
        {
            Some((op0, Known::Number(0)))
        }
        Mnemonic::Lea if wide && instruction.is_ip_rel_memory_operand() => {
            Some((op0, Known::Number(instruction.memory_displacement64() as i64)))
        }
        Mnemonic::Lea
            if wide
                && instruction.memory_index() == Register::None
                && instruction.memory_base().is_gpr64() =>
        {
            let delta = instruction.memory_displacement64() as i64;
            Some((op0, plus(get(known, instruction.memory_base()), delta)))
        }
        _ => None,
    };
    let stack = instruction.is_stack_instruction().then(|| {
        if instruction.mnemonic() == Mnemonic::Leave {
            plus(get(known, Register::RBP), 8)
        } else {
            plus(get(known, Register::RSP), i64::from(instruction.stack_pointer_increment()))
        }
    });
    for used in info.used_registers() {
        if matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess) {
            continue;
        }
        if let Some(place) = number(used.register()).and_then(|number| known.get_mut(usize::from(number))) {
            *place = Known::Nothing;
        }
    }
    if let Some(stack) = stack
        && let Some(place) = known.get_mut(usize::from(RSP))
        && op0 != Register::RSP
    {
        *place = stack;
    }
    if let Some((register, what)) = result.take()
        && let Some(place) = number(register).and_then(|number| known.get_mut(usize::from(number)))
    {
        *place = what;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const AT: u64 = 0x40_0000;

    fn plan(bytes: &[u8], task: Option<Task>) -> Plan {
        Plan::new(AT, bytes, MAX_INSTRUCTIONS, (task, Flow::Accesses), |_| false)
            .expect("they can be decoded")
    }

    /// test eax, eax; a branch; mov rax, [rsi]; ret
    fn branch(distance: i8) -> [u8; 8] {
        [0x85, 0xc0, 0x75, distance as u8, 0x48, 0x8b, 0x06, 0xc3]
    }

    #[test]
    fn a_block_goes_on_behind_branches_that_lead_forwards() {
        let forwards = plan(&branch(16), Some(Task::Addresses));
        assert_eq!((forwards.steps.len(), forwards.end), (4, End::Return(0)));
        assert_eq!(forwards.exits, [1]);
        assert_eq!(forwards.parts().collect::<Vec<_>>(), [(0, 2), (2, 4)]);
        let (values, accesses) = forwards.before(1);
        assert_eq!((values, accesses.len(), forwards.values.len()), (0, 0, 2));
        assert_eq!(forwards.commit(), 3, "the return's own value is the last one");
        // The flags that the branch's target may need.
        assert_eq!(forwards.dead_in(0, 2), Some(0));
        assert_eq!(forwards.dead_in(1, 2), None);

        let backwards = plan(&branch(-16), Some(Task::Addresses));
        assert_eq!((backwards.steps.len(), backwards.end), (2, End::Branch(AT + 4 - 16)));
        assert_eq!(plan(&branch(16), Some(Task::Data)).exits, [], "a block records the bytes of one access");
    }

    #[test]
    fn a_block_that_is_cut_behind_a_branch_ends_with_it() {
        let mut plan = plan(&branch(16), Some(Task::Addresses));
        plan.shorten(2);
        assert_eq!((plan.steps.len(), plan.end), (2, End::Branch(AT + 4 + 16)));
        assert_eq!(plan.exits, []);
    }

    #[test]
    fn a_block_has_so_many_branches() {
        let mut bytes: Vec<u8> = [0x74, 0x40].repeat(FORWARD_EXITS + 4);
        bytes.push(0xc3);
        let plan = plan(&bytes, None);
        assert_eq!((plan.exits.len(), plan.steps.len()), (FORWARD_EXITS, FORWARD_EXITS + 1));
    }

    /// mov rax, [rsi]; add rsi, 8; dec ecx; jnz the start; ret
    const LOOP: [u8; 12] = [0x48, 0x8b, 0x06, 0x48, 0x83, 0xc6, 8, 0xff, 0xc9, 0x75, 0xf5, 0xc3];

    #[test]
    fn a_loop_has_several_turns_in_a_block() {
        let plan = plan(&LOOP, Some(Task::Addresses));
        assert_eq!((plan.steps.len(), plan.end), (4 * TURNS, End::Branch(AT)));
        assert_eq!(plan.exits, [3, 7, 11]);
        assert_eq!(plan.next(), AT + 11);
        assert!(
            plan.exits
                .iter()
                .all(|&exit| { plan.exit_target(&plan.steps[usize::from(exit)].instruction) == AT + 11 })
        );
        // One value: the others follow.
        assert_eq!((plan.values.len(), plan.commit()), (1, 0));
        let displacements: Vec<i64> = plan.accesses.iter().map(|access| access.displacement).collect();
        assert_eq!(displacements, [0, 8, 16, 24]);
        assert!(plan.accesses.iter().all(|access| (access.base, access.offset) == (0, 0)));
        assert_eq!((plan.before(7).0, plan.before(7).1.len()), (1, 2));
        assert_eq!(self::plan(&LOOP, None).steps.len(), 4);
    }

    #[test]
    fn a_loop_that_is_cut_goes_on_where_it_was_cut() {
        for len in 1..4 * TURNS {
            let mut plan = plan(&LOOP, Some(Task::Addresses));
            plan.shorten(len);
            assert_eq!((plan.steps.len(), plan.covered()), (len, [3, 7, 9, 11][(len - 1).min(3)]));
            let (end, next) = match len % 4 {
                0 => (End::Branch(AT), 11),
                in_turn => (End::Fall, [3, 7, 9][in_turn - 1]),
            };
            assert_eq!((plan.end, plan.next()), (end, AT + next), "{len}");
            assert_eq!(plan.exits.len(), (len - 1) / 4);
        }
    }

    #[test]
    fn where_the_tracer_must_be_asked_a_loop_has_one_turn() {
        let plan =
            Plan::new(AT, &LOOP, MAX_INSTRUCTIONS, (Some(Task::Addresses), Flow::Accesses), |at| at == AT);
        let plan = plan.expect("it is code");
        assert_eq!((plan.steps.len(), plan.end, plan.next()), (4, End::Branch(AT), AT + 11));
        assert_eq!(plan.exits, []);
    }

    #[test]
    fn a_loop_with_branches_has_fewer_turns() {
        // jz behind it; jz behind it; jnz the start
        let plan = plan(&[0x74, 4, 0x74, 2, 0x75, 0xfa, 0xc3], Some(Task::Addresses));
        assert_eq!((plan.steps.len(), plan.exits.as_slice()), (6, &[0, 1, 2, 3, 4][..]));
        assert_eq!((plan.end, plan.next()), (End::Branch(AT), AT + 6));
    }

    #[test]
    fn a_block_goes_on_where_a_jump_leads() {
        // inc qword [rsi]; jmp over two bytes; ud2; inc qword [rsi + 8]; ret
        let code = [0x48, 0xff, 0x06, 0xeb, 2, 0x0f, 0x0b, 0x48, 0xff, 0x46, 8, 0xc3];
        let padded = [&code[..], &[0x90; 16]].concat();
        let mut followed = plan(&padded, Some(Task::Addresses));
        let offsets: Vec<u16> = followed.steps.iter().map(|step| step.offset).collect();
        assert_eq!((offsets.as_slice(), followed.end), (&[0, 3, 7, 11][..], End::Return(0)));
        let is_followed: Vec<bool> = (0..4).map(|index| followed.is_followed(index)).collect();
        assert_eq!(is_followed, [false, true, false, false]);
        assert_eq!((followed.values.len(), followed.next(), followed.covered()), (2, AT + 12, 12));
        followed.shorten(2);
        assert_eq!((followed.end, followed.is_followed(1)), (End::Jump(AT + 7), false));
        // What was not read, and what is behind.
        assert_eq!(plan(&code, Some(Task::Addresses)).end, End::Jump(AT + 7));
        assert_eq!(plan(&[0xeb, 0xf0, 0x90], Some(Task::Addresses)).end, End::Jump(AT - 14));
        let stopped = Plan::new(AT, &padded, MAX_INSTRUCTIONS, (None, Flow::Accesses), |at| at == AT + 7);
        let stopped = stopped.expect("it is code");
        assert_eq!((stopped.steps.len(), stopped.end), (2, End::Jump(AT + 7)));
    }

    #[test]
    fn where_all_blocks_are_written_each_is_a_basic_block() {
        let full = |bytes: &[u8], task| {
            Plan::new(AT, bytes, MAX_INSTRUCTIONS, (task, Flow::Full), |_| false).expect("it is code")
        };
        for task in [Task::Addresses, Task::Data] {
            let first = full(&branch(16), Some(task));
            assert_eq!((first.steps.len(), first.end), (2, End::Branch(AT + 4 + 16)), "{task:?}");
            assert!(first.records() && first.accesses.is_empty() && first.captures.is_none());
            assert_eq!((first.commit(), first.borrowed.len(), first.covered()), (0, 1, 4));
        }
        let turn = full(&LOOP, Some(Task::Addresses));
        assert_eq!((turn.steps.len(), turn.end, turn.exits.len()), (4, End::Branch(AT), 0));
        let padded = [&[0x48, 0xff, 0x06, 0xeb, 2, 0x0f, 0x0b, 0xc3][..], &[0x90; 16]].concat();
        assert_eq!(full(&padded, Some(Task::Addresses)).end, End::Jump(AT + 7));
        assert!(!full(&branch(16), None).records(), "what does not record is not written");
        assert!(
            !full(&[0x0f, 0x0b], Some(Task::Addresses)).records(),
            "the tracer writes of what it executes"
        );
    }

    #[test]
    fn what_may_leave_its_target_does_not_set_it() {
        let set = |bytes: &[u8]| plan(bytes, None).steps[0].set;
        assert_eq!(set(&[0x48, 0x8b, 0xc1]), 1, "mov rax, rcx");
        for may_not in [
            &[0xf3, 0x48, 0x0f, 0x1e, 0xc8][..], // rdsspq rax
            &[0xf3, 0x0f, 0x1e, 0xc8],           // rdsspd eax
            &[0x48, 0x0f, 0xbc, 0xc1],           // bsf rax, rcx
            &[0x48, 0x0f, 0xbd, 0xc1],           // bsr rax, rcx
            &[0x0f, 0x02, 0xc1],                 // lar eax, ecx
            &[0x0f, 0x03, 0xc1],                 // lsl eax, ecx
            &[0x48, 0x0f, 0x44, 0xc1],           // cmove rax, rcx
            &[0x0f, 0x44, 0xc1],                 // cmove eax, ecx
        ] {
            assert_eq!(set(may_not), 0, "{may_not:x?}");
        }
    }

    #[test]
    fn a_loop_that_ends_with_a_jump_has_several_turns() {
        // dec ecx; jz behind it; inc qword [rsi]; add rsi, 8; jmp the start; ret
        let code = [0xff, 0xc9, 0x74, 9, 0x48, 0xff, 0x06, 0x48, 0x83, 0xc6, 8, 0xeb, 0xf3, 0xc3];
        let padded = [&code[..], &[0x90; 16]].concat();
        let plan = plan(&padded, Some(Task::Addresses));
        assert_eq!((plan.steps.len(), plan.end), (5 * TURNS, End::Jump(AT)));
        assert_eq!(plan.exits, [1, 6, 11, 16]);
        let displacements: Vec<i64> = plan.accesses.iter().map(|access| access.displacement).collect();
        assert_eq!((plan.values.len(), displacements.as_slice()), (1, &[0, 8, 16, 24][..]));
        // Nothing leads out of it.
        let endless = [&[0x48, 0xff, 0x06, 0xeb, 0xfb][..], &[0x90; 16]].concat();
        assert_eq!(self::plan(&endless, Some(Task::Addresses)).steps.len(), 2);
    }

    /// inc qword [register], mov register, register, or a branch
    fn instruction() -> impl Strategy<Value = Vec<u8>> {
        let register = (0u8..16)
            .prop_filter("they have longer forms", |register| register & 7 != 4 && register & 7 != 5);
        prop_oneof![
            4 => register.prop_map(|register| vec![0x48 | register >> 3, 0xff, register & 7]),
            2 => (0u8..16, 0u8..16).prop_filter("rsp stays", |moved| moved.0 != 4)
                .prop_map(|(to, from)| vec![0x48 | from >> 3 << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | to & 7]),
            1 => Just(vec![0x74, 0x60]),
        ]
    }

    proptest! {
        #[test]
        fn borrowed_registers_are_nobodys(instructions in proptest::collection::vec(instruction(), 1..40)) {
            let mut bytes = instructions.concat();
            bytes.push(0xc3);
            let plan = plan(&bytes, Some(Task::Addresses));
            for borrowed in &plan.borrowed {
                let bit = 1u16 << borrowed.register;
                prop_assert!(borrowed.register != RSP);
                for step in &plan.steps[usize::from(borrowed.from)..usize::from(borrowed.to)] {
                    prop_assert_eq!(step.used & bit, 0, "an instruction needs it");
                }
                if let Some(until) = borrowed.until {
                    for (index, step) in plan.steps.iter().enumerate().take(usize::from(until)).skip(usize::from(borrowed.to)) {
                        prop_assert_eq!(step.used & bit, 0);
                        prop_assert!(!plan.exits.contains(&(index as u16)), "a branch leads away with it");
                    }
                    prop_assert!(plan.steps[usize::from(until)].set & bit != 0);
                }
            }
            for pair in plan.borrowed.windows(2) {
                prop_assert!(pair[0].to < pair[1].from && pair[0].until.is_none());
            }
            for value in &plan.values {
                let own = plan.borrowed.iter().filter(|own| (own.from..=own.to).contains(&value.at));
                let registers: Vec<u8> = own.map(|own| own.register).collect();
                prop_assert_eq!(registers.len(), 1, "one range holds it");
                prop_assert!(registers[0] != value.register);
            }
            if plan.records() {
                prop_assert_eq!(plan.borrowed.last().map(|own| own.to), Some(plan.commit()));
            }
            for &exit in &plan.exits {
                let (values, accesses) = plan.before(exit);
                prop_assert!(plan.values.iter().take(values.into()).all(|value| value.at <= exit));
                prop_assert!(accesses.iter().all(|access| access.base == NO_VALUE || access.base < values));
                prop_assert!(usize::from(exit) + 1 < plan.steps.len());
            }
        }
    }
}

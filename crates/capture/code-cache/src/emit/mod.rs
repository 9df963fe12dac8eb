//! Writes a planned block into the cache.
//!
//! A block that records saves the values of the registers from which the addresses of its accesses follow. Before an instruction
//! whose address needs a register that is not saved yet, the block stores that register after the buffer's position, leaving
//! room for the header. Before the last such instruction it writes the header and advances the position. Meanwhile a *scratch
//! register*, one that the program does not need there, points into the buffer; the program's value of it is in its *spill*. All
//! of this is moves and lea: the flags are never touched, except in blocks that only count, where they are dead.
//!
//! This is the block of `mov rcx, [rsi]`, `test eax, eax`, `jne`, `mov rax, [r8]`, `ret`, as it stands in
//! the cache. Lines that begin with a dot are the program's own instructions, or have the same effect; all
//! others are the tracer's. The tests read this listing and compare it with the emitted code, line by line.
//!
//! ```text
//!   nop (7)                             ; so that the next instruction ends at a multiple of 8
//! entry:                                ; indirect branches come here; all others to `code`
//!   mov rdx, gs:[spill_rdx]             ; the indirect branch look-up has used rdx
//! code:
//!   mov gs:[spill], rdx                 ; rdx becomes the scratch register: neither load needs it
//!   mov rdx, gs:[position]              ; from here on it points into the thread's buffer
//!   mov [rdx + 0x8], rsi                ; value 0, after the header: the first load's address follows from it
//! . mov rcx, [rsi]
//! . test eax, eax
//! . jne +0x88                           ; the side exit
//!   mov [rdx + 0x10], r8                ; value 1, for the second load
//! . mov rax, [r8]
//!   mov [rdx + 0x18], rsp               ; value 2: where the return loads from
//!   mov [rdx], 0x20                     ; the header: block 0x20 was executed, with the three values after it
//!   mov gs:[last], rdx                  ; where it is: blocks that only count add to it
//!   lea rdx, [rdx + 0x20]
//!   mov gs:[position], rdx              ; the commit: from here on the recorder sees the execution
//!   mov rdx, gs:[spill]
//!   mov gs:[spill_rcx], rcx             ; the return, an indirect branch: rcx and rdx are needed to look it up
//!   mov gs:[spill_rdx], rdx
//! . pop rcx                             ; native return addresses are on the stack
//!   movzx edx, cx
//!   movzx edx, word [rdx*2 + 0x7e481010] ; the number of the way for the address's low 16 bits (`lookup`)
//!   jmp [rdx*8 + 0x7e401010]
//! side_exit:                            ; +0x88: the branch was taken, so a shorter block was executed: block 0x21
//!   mov [rdx], 0x21                     ; its header, before the one value that it has
//!   mov gs:[last], rdx
//!   lea rdx, [rdx + 0x10]
//!   mov gs:[position], rdx
//!   mov rdx, gs:[spill]
//! . jmp +0xba                           ; a link: to its stub, or straight to the target's block once that exists
//!   nop (6)
//! exit_stub:                            ; +0xba, after what aligns its word
//!   jmp [+0xc0]                         ; through the word, which changes in one store
//!   dq +0xc8                            ; the way out at first, the target's block later
//!   mov gs:[spill_rax], rax             ; +0xc8: the context switch: out of the cache, to the tracer's gate
//!   mov eax, 0x7                        ; the reason: link 7 wants to go on
//!   jmp gs:[gate]
//! ```
//!
//! Blocks without accesses only count their instructions (`count`). Where the bytes of accesses are recorded, a block has one
//! access (`captured`). Where accesses are checked, nothing is recorded (`checked`). The end of a block is in `ends`, early
//! exits from it in `side_exits`, the ways to other blocks in `stubs`, and the look-up of indirect branches in `lookup`.

mod captured;
mod checked;
mod count;
mod ends;
mod lookup;
mod side_exits;
mod stubs;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use buffers::flow::{LAST_AT, POSITION_AT, TARGET_AT};
use x86::{Instruction, Transfer};

use self::stubs::leave;
use crate::assembler::Assembler;
use crate::check::{CheckSite, Exits};
use crate::exit_reason::{EXIT_STOP, EXIT_TRAP};
use crate::mode::Mode;
use crate::place::{
    CachedBlock, CachedStep, CodeWith, CountAt, PartAt, PointerRange, Recording, ScratchRange,
};
use crate::plan::{End, Plan, REPEATED, ScratchRegister};
use crate::register::{Gpr, KeptRegister};
use crate::slot::{SPILL_RAX, SPILL_RDX, SPILL_SCRATCH};

pub(crate) use self::lookup::{emit_probe, emit_way};
pub(crate) use self::stubs::Link;

/// Bytes before a block's code: where indirect branches enter it.
pub(crate) const ENTRY_BYTES: u64 = 9;

/// What was written.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) code: Assembler,
    pub(crate) block: CachedBlock,
    pub(crate) links: Vec<Link>,
    pub(crate) sites: Vec<CheckSite>,
}

/// An instruction can't stand at its place in the cache: what it refers to is too far away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooFar(pub(crate) usize);

/// What a block needs to know of its surroundings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    pub(crate) mode: Mode,
    pub(crate) id: u32,
    /// Where the code will stand.
    pub(crate) at: u64,
    /// The mode's ways to targets of indirect branches ([`crate::table::BranchTable::ways`]).
    pub(crate) ways: u64,
    /// Their numbers ([`crate::table::BranchTable::way_numbers`]).
    pub(crate) way_numbers: u64,
    /// The number that the next link will have.
    pub(crate) next_link: u32,
    /// A function of the tracer's own stands there.
    pub(crate) is_own: bool,
    /// The number that the next checked instruction will have.
    pub(crate) next_site: u32,
    /// The table of marks, where accesses are checked. Nothing is recorded then, not even how much is executed.
    pub(crate) marks: Option<u32>,
    /// Whether the processor rotates without touching flags (BMI2).
    pub(crate) rotates: bool,
}

/// Writes a block.
pub(crate) fn emit(plan: &Plan, around: &Around) -> Result<Emitted, TooFar> {
    let mut code = Assembler::new(around.at);
    code.align(8, ENTRY_BYTES);
    code.load_gs(Gpr::RDX, SPILL_RDX);
    let start = code.here();
    let recording = match (plan.end, around.mode) {
        (End::Special, _) => Recording::Trap,
        _ if around.marks.is_some() || around.mode == Mode::Quiet => Recording::Uncounted,
        (_, Mode::Record) if plan.records() => Recording::Values,
        (_, Mode::Record) => Recording::Counted,
        _ => Recording::Quiet,
    };
    let mut block = CachedBlock {
        addr: plan.addr,
        code: start,
        id: around.id,
        values: plan.words() as u8,
        next: plan.next(),
        covered: plan.covered(),
        stretches: plan.stretches().into_boxed_slice(),
        exits: Box::new([]),
        steps: Box::new([]),
        scratch: Box::new([]),
        pointers: Box::new([]),
        commit: 0,
        counts: Box::new([]),
        recording,
        after: 0,
        parts: [PartAt::NONE; 2],
        inner_parts: Box::new([]),
        repeated: None,
        looks: Box::new([]),
        copies: Box::new([]),
        traps: Box::new([]),
    };
    let mut emitter = BlockEmitter {
        plan,
        around,
        recording,
        code,
        start,
        block: &mut block,
        links: Vec::new(),
        pushed: Vec::new(),
        inner_parts: Vec::new(),
        taken: Vec::new(),
        pointers: Vec::new(),
        exits: Vec::new(),
        ends: Vec::new(),
    };
    let steps = emitter.steps()?;
    let sites = emitter.sites(&steps)?;
    let BlockEmitter { code, links, pointers, inner_parts, .. } = emitter;
    block.inner_parts = inner_parts.into_boxed_slice();
    block.pointers = pointers.into_boxed_slice();
    block.steps = steps.into_boxed_slice();
    Ok(Emitted { code, block, links, sites })
}

/// A native return address that a call pushes from memory.
struct PushedWord {
    address: u64,
    /// Where the push's distance is.
    distance: u64,
}

/// A side exit whose code is not written yet.
struct TakenBranch {
    /// Its number among the block's.
    exit: usize,
    /// Where the branch's distance is.
    distance: u64,
}

struct BlockEmitter<'a> {
    plan: &'a Plan,
    around: &'a Around,
    recording: Recording,
    code: Assembler,
    start: u64,
    block: &'a mut CachedBlock,
    links: Vec<Link>,
    pushed: Vec<PushedWord>,
    /// See [`CachedBlock::inner_parts`].
    inner_parts: Vec<CodeWith>,
    taken: Vec<TakenBranch>,
    /// See [`CachedBlock::pointers`].
    pointers: Vec<PointerRange>,
    /// Where checks leave the line, and the addresses after the instructions that were copied.
    exits: Exits,
    ends: Vec<u64>,
}

impl BlockEmitter<'_> {
    /// The distance of the next byte from the block's code.
    fn distance(&self) -> u16 {
        (self.code.here() - self.start) as u16
    }

    /// Writes the block, without what happens where checks leave the line.
    fn steps(&mut self) -> Result<Vec<CachedStep>, TooFar> {
        if self.recording == Recording::Trap {
            return self.trap();
        }
        let plan = self.plan;
        if let (Recording::Values, Some(captures)) = (self.recording, &plan.captures) {
            return self.capture(captures);
        }
        self.note_recording();
        let mut steps = Vec::with_capacity(plan.steps.len());
        let mut next_value = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            self.record(index as u16, &mut next_value);
            self.check(index as u16);
            steps.push(CachedStep { offset: step.offset, at: self.distance() });
            if index + 1 == plan.steps.len() && !matches!(plan.end, End::Fall | End::Repeat) {
                break;
            }
            match plan.exits.iter().position(|&exit| usize::from(exit) == index) {
                Some(exit) => self.exit(exit, index)?,
                // A place of its own: whoever steps through the cache counts it.
                None if plan.is_followed(index) => self.code.nop(),
                None if plan.is_followed_call(index) => self.push_return(step.instruction.next()),
                None => self.copy(index)?,
            }
            self.ends.push(self.code.here());
        }
        if plan.end == End::Repeat && self.recording == Recording::Values {
            self.block.repeated = Some(REPEATED.len() as u8);
            self.record(1, &mut next_value);
        }
        self.end()?;
        self.leave_early();
        self.stubs();
        Ok(steps)
    }

    /// A block whose one instruction the tracer executes, or before which it stands in for the program.
    fn trap(&mut self) -> Result<Vec<CachedStep>, TooFar> {
        let first = self.plan.steps.first();
        let steps = [CachedStep { offset: first.map_or(0, |step| step.offset), at: 0 }].into();
        self.code.store_gs(SPILL_RAX, Gpr::RAX);
        if self.around.is_own {
            self.code.number(Gpr::RAX, self.plan.addr);
            self.code.store_gs(TARGET_AT, Gpr::RAX);
            leave(&mut self.code, EXIT_STOP, false);
            return Ok(steps);
        }
        let trap = self.code.lea_near(Gpr::RAX);
        self.code.store_gs(TARGET_AT, Gpr::RAX);
        leave(&mut self.code, EXIT_TRAP, false);
        self.code.set_distance(trap, self.code.here());
        self.block.parts[1] = PartAt { distance: self.distance(), aside: 0 };
        self.code.trap();
        if first.is_some_and(|step| step.transfer == Transfer::Next) {
            // Where the tracer can't do the instruction itself, it goes on here.
            self.block.parts[0] = PartAt { distance: self.distance(), aside: 0 };
            self.copy(0)?;
            self.link_to(self.plan.next());
        }
        self.stubs();
        Ok(steps)
    }

    /// Notes in the block where its recording stands at each instruction.
    fn note_recording(&mut self) {
        let plan = self.plan;
        match self.recording {
            Recording::Values => {
                self.block.commit = plan.commit();
                let range = |own: &ScratchRegister| ScratchRange {
                    from: own.from,
                    until: own.until.map_or(own.to, |until| until + 1),
                    register: own.register,
                };
                self.block.scratch = plan.scratch.iter().map(range).collect();
            }
            Recording::Counted | Recording::Quiet => {
                let counts = plan.parts().map(|(from, until)| CountAt {
                    instruction: plan.dead_in(from, until).unwrap_or(from),
                    counted: until,
                });
                self.block.counts = counts.collect();
            }
            Recording::Uncounted | Recording::Trap => {}
        }
    }

    /// What is written before an instruction.
    fn record(&mut self, index: u16, next_value: &mut usize) {
        let plan = self.plan;
        match self.recording {
            Recording::Values => {}
            Recording::Counted | Recording::Quiet => {
                if let Some(number) = self.block.counts.iter().position(|count| count.instruction == index) {
                    let (from, until) = plan.parts().nth(number).unwrap_or_default();
                    self.count((until - from).into(), plan.flags_dead >> index & 1 != 0);
                }
                return;
            }
            Recording::Uncounted | Recording::Trap => return,
        }
        for scratch in plan.scratch.iter().filter(|own| (own.from..=own.to).contains(&index)) {
            let from = self.distance();
            let register = scratch.register;
            if index == scratch.from {
                self.code.store_gs(SPILL_SCRATCH, register);
                self.code.load_gs(register, POSITION_AT);
            }
            while let Some(value) = plan.values.get(*next_value).filter(|value| value.at == index) {
                let place = *next_value as i32 * 8 + 8;
                match value.register {
                    KeptRegister::General(kept) => self.code.store(register, place, kept),
                    KeptRegister::Mask(mask) => self.code.store_mask(register, place, mask),
                }
                *next_value += 1;
            }
            if index == scratch.to {
                if index == self.block.commit {
                    self.commit(*scratch);
                } else {
                    self.code.load_gs(register, SPILL_SCRATCH);
                }
            }
            if self.distance() > from {
                self.points(from, register);
            }
        }
    }

    /// Writes the header, moves the position past it, and loads the scratch register again.
    fn commit(&mut self, scratch: ScratchRegister) {
        let register = scratch.register;
        self.header(register, self.around.id, self.block.values);
        if scratch.until.is_none() {
            self.code.load_gs(register, SPILL_SCRATCH);
        }
    }

    /// Writes the header of a block whose values stand after it already, and moves the position past them.
    fn header(&mut self, register: Gpr, id: u32, values: u8) {
        self.code.store_number(register, 0, id);
        self.code.store_gs(LAST_AT, register);
        self.code.lea(register, register, i32::from(values) * 8 + 8);
        self.code.store_gs(POSITION_AT, register);
    }

    /// From that distance up to here the register points into the buffer.
    fn points(&mut self, from: u16, register: Gpr) {
        self.pointers.push(PointerRange { from, until: self.distance(), register });
    }

    /// Copies an instruction, with its relative displacement made for the new place.
    fn copy(&mut self, index: usize) -> Result<(), TooFar> {
        let Some(step) = self.plan.steps.get(index) else { return Ok(()) };
        let moved = step.instruction.moved(self.plan.bytes_of(index), self.code.here());
        self.code.put(&moved.ok_or(TooFar(index))?);
        Ok(())
    }

    /// An instruction of the program stands here, or something that is executed when so many are.
    fn here(&self, instruction: usize) -> CodeWith {
        CodeWith { distance: self.distance(), instruction: instruction as u16 }
    }
}

/// The four bits of a branch's condition, as in its opcode.
fn condition(instruction: &Instruction) -> u8 {
    match instruction.transfer() {
        Transfer::Branch(condition, _) => condition.bits(),
        _ => 0,
    }
}

//! Writing a planned block into the cache.
//!
//! In front of an instruction whose address needs registers that are not kept yet, these are stored behind the buffer's
//! position; in front of the last such instruction the header follows, and the position moves. A branch in the middle
//! leaves by code behind the block that writes the header of a shorter block instead. All of it by moves and lea: the
//! flags are never touched, except in blocks that only count, where they are dead.

use alloc::boxed::Box;
use alloc::vec::Vec;
use buffers::flow::{GATE_AT, ID_BITS, POSITION_AT, QUIET_AT, SPILLS_AT, TARGET_AT};
use x86::{Instruction, Transfer};

use crate::check::{self, Exits, Site};
use crate::code::{Code, RAX, RCX, RDX};
use crate::data::{self, Capture};
use crate::engine::{CHECK_DONE, EXIT_CHECK, EXIT_LINK, EXIT_MISS, EXIT_STOP, Mode};
use crate::place::{Block, Kind, Step};
use crate::plan::{Borrowed, End, FIRST_MASK, Plan};

const TRAP: u8 = 0xcc;
/// Bytes in front of a block's code: where indirect branches enter it.
pub(crate) const ENTRY_BYTES: u64 = 9;
/// Spill 0 holds the borrowed register, the next three rax, rcx and rdx.
pub(crate) const SPILL_BORROWED: u32 = SPILLS_AT;
pub(crate) const SPILL_RAX: u32 = SPILLS_AT + 8;
pub(crate) const SPILL_RCX: u32 = SPILLS_AT + 16;
pub(crate) const SPILL_RDX: u32 = SPILLS_AT + 24;
/// A second borrowed register of blocks that only count.
const SPILL_SECOND: u32 = SPILLS_AT + 32;
/// What checks of accesses need: room for an address, and the base of fs, which the tracer keeps there.
pub(crate) const SPILL_LINE: u32 = SPILLS_AT + 32;
pub(crate) const SPILL_FS: u32 = SPILLS_AT + 8 * FS_SPILL as u32;
/// The number of the spill that holds the base of fs, where accesses are checked.
pub const FS_SPILL: usize = 5;
/// What is put aside where an indirect branch is on its way: rcx and rdx.
const ASIDE: u8 = 6;

/// A jump that leads to code that may not exist yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) target: u64,
    pub(crate) mode: Mode,
    /// Address of the jump's distance.
    pub(crate) distance: u64,
    /// Address of the word that its stub jumps through.
    pub(crate) slot: u64,
    /// The stub, and its way out of the cache.
    pub(crate) stub: u64,
    pub(crate) way_out: u64,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) code: Code,
    pub(crate) block: Block,
    pub(crate) links: Vec<Link>,
    pub(crate) sites: Vec<Site>,
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
    /// The mode's ways to targets of indirect branches ([`crate::table::Table::ways`]).
    pub(crate) ways: u32,
    /// The number that the next link will have.
    pub(crate) next_link: u32,
    /// The number of the tracer's own function that stands there.
    pub(crate) stop: Option<u32>,
    /// The number that the next checked instruction will have.
    pub(crate) next_site: u32,
    /// The table of marks, where accesses are checked. Nothing is recorded then, not even how much is executed.
    pub(crate) marks: Option<u32>,
}

/// Writes a block.
pub(crate) fn emit(plan: &Plan, bytes: &[u8], around: &Around) -> Result<Emitted, TooFar> {
    let mut code = Code::new(around.at);
    while (code.here() + ENTRY_BYTES) & 7 != 0 {
        code.put(&[0x90]);
    }
    code.load_gs(RDX, SPILL_RDX);
    let start = code.here();
    let kind = match (plan.end, around.mode) {
        (End::Special, _) => Kind::Trap,
        _ if around.marks.is_some() || around.mode == Mode::Quiet => Kind::Uncounted,
        (_, Mode::Record) if plan.records() => Kind::Values,
        (_, Mode::Record) => Kind::Counted,
        _ => Kind::Quiet,
    };
    let mut block = Block {
        addr: plan.addr,
        code: start,
        id: around.id,
        values: plan.words() as u8,
        len: plan.len,
        covered: plan.covered(),
        steps: Box::new([]),
        borrowed: Box::new([]),
        pointers: Box::new([]),
        commit: 0,
        counts: Box::new([]),
        record: kind,
        behind: 0,
        parts: [(0, 0); 2],
        repeated: None,
        looks: Box::new([]),
        copies: Box::new([]),
        traps: Box::new([]),
    };
    let mut writer = Writer {
        plan,
        around,
        kind,
        code,
        start,
        block: &mut block,
        links: Vec::new(),
        pushed: None,
        taken: Vec::new(),
        pointers: Vec::new(),
        exits: Vec::new(),
        ends: Vec::new(),
    };
    let steps = writer.steps(bytes)?;
    let sites = writer.sites(&steps, bytes)?;
    let Writer { code, links, pointers, .. } = writer;
    block.pointers = pointers.into_boxed_slice();
    block.steps = steps.into_boxed_slice();
    Ok(Emitted { code, block, links, sites })
}

struct Writer<'a> {
    plan: &'a Plan,
    around: &'a Around,
    kind: Kind,
    code: Code,
    start: u64,
    block: &'a mut Block,
    links: Vec<Link>,
    /// The native address that a call pushes from memory, and the address of that push's distance.
    pushed: Option<(u64, u64)>,
    /// Branches in the middle: their numbers, and where their distances are.
    taken: Vec<(usize, u64)>,
    /// See [`Block::pointers`].
    pointers: Vec<(u16, u16, u8)>,
    /// Where checks leave the line, and the addresses behind the instructions that were copied.
    exits: Exits,
    ends: Vec<u64>,
}

impl Writer<'_> {
    fn distance(&self) -> u16 {
        (self.code.here() - self.start) as u16
    }

    fn steps(&mut self, bytes: &[u8]) -> Result<Vec<Step>, TooFar> {
        let plan = self.plan;
        let mut steps = Vec::with_capacity(plan.steps.len());
        if self.kind == Kind::Trap {
            let offset = plan.steps.first().map_or(0, |step| step.offset);
            steps.push(Step { offset, at: 0 });
            if let Some(stop) = self.around.stop {
                leave(&mut self.code, EXIT_STOP | stop, true);
                return Ok(steps);
            }
            self.code.put(&[TRAP]);
            if let Some(step) = plan.steps.first()
                && step.instruction.transfer() == Transfer::Next
            {
                // Where the tracer can't do the instruction itself, it goes on here.
                self.block.parts[0] = (self.distance(), 0);
                self.copy(0, bytes)?;
                self.link(&[0xe9], plan.next());
            }
            self.stubs();
            return Ok(steps);
        }
        if let (Kind::Values, Some(captures)) = (self.kind, &plan.captures) {
            return self.capture(captures, bytes);
        }
        match self.kind {
            Kind::Values => {
                self.block.commit = plan.commit();
                let range =
                    |own: &Borrowed| (own.from, own.until.map_or(own.to, |until| until + 1), own.register);
                self.block.borrowed = plan.borrowed.iter().map(range).collect();
            }
            Kind::Counted | Kind::Quiet => {
                let counts =
                    plan.parts().map(|(from, until)| (plan.dead_in(from, until).unwrap_or(from), until));
                self.block.counts = counts.collect();
            }
            _ => {}
        }
        let repeated = plan.end == End::Repeat;
        let mut next_value = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            self.record(index as u16, &mut next_value);
            self.check(index as u16);
            steps.push(Step { offset: step.offset, at: self.distance() });
            if index + 1 == plan.steps.len() && !matches!(plan.end, End::Fall | End::Repeat) {
                break;
            }
            match plan.exits.iter().position(|&exit| usize::from(exit) == index) {
                Some(exit) => self.branch(exit, &step.instruction),
                // A place of its own: whoever steps through the cache counts it.
                None if plan.is_followed(index) => self.code.put(&[0x90]),
                None => self.copy(index, bytes)?,
            }
            self.ends.push(self.code.here());
        }
        if repeated && self.kind == Kind::Values {
            self.block.repeated = Some(crate::plan::REPEATED.len() as u8);
            self.record(1, &mut next_value);
        }
        self.end(bytes)?;
        self.leave_early();
        self.stubs();
        Ok(steps)
    }

    /// A branch in the middle.
    fn branch(&mut self, exit: usize, instruction: &Instruction) {
        let other_way = u8::from(self.plan.repeats(instruction));
        let opcode = [0x0f, 0x80 | condition(instruction) ^ other_way];
        if self.kind != Kind::Values {
            self.link(&opcode, self.plan.exit_target(instruction));
            return;
        }
        self.code.put(&opcode);
        self.taken.push((exit, self.code.here()));
        self.code.put(&[0; 4]);
    }

    /// Where branches in the middle are taken: what is executed becomes a block of its own.
    fn leave_early(&mut self) {
        for (exit, distance) in core::mem::take(&mut self.taken) {
            self.code.set_distance(distance, self.code.here());
            let plan = self.plan;
            let Some(&index) = plan.exits.get(exit) else { continue };
            let Some(step) = plan.steps.get(usize::from(index)) else { continue };
            let (values, accesses) = plan.before(index);
            let id = self.around.id + 1 + exit as u32;
            if accesses.is_empty() {
                self.count(u32::from(index) + 1, false);
            } else {
                let borrowed =
                    self.block.borrowed.iter().find(|&&(from, until, _)| (from..until).contains(&index));
                let (register, points) = borrowed.map_or((RAX, false), |own| (own.2, true));
                let from = self.distance();
                if !points {
                    self.code.store_gs(SPILL_BORROWED, register);
                    self.code.load_gs(register, POSITION_AT);
                }
                if index >= self.block.commit {
                    self.code.store_number(register, -8, id);
                } else {
                    let header = i32::from(values) * 8;
                    self.code.store_number(register, header, id);
                    self.code.lea(register, register, header + 8);
                    self.code.store_gs(POSITION_AT, register);
                }
                self.code.load_gs(register, SPILL_BORROWED);
                self.pointers.push((from, self.distance(), register));
            }
            self.link(&[0xe9], plan.exit_target(&step.instruction));
        }
    }

    /// A block whose last instruction accesses memory, with the bytes of that.
    fn capture(&mut self, captures: &[Capture], bytes: &[u8]) -> Result<Vec<Step>, TooFar> {
        let plan = self.plan;
        let Some(&borrowed) = plan.borrowed.first() else { return Err(TooFar(0)) };
        let register = borrowed.register;
        let last = plan.steps.len() - 1;
        let mut steps = Vec::with_capacity(plan.steps.len());
        let mut looks = Vec::new();
        let start = self.start;
        for (index, step) in plan.steps.iter().enumerate().take(last) {
            steps.push(Step { offset: step.offset, at: self.distance() });
            self.copy(index, bytes)?;
        }
        let mut look =
            |code: &Code, executed: usize| looks.push(((code.here() - start) as u16, executed as u16));
        let orders = plan.orders();
        data::emit_before(captures, orders, &mut self.code, register, |code| look(code, last));
        let behind = captures.iter().find(|capture| capture.is_behind());
        let is_behind = behind.is_some() || orders.is_some();
        if !is_behind {
            self.commit(borrowed);
        }
        let offset = plan.steps.get(last).map_or(0, |step| step.offset);
        steps.push(Step { offset, at: self.distance() });
        // In front of the instruction the register points into the buffer, or no longer.
        let until = if is_behind { plan.steps.len() } else { last } as u16;
        self.block.borrowed = Box::new([(last as u16, until, register)]);
        self.block.commit = until;
        if plan.end == End::Fall {
            self.copy(last, bytes)?;
        }
        if let Some(orders) = orders {
            data::read_order(orders, &mut self.code, register);
        }
        if let Some(behind) = behind {
            data::emit_behind(behind, &mut self.code, register, |code| look(code, last + 1));
        }
        if is_behind {
            self.commit(borrowed);
        }
        self.pointers.push((0, self.distance(), register));
        self.block.looks = looks.into_boxed_slice();
        self.end(bytes)?;
        self.stubs();
        Ok(steps)
    }

    /// Writes the header, moves the position behind it, and loads the borrowed register again.
    fn commit(&mut self, borrowed: Borrowed) {
        let register = borrowed.register;
        let header = i32::from(self.block.values) * 8;
        self.code.store_number(register, header, self.around.id);
        self.code.lea(register, register, header + 8);
        self.code.store_gs(POSITION_AT, register);
        if borrowed.until.is_none() {
            self.code.load_gs(register, SPILL_BORROWED);
        }
    }

    /// What is written in front of an instruction.
    fn record(&mut self, index: u16, next_value: &mut usize) {
        let plan = self.plan;
        match self.kind {
            Kind::Values => {}
            Kind::Counted | Kind::Quiet => {
                if let Some(number) = self.block.counts.iter().position(|count| count.0 == index) {
                    let (from, until) = plan.parts().nth(number).unwrap_or_default();
                    self.count((until - from).into(), plan.flags_dead >> index & 1 != 0);
                }
                return;
            }
            Kind::Uncounted | Kind::Trap => return,
        }
        for borrowed in plan.borrowed.iter().filter(|own| (own.from..=own.to).contains(&index)) {
            let from = self.distance();
            let register = borrowed.register;
            if index == borrowed.from {
                self.code.store_gs(SPILL_BORROWED, register);
                self.code.load_gs(register, POSITION_AT);
            }
            while let Some(value) = plan.values.get(*next_value).filter(|value| value.at == index) {
                let place = *next_value as i32 * 8;
                match value.register.checked_sub(FIRST_MASK) {
                    None => self.code.store(register, place, value.register),
                    Some(mask) => self.code.store_mask(register, place, mask),
                }
                *next_value += 1;
            }
            if index == borrowed.to {
                if index == self.block.commit {
                    self.commit(*borrowed);
                } else {
                    self.code.load_gs(register, SPILL_BORROWED);
                }
            }
            if self.distance() > from {
                self.pointers.push((from, self.distance(), register));
            }
        }
    }

    /// Looks at the marks of what an instruction is about to access.
    fn check(&mut self, index: u16) {
        let (Some(checks), Some(marks)) = (&self.plan.checks, self.around.marks) else { return };
        let own = check::of(checks, index);
        let flags = self.plan.flags_dead >> index & 1 == 0;
        for (number, check) in own.iter().enumerate() {
            match number {
                0 => self.code.store_gs(SPILL_RCX, RCX),
                _ => self.code.load_gs(RCX, SPILL_RCX),
            }
            if check.is_wide() || !check.address(&mut self.code) {
                self.code.put(&[0xe9]);
                self.exits.push((index, self.code.here()));
                self.code.put(&[0; 4]);
                return;
            }
            let exit = check::emit_look(&mut self.code, marks, check.place.kind, flags);
            self.exits.push((index, exit));
        }
        if !own.is_empty() {
            self.code.load_gs(RCX, SPILL_RCX);
        }
    }

    /// Writes what happens where checks leave the line (see `check`).
    fn sites(&mut self, steps: &[Step], bytes: &[u8]) -> Result<Vec<Site>, TooFar> {
        let exits = core::mem::take(&mut self.exits);
        let (mut sites, mut copies, mut traps) = (Vec::new(), Vec::new(), Vec::new());
        for own in exits.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(index, _)) = own.first() else { continue };
            let here = self.code.here();
            for &(_, distance) in own {
                self.code.set_distance(distance, here);
            }
            self.code.load_gs(RCX, SPILL_RCX);
            let checks = check::of(self.plan.checks.as_deref().unwrap_or(&[]), index);
            let site = EXIT_CHECK | (self.around.next_site + sites.len() as u32);
            let is_masked = checks.iter().any(|check| check.masked);
            if !is_masked {
                leave(&mut self.code, site, true);
            }
            let hit = self.code.here();
            let end = self.ends.get(usize::from(index)).copied();
            match end.filter(|_| !is_masked && self.plan.end != End::Repeat) {
                Some(_) => {
                    copies.push((self.distance(), index));
                    self.copy(usize::from(index), bytes)?;
                    leave(&mut self.code, site | CHECK_DONE, true);
                }
                None => {
                    traps.push((self.distance(), index));
                    self.code.put(&[TRAP]);
                }
            }
            if is_masked {
                continue;
            }
            let step = steps.get(usize::from(index)).copied().unwrap_or(Step { offset: 0, at: 0 });
            sites.push(Site {
                addr: self.plan.addr + u64::from(step.offset),
                resume: self.start + u64::from(step.at),
                behind: end.unwrap_or(0),
                hit,
                checks: checks.into(),
            });
        }
        self.block.copies = copies.into_boxed_slice();
        self.block.traps = traps.into_boxed_slice();
        Ok(sites)
    }

    /// Counts instructions: in the header before the position, or apart. `dead`: the flags need not be kept.
    fn count(&mut self, instructions: u32, dead: bool) {
        // Two registers that the instruction behind this does not need to find changed: put aside and loaded again.
        let (first, second) = (RAX, RCX);
        let from = self.distance();
        match (self.kind, dead) {
            (Kind::Quiet, true) => self.code.add_gs(QUIET_AT, instructions),
            (Kind::Quiet, false) => {
                self.code.store_gs(SPILL_BORROWED, first);
                self.code.load_gs(first, QUIET_AT);
                self.code.lea(first, first, instructions as i32);
                self.code.store_gs(QUIET_AT, first);
                self.code.load_gs(first, SPILL_BORROWED);
            }
            (_, true) => {
                self.code.store_gs(SPILL_BORROWED, first);
                self.code.load_gs(first, POSITION_AT);
                self.code.add_number(first, -8, instructions << ID_BITS);
                self.code.load_gs(first, SPILL_BORROWED);
            }
            (_, false) => {
                self.code.store_gs(SPILL_BORROWED, first);
                self.code.store_gs(SPILL_SECOND, second);
                self.code.load_gs(first, POSITION_AT);
                self.code.load(second, first, -8);
                self.code.lea(second, second, (instructions << ID_BITS) as i32);
                self.code.store(first, -8, second);
                self.code.load_gs(second, SPILL_SECOND);
                self.code.load_gs(first, SPILL_BORROWED);
            }
        }
        // The tracer may have written behind the buffer's end.
        self.pointers.push((from, self.distance(), first));
    }

    /// Copies an instruction, with its relative displacement made for the new place.
    fn copy(&mut self, index: usize, bytes: &[u8]) -> Result<(), TooFar> {
        let Some(step) = self.plan.steps.get(index) else { return Ok(()) };
        let from = usize::from(step.offset);
        let own = bytes.get(from..from + step.instruction.len_bytes());
        let moved = own.and_then(|own| step.instruction.moved(own, self.code.here()));
        self.code.put(&moved.ok_or(TooFar(index))?);
        Ok(())
    }

    fn end(&mut self, bytes: &[u8]) -> Result<(), TooFar> {
        let plan = self.plan;
        let next = plan.next();
        let last = plan.steps.len().saturating_sub(1);
        match plan.end {
            End::Fall | End::Repeat => self.link(&[0xe9], next),
            End::Jump(target) => self.link(&[0xe9], target),
            End::Branch(target) => {
                let condition = plan.steps.last().map_or(0, |step| condition(&step.instruction));
                self.link(&[0x0f, 0x80 | condition], target);
                self.link(&[0xe9], next);
            }
            End::CountBranch(target) => {
                // Its distance has eight bits: it jumps over the jump to what follows.
                if let Some(step) = plan.steps.last() {
                    let from = usize::from(step.offset);
                    let own = bytes.get(from..from + step.instruction.len_bytes() - 1).unwrap_or(&[]);
                    self.code.put(own);
                }
                self.code.put(&[2, 0xeb, 9]);
                let before = self.code.here();
                self.link(&[0xe9], target);
                // Both jumps may be moved on by their alignment: fill up to what the short jump skips.
                let skipped = self.code.here() - before;
                debug_assert!(skipped <= 9);
                for _ in skipped..9 {
                    self.code.put(&[0x90]);
                }
                self.link(&[0xe9], next);
            }
            End::Call(target) => {
                self.push_return(next);
                self.link(&[0xe9], target);
            }
            End::JumpIndirect | End::CallIndirect | End::Return(_) => {
                self.code.store_gs(SPILL_RCX, RCX);
                self.code.store_gs(SPILL_RDX, RDX);
                self.block.parts[0] = (self.distance(), ASIDE);
                match plan.end {
                    End::Return(bytes) => {
                        self.code.put(&[0x59]);
                        if bytes > 0 {
                            self.code.lea(4, 4, i32::from(bytes));
                        }
                    }
                    _ => self.target().ok_or(TooFar(last))?,
                }
                if plan.end == End::CallIndirect {
                    self.block.parts[1] = (self.distance(), ASIDE);
                    self.push_return(next);
                }
                // movzx edx, cx; jmp [rdx * 8 + the ways]
                self.code.put(&[0x0f, 0xb7, 0xd1, 0xff, 0x24, 0xd5]);
                self.code.put(&self.around.ways.to_le_bytes());
            }
            End::Syscall => {
                self.code.put(&[0x0f, 0x05]);
                self.block.behind = self.distance();
                self.link(&[0xe9], next);
            }
            End::Special => {}
        }
        Ok(())
    }

    /// Pushes the native return address by one instruction: as a number, or from behind the block.
    fn push_return(&mut self, next: u64) {
        if let Ok(small) = i32::try_from(next as i64) {
            self.code.put(&[0x68]);
            self.code.put(&small.to_le_bytes());
            return;
        }
        self.code.put(&[0xff, 0x35]);
        self.pushed = Some((next, self.code.here()));
        self.code.put(&[0; 4]);
    }

    /// Moves what an indirect branch names into rcx.
    fn target(&mut self) -> Option<()> {
        let instruction = self.plan.steps.last()?.instruction;
        if instruction.target_register() != Some(RCX) {
            self.code.put(&instruction.target_loaded(RCX, self.code.here())?);
        }
        Some(())
    }

    /// A jump that leads to its stub until its target exists.
    fn link(&mut self, opcode: &[u8], target: u64) {
        let distance = self.code.jump(opcode, self.code.here());
        self.links.push(Link { target, mode: self.around.mode, distance, slot: 0, stub: 0, way_out: 0 });
    }

    /// What a call pushes, and the stubs of all links: a jump through a word, the word, and the way out that the word points to
    /// at first.
    fn stubs(&mut self) {
        if let Some((address, distance)) = self.pushed.take() {
            self.code.align(8);
            self.code.set_distance(distance, self.code.here());
            self.code.put(&address.to_le_bytes());
        }
        let mut links = core::mem::take(&mut self.links);
        for (index, link) in links.iter_mut().enumerate() {
            // jmp [rip + 2]: the word is aligned, so that it changes in one store.
            while !(self.code.here() + 6).is_multiple_of(8) {
                self.code.put(&[0x90]);
            }
            link.stub = self.code.here();
            self.code.put(&[0xff, 0x25, 0, 0, 0, 0]);
            link.slot = self.code.here();
            link.way_out = link.slot + 8;
            self.code.put(&link.way_out.to_le_bytes());
            leave(&mut self.code, EXIT_LINK | (self.around.next_link + index as u32), true);
            self.code.set_distance(link.distance, link.stub);
        }
        self.links = links;
    }
}

/// Leaves the cache by its gate, with a reason in rax, which is put aside before unless it is already.
fn leave(code: &mut Code, reason: u32, aside: bool) {
    if aside {
        code.store_gs(SPILL_RAX, RAX);
    }
    code.put(&[0xb8]);
    code.put(&reason.to_le_bytes());
    // jmp gs:[the gate]
    code.put(&[0x65, 0xff, 0x24, 0x25]);
    code.put(&GATE_AT.to_le_bytes());
}

/// rax = the pair's first word; rcx = zero if it matches.
fn match_pair(code: &mut Code, table: u32) {
    code.put(&[0x48, 0x8b, 0x04, 0xd5]);
    code.put(&table.to_le_bytes());
    code.put(&[0x48, 0x8d, 0x0c, 0x01]);
}

/// Loads rcx and rax again and goes to the pair's code, which loads rdx.
fn go(code: &mut Code, table: u32) {
    code.load_gs(RCX, SPILL_RCX);
    code.load_gs(RAX, SPILL_RAX);
    code.put(&[0xff, 0x24, 0xd5]);
    code.put(&(table + 8).to_le_bytes());
}

/// The way to one target of indirect branches, from the target that is in rcx: to the code if that is the one it is for, else
/// to the search, through the word `probe`. rcx and rdx are put aside.
pub(crate) fn emit_way(at: u64, target: u64, to: u64, probe: u32) -> Code {
    let mut code = Code::new(at);
    code.number(RDX, target.wrapping_neg());
    // lea rcx, [rcx + rdx]; jrcxz over the rest of the way to the search
    code.put(&[0x48, 0x8d, 0x0c, 0x11]);
    code.put(&[0xe3, 0]);
    let is_it = code.len();
    code.number(RDX, target);
    code.put(&[0x48, 0x8d, 0x0c, 0x11]);
    // jmp [probe]
    code.put(&[0xff, 0x24, 0x25]);
    code.put(&probe.to_le_bytes());
    code.patch_short(is_it, code.len());
    code.load_gs(RCX, SPILL_RCX);
    go_to(&mut code, to);
    code
}

fn go_to(code: &mut Code, to: u64) {
    code.put(&[0xe9]);
    let distance = to.wrapping_sub(code.here() + 4) as u32;
    code.put(&distance.to_le_bytes());
}

/// The search for a target whose way is another one's, or not there yet: through its places in the table, and out of the cache
/// at an empty one. rcx and rdx are put aside.
pub(crate) fn emit_probe(at: u64, table: u32, mode: Mode) -> Code {
    let mut code = Code::new(at);
    code.store_gs(SPILL_RAX, RAX);
    code.store_gs(TARGET_AT, RCX);
    // movzx edx, cx; add edx, edx by lea: two words a pair
    code.put(&[0x0f, 0xb7, 0xd1, 0x8d, 0x14, 0x12]);
    let again = code.here();
    match_pair(&mut code, table);
    code.put(&[0xe3, 0]);
    let hit = code.len();
    code.copy(RCX, RAX);
    code.put(&[0xe3, 0]);
    let miss = code.len();
    // lea edx, [rdx + 2]
    code.put(&[0x8d, 0x52, 0x02]);
    code.load_gs(RCX, TARGET_AT);
    go_to(&mut code, again);
    code.patch_short(hit, code.len());
    go(&mut code, table);
    code.patch_short(miss, code.len());
    leave(&mut code, EXIT_MISS | mode as u32, false);
    code
}

/// The four bits of a branch's condition, as in its opcode.
fn condition(instruction: &Instruction) -> u8 {
    match instruction.transfer() {
        Transfer::Branch(condition, _) => condition.bits(),
        _ => 0,
    }
}

//! Blocks that check before each access whether watched bytes are near (`marks`).
//!
//! The inline code checks the mark of the access's line, using rcx and leaving needed flags intact. After the block there is
//! out-of-line code for each instruction that accesses memory, for the case that a line is marked: it leaves the cache through
//! the gate, and the tracer looks at the bytes. If they are not watched, the instruction is executed in its place. If they are,
//! a copy of the instruction is executed, which then leaves the cache once more, so that the tracer can report what was written.
//! Where a copy can't be used (branches, repeated and masked instructions), a trap asks the tracer to execute the instruction.

use alloc::boxed::Box;
use alloc::vec::Vec;

use memref::{AccessKind, VirtAddr};

use crate::assembler::{Assembler, JumpWhen, LineBy};
use crate::capture::Capture;
use crate::marks::REACH;
use crate::register::Gpr;
use crate::slot::SPILL_FS;

/// The condition of jne, as in its opcode.
const NOT_EQUAL: u8 = 5;
/// Accesses that one checked instruction can have.
const MOST: usize = 4;

/// One access that is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// Which instruction of the block makes it.
    pub(crate) instruction: u16,
    /// Where it is.
    pub(crate) place: Capture,
    /// It is made as often as rcx says, once for each element.
    pub(crate) repeated: bool,
    /// A mask chooses its elements.
    pub(crate) masked: bool,
}

impl Check {
    /// Whether one look at a mark does not do.
    pub(crate) fn is_wide(&self) -> bool {
        self.repeated || u64::from(self.place.size()) > REACH
    }

    /// rcx = its address, where the registers are the program's. `false`: that takes more registers.
    pub(crate) fn address(&self, code: &mut Assembler) -> bool {
        let place = &self.place;
        if !place.is_in_fs() {
            place.address(code, Gpr::RCX);
            return true;
        }
        let Some(displacement) = place.distance_from_base().filter(|_| !place.uses(Gpr::RCX)) else {
            return false;
        };
        code.load_gs(Gpr::RCX, SPILL_FS);
        code.lea_any(Gpr::RCX, place.base(), Some(Gpr::RCX), 1, displacement, false);
        true
    }

    /// What the access can touch, with these registers.
    fn reach(&self, register: impl Fn(u8) -> u64, fs_base: u64, backwards: bool) -> CheckedAccess {
        let kind = self.place.kind;
        let addr = self.place.locate(&register, fs_base);
        let size = u64::from(self.place.size());
        if !self.repeated {
            return CheckedAccess { addr: VirtAddr(addr), len_bytes: size, kind };
        }
        let count = register(Gpr::RCX.number());
        let len = count.saturating_mul(size);
        let first = if backwards && count > 0 { addr.wrapping_sub(len - size) } else { addr };
        CheckedAccess { addr: VirtAddr(first), len_bytes: len, kind }
    }
}

/// Writes the look at the mark of the line that rcx points into; what follows is executed where it is not set. `line` says how the
/// line is taken, and so whether the flags must stay. Returns where the distance of the jump is that is taken where it is set.
pub(crate) fn emit_look(code: &mut Assembler, marks: u32, kind: AccessKind, line: LineBy) -> u64 {
    let (at, both) = match kind {
        AccessKind::Modify => (marks, true),
        kind => (marks + u32::from(kind.writes()), false),
    };
    code.line_of_rcx(line);
    if line == LineBy::Shift {
        code.compare_mark(at, both);
        return code.jump(JumpWhen::Condition(NOT_EQUAL));
    }
    code.load_mark(at, both);
    let not_set = code.jump_if_rcx_is_zero();
    let distance = code.jump(JumpWhen::Always);
    code.land(not_set);
    distance
}

/// An instruction of a block whose accesses are looked at.
#[derive(Clone, Debug)]
pub(crate) struct CheckSite {
    pub(crate) addr: u64,
    /// Where it stands in the cache, and what comes after it there.
    pub(crate) resume: u64,
    pub(crate) after: u64,
    /// Where it goes on if watched bytes are accessed.
    pub(crate) hit: u64,
    pub(crate) checks: Box<[Check]>,
}

/// What an access can touch; of a repeated instruction's all of its elements.
#[derive(Clone, Copy, Debug)]
pub struct CheckedAccess {
    /// The first byte.
    pub addr: VirtAddr,
    /// Bytes.
    pub len_bytes: u64,
    /// What is done.
    pub kind: AccessKind,
}

impl CheckedAccess {
    const NONE: Self = Self { addr: VirtAddr(0), len_bytes: 0, kind: AccessKind::Load };
}

/// An instruction before which the cache was left because of the lines that it accesses.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// Its own address.
    pub addr: u64,
    /// Where in the cache it goes on if nothing that it accesses is watched.
    pub resume: u64,
    /// Where it goes on if something is.
    pub hit: u64,
    accesses: [CheckedAccess; MOST],
    count: usize,
}

impl Checked {
    /// Its accesses.
    pub fn accesses(&self) -> &[CheckedAccess] {
        self.accesses.get(..self.count).unwrap_or(&[])
    }
}

impl CheckSite {
    /// With these registers; `backwards`: the direction flag is set.
    pub(crate) fn checked(
        &self,
        register: impl Fn(u8) -> u64 + Copy,
        fs_base: u64,
        backwards: bool,
    ) -> Checked {
        let mut checked = Checked {
            addr: self.addr,
            resume: self.resume,
            hit: self.hit,
            accesses: [CheckedAccess::NONE; MOST],
            count: 0,
        };
        for (check, place) in self.checks.iter().zip(&mut checked.accesses) {
            *place = check.reach(register, fs_base, backwards);
            checked.count += 1;
        }
        checked
    }
}

/// The checks of one instruction, from all of a block.
pub(crate) fn of(checks: &[Check], instruction: u16) -> &[Check] {
    let first = checks.partition_point(|check| check.instruction < instruction);
    let end = checks.partition_point(|check| check.instruction <= instruction);
    checks.get(first..end).unwrap_or(&[])
}

/// A jump that leads to code for hits that was not written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckExit {
    /// Which instruction of the block is checked.
    pub(crate) instruction: u16,
    /// Where the jump's distance is.
    pub(crate) distance: u64,
}

/// All of a block, in the order of their instructions.
pub(crate) type Exits = Vec<CheckExit>;

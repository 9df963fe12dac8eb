//! Blocks that look before each access whether watched bytes are near (`marks`).
//!
//! In line there is a look at the mark of the access's line, by way of rcx and without touching flags that are needed.
//! After the block, for each instruction that accesses memory, there is what happens where a line is marked: the cache is
//! left by its gate, and the tracer looks at the bytes. If they are not watched the instruction is executed in its place. If
//! they are, a copy of the instruction is, which leaves the cache after it once more, so that the tracer can tell what was
//! written; or, where that can't be done (branches, repeated and masked instructions), a trap asks the tracer to execute it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use memref::AccessKind;

use crate::code::{Code, RCX};
use crate::data::Capture;
use crate::emit::{SPILL_FS, SPILL_LINE};
use crate::marks::REACH;
use crate::processor;

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
    pub(crate) fn address(&self, code: &mut Code) -> bool {
        let place = &self.place;
        if !place.is_in_fs() {
            place.address(code, RCX);
            return true;
        }
        let Some(displacement) = place.distance_from_base().filter(|_| !place.uses(RCX)) else {
            return false;
        };
        code.load_gs(RCX, SPILL_FS);
        code.lea_any(RCX, place.base(), Some(RCX), 1, displacement, false);
        true
    }

    /// First byte and length in bytes of what the access can touch, with these registers.
    fn span(&self, register: impl Fn(u8) -> u64, fs_base: u64, backwards: bool) -> (u64, u64) {
        let addr = self.place.locate(&register, fs_base);
        let size = u64::from(self.place.size());
        if !self.repeated {
            return (addr, size);
        }
        let count = register(RCX);
        let len = count.saturating_mul(size);
        if backwards && count > 0 { (addr.wrapping_sub(len - size), len) } else { (addr, len) }
    }
}

/// Writes the look at the mark of the line that rcx points into; what follows is executed where it is not set. `flags`:
/// whether they must stay. Returns where the distance of the jump is that is taken where it is set.
pub(crate) fn emit_look(code: &mut Code, marks: u32, kind: AccessKind, flags: bool) -> u64 {
    let (at, both) = match kind {
        AccessKind::Modify => (marks, true),
        kind => (marks + u32::from(kind.writes()), false),
    };
    if flags && !processor::rotates() {
        // The middle of the address, by way of memory.
        code.store_gs(SPILL_LINE, RCX);
        code.load_gs_short(RCX, SPILL_LINE + 1);
    } else {
        // rorx rcx, rcx, 8, or shr rcx, 8; then mov ecx, ecx: bits 8 to 39.
        code.put(if flags { &[0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 8] } else { &[0x48, 0xc1, 0xe9, 8] });
        code.put(&[0x89, 0xc9]);
    }
    if flags {
        // movzx ecx, [rcx * 2 + marks]; jrcxz over the jump.
        code.put(&[0x0f, if both { 0xb7 } else { 0xb6 }, 0x0c, 0x4d]);
        code.put(&at.to_le_bytes());
        code.put(&[0xe3, 5, 0xe9]);
    } else {
        // cmp [rcx * 2 + marks], 0; jne.
        code.put(if both { &[0x66, 0x83] } else { &[0x80] });
        code.put(&[0x3c, 0x4d]);
        code.put(&at.to_le_bytes());
        code.put(&[0, 0x0f, 0x85]);
    }
    let distance = code.here();
    code.put(&[0; 4]);
    distance
}

/// An instruction of a block whose accesses are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) addr: u64,
    /// Where it stands in the cache, and what is after it there.
    pub(crate) resume: u64,
    pub(crate) behind: u64,
    /// Where it goes on if watched bytes are accessed.
    pub(crate) hit: u64,
    pub(crate) checks: Box<[Check]>,
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
    accesses: [(u64, u64, AccessKind); MOST],
    count: usize,
}

impl Checked {
    /// Its accesses: first byte, length in bytes, and what is done; of a repeated one all that it can touch.
    pub fn accesses(&self) -> &[(u64, u64, AccessKind)] {
        self.accesses.get(..self.count).unwrap_or(&[])
    }
}

impl Site {
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
            accesses: [(0, 0, AccessKind::Load); MOST],
            count: 0,
        };
        for (check, place) in self.checks.iter().zip(&mut checked.accesses) {
            let (addr, len) = check.span(register, fs_base, backwards);
            *place = (addr, len, check.place.kind);
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

/// Code for hits that was not written yet: the distances of jumps that lead there, by instruction.
pub(crate) type Exits = Vec<(u16, u64)>;

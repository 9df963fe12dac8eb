//! One access of an instruction as described by its encoding: an address computed from registers and numbers, a length, a kind.

use iced_x86::{OpAccess, Register, UsedMemory};
use memref::AccessKind;

use crate::instruction::kind_of;

/// What a prefetch names.
const LINE_BYTES: u16 = 64;

/// One access, before its address is computed. Registers are the processor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// The register that the address begins with.
    pub base: Option<u8>,
    /// The register that is added to it, multiplied by `scale`.
    pub index: Option<u8>,
    /// Whether only the lowest byte of the index counts (xlatb).
    pub is_index_byte: bool,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// What is added to both. Relative to rip, it is the address itself.
    pub displacement: i64,
    /// Whether the address is cut to 32 bits before the segment's base is added.
    pub is_short: bool,
    /// What is added to it at last.
    pub segment: SegmentBase,
    /// Bytes: of a repeated instruction those of one element, of a prefetch a line; zero where they are not known.
    pub len_bytes: u16,
    /// What is done to them.
    pub kind: AccessKind,
    /// Whether it depends on values that it is made at all.
    pub is_conditional: bool,
}

/// A segment's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentBase {
    /// Zero.
    Flat,
    /// That of fs.
    Fs,
    /// That of gs.
    Gs,
}

impl MemoryOperand {
    /// The address, with these registers and bases.
    pub fn address(&self, register: impl Fn(u8) -> u64, fs_base: u64, gs_base: u64) -> u64 {
        let value = |number: Option<u8>| number.map_or(0, &register);
        let index = value(self.index);
        let index = if self.is_index_byte { index & 0xff } else { index }.wrapping_mul(self.scale.into());
        let addr = value(self.base).wrapping_add(index).wrapping_add(self.displacement as u64);
        let addr = if self.is_short { addr & 0xffff_ffff } else { addr };
        match self.segment {
            SegmentBase::Flat => addr,
            SegmentBase::Fs => addr.wrapping_add(fs_base),
            SegmentBase::Gs => addr.wrapping_add(gs_base),
        }
    }

    pub(crate) fn of(instruction: &iced_x86::Instruction, memory: &UsedMemory) -> Option<Self> {
        let kind = kind_of(memory.access())?;
        let number = |register: Register| register.is_gpr().then(|| register.full_register().number() as u8);
        Some(Self {
            base: number(memory.base()),
            index: number(memory.index()),
            is_index_byte: memory.index().is_gpr8(),
            scale: memory.scale().max(1) as u8,
            displacement: memory.displacement() as i64,
            is_short: memory.base().is_gpr32() || memory.index().is_gpr32(),
            segment: match memory.segment() {
                Register::FS => SegmentBase::Fs,
                Register::GS => SegmentBase::Gs,
                _ => SegmentBase::Flat,
            },
            len_bytes: len_of(instruction, memory),
            kind,
            is_conditional: matches!(
                memory.access(),
                OpAccess::CondRead | OpAccess::CondWrite | OpAccess::ReadCondWrite
            ),
        })
    }
}

fn len_of(instruction: &iced_x86::Instruction, memory: &UsedMemory) -> u16 {
    if memory.access() == OpAccess::NoMemAccess {
        return LINE_BYTES;
    }
    // A repeated instruction accesses an unknown number of elements: the size is that of one.
    let size =
        if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
    // A broadcast reads one element.
    if instruction.is_broadcast() { size.element_size() as u16 } else { size.size() as u16 }
}

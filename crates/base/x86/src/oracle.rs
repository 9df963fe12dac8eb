//! What the instruction at a given state accesses, for comparison with what a recorder reports.
//!
//! The answer is based on the whole state of the processor before the instruction - registers, masks, vectors - and shares nothing with
//! code that was generated ahead of it. For a repeated string instruction it is one element: under the trap flag each element is a step.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use memref::AccessKind;

use crate::instruction::{kind_of, names_without_access, prefetched};
use crate::operand::Operand;
use crate::registers::Registers;
use crate::state_area;
use crate::vector::{Components, Elements, MAX_ELEMENTS};

/// What stepping over an instruction has to mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Nothing.
    Plain,
    /// A string instruction with a prefix that repeats it: an element at a time.
    Repeated,
    /// It stores the flags, and the trap flag with them.
    StoresFlags,
    /// It loads the flags.
    LoadsFlags,
    /// No trap comes after it.
    Hidden,
}

/// Says what instructions access.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    components: Components,
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}

impl Oracle {
    /// For this processor.
    pub fn new() -> Self {
        Self { components: Components::of_processor() }
    }

    /// Calls `each` with the accesses of the instruction at `regs.rip`, those that store last. `state` is the xsave area
    /// in the standard form, or null. `None` where there is no instruction, or its accesses depend on a state that is not
    /// there.
    ///
    /// # Safety
    /// The code at rip must be readable, and `state` valid or null.
    pub unsafe fn observe(
        &self,
        regs: &Registers,
        state: *const u8,
        fs_base: u64,
        mut each: impl FnMut(Operand),
    ) -> Option<StepKind> {
        // SAFETY: the caller's promise.
        let instruction = unsafe { crate::Instruction::at(regs.rip) }?;
        let step = step_of(&instruction);
        let instruction = instruction.inner;
        if names_without_access(&instruction) || step == StepKind::Repeated && count(&instruction, regs) == 0
        {
            return Some(step);
        }
        let mut factory = InstructionInfoFactory::new();
        let prefetched = prefetched(&instruction);
        let used = factory.info(&instruction).used_memory().iter().chain(&prefetched);
        for stores in [false, true] {
            for memory in used.clone() {
                let Some(kind) = kind_of(memory.access()) else { continue };
                if (kind == AccessKind::Store) != stores {
                    continue;
                }
                // SAFETY: the caller's promise.
                unsafe { self.accesses(&instruction, memory, kind, regs, state, fs_base, &mut each)? };
            }
        }
        Some(step)
    }

    #[allow(clippy::too_many_arguments)]
    unsafe fn accesses(
        &self,
        instruction: &Instruction,
        memory: &UsedMemory,
        kind: AccessKind,
        regs: &Registers,
        state: *const u8,
        fs_base: u64,
        each: &mut impl FnMut(Operand),
    ) -> Option<()> {
        let address = |element: usize| {
            memory.virtual_address(element, |register, element, bytes| match register {
                Register::FS => Some(fs_base),
                Register::GS | Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
                _ if register.is_vector_register() => {
                    // SAFETY: the caller vouches for the state.
                    Some(unsafe { self.components.element(state, register.number(), element, bytes) })
                }
                _ => general(regs, register),
            })
        };
        let Some(elements) = Elements::of(instruction) else {
            let moved = bit_address(instruction, regs);
            let addr = address(0)?.wrapping_add(moved);
            let len = state_area::bytes(instruction, regs).unwrap_or_else(|| len_of(instruction, memory));
            each(Operand { addr, len, kind });
            return Some(());
        };
        if state.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let enabled = unsafe { elements.enabled(self.components, state) };
        for element in (0..MAX_ELEMENTS).filter(|element| enabled >> element & 1 != 0) {
            let addr = if elements.is_gather() {
                address(element)?
            } else {
                address(0)?.wrapping_add(element as u64 * u64::from(elements.bytes))
            };
            each(Operand { addr, len: elements.bytes.into(), kind });
        }
        Some(())
    }
}

fn step_of(whole: &crate::Instruction) -> StepKind {
    let instruction = &whole.inner;
    match instruction.mnemonic() {
        _ if whole.is_repeated() => StepKind::Repeated,
        Mnemonic::Pushf | Mnemonic::Pushfq => StepKind::StoresFlags,
        Mnemonic::Popf | Mnemonic::Popfq | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => {
            StepKind::LoadsFlags
        }
        Mnemonic::Mov | Mnemonic::Pop
            if instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::SS =>
        {
            StepKind::Hidden
        }
        _ => StepKind::Plain,
    }
}

/// How often a repeated instruction is still to be executed.
fn count(instruction: &Instruction, regs: &Registers) -> u64 {
    let short = (0..instruction.op_count()).any(|index| {
        matches!(
            instruction.op_kind(index),
            OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI
        )
    });
    if short { regs.rcx & 0xffff_ffff } else { regs.rcx }
}

fn len_of(instruction: &Instruction, memory: &UsedMemory) -> u32 {
    const LINE_BYTES: u32 = 64;
    if memory.access() == OpAccess::NoMemAccess {
        return LINE_BYTES;
    }
    let size =
        if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
    let bytes = if instruction.is_broadcast() { size.element_size() } else { size.size() };
    bytes.max(1) as u32
}

/// A general register as an address takes it: of a part of it, that part.
fn general(regs: &Registers, register: Register) -> Option<u64> {
    if !register.is_gpr() {
        return None;
    }
    let whole = regs.get(register.full_register().number() as u8);
    Some(match register.size() {
        1 if matches!(register, Register::AH | Register::CH | Register::DH | Register::BH) => {
            whole >> 8 & 0xff
        }
        1 => whole & 0xff,
        2 => whole & 0xffff,
        4 => whole & 0xffff_ffff,
        _ => whole,
    })
}

/// Bytes by which a register that numbers a bit moves the operand of bt and its relatives.
pub(crate) fn bit_address(instruction: &Instruction, regs: &Registers) -> u64 {
    let numbered =
        matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_kind() == OpKind::Register;
    if !numbered {
        return 0;
    }
    let value = general(regs, instruction.op1_register()).unwrap_or(0);
    let (bit, bytes) = match instruction.op1_register().size() {
        2 => (i64::from(value as i16), 2),
        4 => (i64::from(value as i32), 4),
        _ => (value as i64, 8),
    };
    (bit.div_euclid(bytes * 8) * bytes) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// What the instruction of these bytes accesses, with rcx 2, rdi 0x1000, rsi 0x2000, rbx 0x3000, rax 0x1ff, rsp 0x4000.
    fn check(bytes: &[u8], step: StepKind, expect: &[(u64, u32, AccessKind)]) {
        let mut code = [0x90u8; 4096];
        code[..bytes.len()].copy_from_slice(bytes);
        let regs = Registers {
            rip: code.as_ptr() as u64,
            rax: 0x1ff,
            rbx: 0x3000,
            rcx: 2,
            rsi: 0x2000,
            rdi: 0x1000,
            rsp: 0x4000,
            ..Default::default()
        };
        let mut found = Vec::new();
        // SAFETY: the code is there, and no state is needed.
        let seen = unsafe {
            Oracle::new().observe(&regs, core::ptr::null(), 0x7000, |operand| {
                found.push((operand.addr, operand.len, operand.kind));
            })
        };
        assert_eq!((seen, &found[..]), (Some(step), expect), "{bytes:x?}");
    }

    #[test]
    fn accesses_follow_from_the_state() {
        use AccessKind::{Load, Modify, Prefetch, Store};
        check(&[0x48, 0x8b, 0x44, 0xcb, 0x08], StepKind::Plain, &[(0x3018, 8, Load)]);
        // push qword [rdi]; movsb alone and repeated; xlatb; bt [rdi], rax
        check(&[0xff, 0x37], StepKind::Plain, &[(0x1000, 8, Load), (0x3ff8, 8, Store)]);
        check(&[0xa4], StepKind::Plain, &[(0x2000, 1, Load), (0x1000, 1, Store)]);
        check(&[0xf3, 0xa4], StepKind::Repeated, &[(0x2000, 1, Load), (0x1000, 1, Store)]);
        check(&[0xd7], StepKind::Plain, &[(0x30ff, 1, Load)]);
        check(&[0x48, 0x0f, 0xa3, 0x07], StepKind::Plain, &[(0x1038, 8, Load)]);
        // lea; prefetcht0 [rdi]; mov rax, fs:[0x28]; lock inc dword [rbx]; pushfq; popfq
        check(&[0x48, 0x8d, 0x07], StepKind::Plain, &[]);
        check(&[0x0f, 0x18, 0x0f], StepKind::Plain, &[(0x1000, 64, Prefetch)]);
        check(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], StepKind::Plain, &[(0x7028, 8, Load)]);
        check(&[0xf0, 0xff, 0x03], StepKind::Plain, &[(0x3000, 4, Modify)]);
        check(&[0x9c], StepKind::StoresFlags, &[(0x3ff8, 8, Store)]);
        check(&[0x9d], StepKind::LoadsFlags, &[(0x4000, 8, Load)]);
        // mov ss, eax
        check(&[0x8e, 0xd0], StepKind::Hidden, &[]);
    }

    #[test]
    fn what_depends_on_a_state_that_is_not_there_is_not_told() {
        // vmovdqu32 zmm0{k1}, [rdi]
        let code: [u8; 32] = {
            let mut code = [0x90; 32];
            code[..6].copy_from_slice(&[0x62, 0xf1, 0x7e, 0x49, 0x6f, 0x07]);
            code
        };
        let regs = Registers { rip: code.as_ptr() as u64, ..Default::default() };
        // SAFETY: the code is there.
        let seen = unsafe { Oracle::new().observe(&regs, core::ptr::null(), 0, |_| {}) };
        assert_eq!(seen, None);
    }
}

//! Facts about the instruction at an address of this process, for instructions that run natively.

use crate::effects::Examiner;
use crate::instruction::Instruction;
use crate::operand::Operand;
use crate::oracle::bit_address;
use crate::registers::Registers;
use crate::state_area;
use memref::AccessKind;

/// Calls `each` with the accesses of the instruction at `regs.rip`, those that only store last. Elements of gathers and bytes
/// under a mask are not told apart: vector registers are not looked at.
///
/// # Safety
/// The code at rip must be readable.
pub unsafe fn accesses(regs: &Registers, fs_base: u64, gs_base: u64, mut each: impl FnMut(Operand)) {
    // SAFETY: the caller says that the code at rip is readable.
    let Some(instruction) = (unsafe { Instruction::at(regs.rip) }) else { return };
    let mut examiner = Examiner::new();
    for operand in examiner.examine(&instruction).operands() {
        if operand.kind != AccessKind::Prefetch && !instruction.inner.is_vsib() {
            let addr = operand.address(|number| regs.get(number), fs_base, gs_base);
            let addr = addr.wrapping_add(bit_address(&instruction.inner, regs));
            let len =
                state_area::bytes(&instruction.inner, regs).unwrap_or(u32::from(operand.len_bytes.max(1)));
            each(Operand { addr, len, kind: operand.kind });
        }
    }
}

/// Writes the name of the instruction at `ip`.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn mnemonic(ip: u64, into: &mut impl core::fmt::Write) {
    // SAFETY: the caller says that the code at `ip` is readable.
    if let Some(instruction) = unsafe { Instruction::at(ip) } {
        // A name that does not fit is cut by the writer.
        let _ = write!(into, "{:?}", instruction.name());
    }
}

/// Whether the instruction at `ip` is a string instruction with a prefix that repeats it.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn is_repeated(ip: u64) -> bool {
    // SAFETY: the caller says that the code at `ip` is readable.
    unsafe { Instruction::at(ip) }.is_some_and(|instruction| instruction.is_repeated())
}

/// Whether no other thread's access can come between those of the instruction at `ip`.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn is_locked(ip: u64) -> bool {
    // SAFETY: the caller says that the code at `ip` is readable.
    unsafe { Instruction::at(ip) }.is_some_and(|instruction| instruction.is_locked())
}

/// Bytes of the instruction at `ip`; zero where it is none.
///
/// # Safety
/// The code at `ip` must be readable.
pub unsafe fn length(ip: u64) -> u8 {
    // SAFETY: the caller says that the code at `ip` is readable.
    unsafe { Instruction::at(ip) }.map_or(0, |instruction| instruction.len_bytes() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn an_index_of_a_byte_and_the_number_of_a_bit_are_parts_of_an_address() {
        let addresses = |bytes: &[u8]| {
            let mut code = [0x90; 32];
            code[..bytes.len()].copy_from_slice(bytes);
            let rip = code.as_ptr() as u64;
            let regs = Registers { rip, rax: 0x1ff, rbx: 0x3000, rdi: 0x1000, ..Default::default() };
            let mut found = Vec::new();
            // SAFETY: the code is there.
            unsafe { accesses(&regs, 0, 0, |operand| found.push(operand.addr)) };
            found
        };
        assert_eq!(addresses(&[0xd7]), [0x30ff], "xlatb");
        assert_eq!(addresses(&[0x48, 0x0f, 0xa3, 0x07]), [0x1038], "bt [rdi], rax");
    }

    #[test]
    fn an_exchange_with_memory_is_locked_without_a_prefix() {
        let locked = |bytes: &[u8]| {
            let mut code = [0x90; 32];
            code[..bytes.len()].copy_from_slice(bytes);
            // SAFETY: the code is there.
            unsafe { is_locked(code.as_ptr() as u64) }
        };
        assert!(locked(&[0x87, 0x08]) && locked(&[0xf0, 0xff, 0x00]));
        assert!(!locked(&[0x87, 0xc8]) && !locked(&[0xff, 0x00]));
    }
}

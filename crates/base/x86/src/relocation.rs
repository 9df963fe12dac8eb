//! Instructions re-encoded for another address than their own.

use alloc::vec::Vec;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Encoder, InstructionBlock, MemoryOperand, OpKind, Register,
};

use crate::instruction::{Instruction, MAX_INSTRUCTION_BYTES};
use crate::stub::GPR64;
use crate::transfer::Transfer;

const DISPLACEMENT_BYTES: usize = 4;

/// The bytes of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineCode {
    bytes: [u8; MAX_INSTRUCTION_BYTES],
    len: u8,
}

impl MachineCode {
    /// `None` where they are more than one instruction has.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let mut code = Self { bytes: [0; MAX_INSTRUCTION_BYTES], len: bytes.len() as u8 };
        code.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(code)
    }
}

impl core::ops::Deref for MachineCode {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or(&[])
    }
}

/// Code for the address `to` that does what these instructions do, which stand one after the other, and then jumps to the one after the
/// last. The last may be a call: it pushes the address of the instruction after it where it stood, and returns there. `None` where
/// what they refer to is too far away, where another one than the last is a call, and for a call by way of the stack pointer.
pub fn displaced(instructions: &[Instruction], to: u64) -> Option<Vec<u8>> {
    let (last, before) = instructions.split_last()?;
    if before.iter().any(Instruction::is_call) {
        return None;
    }
    if last.is_call() {
        let mut code = encoded(before, None, to)?;
        last.append_call(&mut code, to)?;
        return Some(code);
    }
    let back = iced_x86::Instruction::with_branch(Code::Jmp_rel32_64, last.next()).ok()?;
    encoded(instructions, Some(back), to)
}

/// The instructions for the address `to`, and `then`.
fn encoded(instructions: &[Instruction], then: Option<iced_x86::Instruction>, to: u64) -> Option<Vec<u8>> {
    let all: Vec<_> = instructions.iter().map(|instruction| instruction.inner).chain(then).collect();
    let block = InstructionBlock::new(&all, to);
    Some(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer)
}

impl Instruction {
    /// Its bytes, which are `own`, for the address `to`: it accesses there what it accesses at its own address. `None` where
    /// that is too far away, or where it names an address to go on at.
    pub fn moved(&self, own: &[u8], to: u64) -> Option<MachineCode> {
        if self.transfer().target().is_some() || own.len() != self.len_bytes() {
            return None;
        }
        let mut code = MachineCode::new(own)?;
        if let Some(operand) = self.rip_relative() {
            let distance = operand.target.wrapping_sub(to.wrapping_add(own.len() as u64)) as i64;
            let distance = i32::try_from(distance).ok()?;
            let at = usize::from(operand.at);
            code.bytes.get_mut(at..at + DISPLACEMENT_BYTES)?.copy_from_slice(&distance.to_le_bytes());
        }
        Some(code)
    }

    /// Code for the address `to` that does what it does at its own address, and then jumps to the instruction after it: [`displaced`] of
    /// one.
    pub fn displaced(&self, to: u64) -> Option<Vec<u8>> {
        displaced(core::slice::from_ref(self), to)
    }

    fn is_call(&self) -> bool {
        matches!(self.transfer(), Transfer::Call(_) | Transfer::CallIndirect)
    }

    /// Appends to `code`, which is for the address `to`, what this call does at its own address. A call of ours pushes an address first,
    /// in whose place that after the call is put: where one was pushed without a call, the processor would predict its return wrong and
    /// those of all callers as well.
    fn append_call(&self, code: &mut Vec<u8>, to: u64) -> Option<()> {
        /// call over the byte behind it; what calls the very next instruction counts as no call. int3
        const CALL: [u8; 6] = [0xe8, 1, 0, 0, 0, 0xcc];
        /// mov dword ptr [rsp], ...; mov dword ptr [rsp + 4], ...
        const LOW: [u8; 3] = [0xc7, 0x04, 0x24];
        const HIGH: [u8; 4] = [0xc7, 0x44, 0x24, 4];
        let jump = match self.transfer() {
            Transfer::Call(target) => iced_x86::Instruction::with_branch(Code::Jmp_rel32_64, target).ok()?,
            // The stack pointer is another one after the push.
            _ if [self.inner.op0_register(), self.inner.memory_base(), self.inner.memory_index()]
                .contains(&Register::RSP) =>
            {
                return None;
            }
            _ if self.inner.op0_kind() == OpKind::Register => {
                iced_x86::Instruction::with1(Code::Jmp_rm64, self.inner.op0_register()).ok()?
            }
            _ => {
                let mut jump = self.inner;
                jump.set_code(Code::Jmp_rm64);
                jump
            }
        };
        let (low, high) = (self.next() as u32, (self.next() >> 32) as u32);
        code.extend(CALL);
        code.extend(LOW);
        code.extend(low.to_le_bytes());
        code.extend(HIGH);
        code.extend(high.to_le_bytes());
        let mut encoder = Encoder::new(64);
        encoder.encode(&jump, to.wrapping_add(code.len() as u64)).ok()?;
        code.extend(encoder.take_buffer());
        Some(())
    }

    /// An instruction for the address `at` that loads into a general register where this indirect jump or call goes. `None`
    /// where it is none, or that is too far away.
    pub fn target_loaded(&self, register: u8, at: u64) -> Option<MachineCode> {
        if !matches!(self.transfer(), Transfer::JumpIndirect | Transfer::CallIndirect) {
            return None;
        }
        let inner = &self.inner;
        let into = *GPR64.get(usize::from(register))?;
        let load = if inner.op0_kind() == OpKind::Register {
            iced_x86::Instruction::with2(Code::Mov_r64_rm64, into, inner.op0_register())
        } else {
            let memory = MemoryOperand::new(
                inner.memory_base(),
                inner.memory_index(),
                inner.memory_index_scale(),
                inner.memory_displacement64() as i64,
                inner.memory_displ_size(),
                false,
                match inner.segment_prefix() {
                    segment @ (Register::FS | Register::GS) => segment,
                    _ => Register::None,
                },
            );
            iced_x86::Instruction::with2(Code::Mov_r64_rm64, into, memory)
        };
        let mut encoder = Encoder::new(64);
        encoder.encode(&load.ok()?, at).ok()?;
        MachineCode::new(&encoder.take_buffer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disassembler;

    /// lea rax, [rip + 0x10]
    const LEA: [u8; 7] = [0x48, 0x8d, 0x05, 0x10, 0, 0, 0];

    #[test]
    fn a_moved_instruction_names_the_same_address() {
        let lea = Instruction::decode(&LEA, 0x1000).expect("it is an instruction");
        let moved = lea.moved(&LEA, 0x5000).expect("it is near");
        let again = Instruction::decode(&moved, 0x5000).expect("it is an instruction");
        assert_eq!(again.rip_relative().map(|operand| operand.target), Some(0x1017));
        assert!(lea.moved(&LEA, 0x1_0000_0000).is_none());
        let branch = [0x75, 0x10];
        let decoded = Instruction::decode(&branch, 0x1000).expect("it is an instruction");
        assert!(decoded.moved(&branch, 0x5000).is_none());
    }

    #[test]
    fn a_displaced_instruction_keeps_its_meaning() {
        let lea = Instruction::decode(&LEA, 0x1000).expect("it is an instruction");
        let code = lea.displaced(0x5000).expect("it is near");
        let all: Vec<Instruction> = Disassembler::new(&code, 0x5000).collect();
        assert_eq!(all[0].rip_relative().map(|operand| operand.target), Some(0x1017));
        assert_eq!((all[0].len_bytes(), all[1].transfer()), (7, Transfer::Jump(0x1007)));
    }

    #[test]
    fn a_call_is_displaced_where_it_is_the_last_and_does_not_name_the_stack() {
        let push = [0x53];
        let is_displaced = |call: &[u8], is_last: bool| {
            let mut code = push.to_vec();
            code.extend(call);
            code.extend((!is_last).then_some(0x90));
            let all: Vec<Instruction> = Disassembler::new(&code, 0x1000).collect();
            displaced(&all, 0x5000).is_some()
        };
        // call 0x1106; call [rip]; call rdx; call [rbx]; call [rsp + 8]; call rsp
        for call in [&[0xe8, 0, 1, 0, 0][..], &[0xff, 0x15, 0, 0, 0, 0], &[0xff, 0xd2], &[0xff, 0x13]] {
            assert!(is_displaced(call, true) && !is_displaced(call, false), "{call:x?}");
        }
        for call in [&[0xff, 0x54, 0x24, 8][..], &[0xff, 0xd4]] {
            assert!(!is_displaced(call, true), "{call:x?}");
        }
    }

    #[test]
    fn where_an_indirect_branch_goes_can_be_loaded() {
        let load = |bytes: &[u8]| {
            let branch = Instruction::decode(bytes, 0x1000).expect("it is an instruction");
            branch.target_loaded(1, 0x5000).map(|code| code.to_vec())
        };
        // call [rip + 1]: mov rcx, [rip - 0x4000]
        assert_eq!(
            load(&[0xff, 0x15, 1, 0, 0, 0]),
            Some([&[0x48, 0x8b, 0x0d][..], &(-0x4000i32).to_le_bytes()].concat())
        );
        // jmp [rax + rcx * 8]; jmp fs:[rax]; call rdx; ret
        assert_eq!(load(&[0xff, 0x24, 0xc8]), Some([0x48, 0x8b, 0x0c, 0xc8].to_vec()));
        assert_eq!(load(&[0x64, 0xff, 0x20]), Some([0x64, 0x48, 0x8b, 0x08].to_vec()));
        assert_eq!(load(&[0xff, 0xd2]), Some([0x48, 0x8b, 0xca].to_vec()));
        assert_eq!(load(&[0xc3]), None);
    }
}

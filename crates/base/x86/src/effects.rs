//! The effects of an instruction on general registers and memory: which it reads,
//! which it changes, and what is known of the result without executing it.

use iced_x86::{InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use memref::AccessKind;

use crate::instruction::{Instruction, names_without_access, prefetched};
use crate::memory_operand::MemoryOperand;

const RBP: u8 = 5;
const RSP: u8 = 4;

/// Finds effects; it keeps the memory that this takes from one instruction to the next.
#[allow(missing_debug_implementations)]
pub struct Examiner {
    factory: InstructionInfoFactory,
}

/// The effects of one instruction.
#[allow(missing_debug_implementations)]
pub struct Effects<'a> {
    pub(crate) instruction: &'a iced_x86::Instruction,
    pub(crate) info: &'a InstructionInfo,
    prefetched: Option<UsedMemory>,
}

/// The general registers that an instruction names or implies, a bit for each of the processor's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterUse {
    /// It reads or changes them.
    pub used: u16,
    /// It may change them.
    pub written: u16,
    /// It sets them as a whole, whatever they held, and without reading them.
    pub set: u16,
}

/// A register that holds, after the instruction, what another one held before it plus a number, or a number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSum {
    /// The register that is set.
    pub register: u8,
    /// The one that it follows from.
    pub base: Option<u8>,
    /// What is added.
    pub number: i64,
}

impl Default for Examiner {
    fn default() -> Self {
        Self::new()
    }
}

impl Examiner {
    /// One with nothing in it.
    pub fn new() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }

    /// The effects of an instruction.
    pub fn examine<'a>(&'a mut self, instruction: &'a Instruction) -> Effects<'a> {
        let inner = &instruction.inner;
        Effects { instruction: inner, info: self.factory.info(inner), prefetched: prefetched(inner) }
    }
}

/// The number of a general register.
pub(crate) fn number_of(register: Register) -> Option<u8> {
    register.is_gpr().then(|| register.full_register().number() as u8)
}

fn bit_of(register: Register) -> u16 {
    number_of(register).map_or(0, |number| 1 << number)
}

/// Bytes that leave pops.
pub(crate) fn leave_bytes(instruction: &iced_x86::Instruction) -> u8 {
    if instruction.code() == iced_x86::Code::Leavew { 2 } else { 8 }
}

/// Whether such an access may change a register.
pub(crate) fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

impl Effects<'_> {
    /// Its accesses: those that only store come last.
    pub fn operands(&self) -> impl Iterator<Item = MemoryOperand> + '_ {
        let is_none = names_without_access(self.instruction);
        let used = self.info.used_memory().iter().chain(&self.prefetched).filter(move |_| !is_none);
        let all = used.filter_map(|memory| MemoryOperand::of(self.instruction, memory));
        let loads = all.clone().filter(|operand| operand.kind != AccessKind::Store);
        loads.chain(all.filter(|operand| operand.kind == AccessKind::Store))
    }

    /// Whether it can be executed without an access: it names memory in vain, is repeated no times, or all its elements are off.
    pub fn may_access_nothing(&self) -> bool {
        let instruction = self.instruction;
        let is_repeated = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        is_repeated
            || instruction.is_vsib()
            || instruction.op_mask() != Register::None
            || self.operands().all(|operand| operand.is_conditional || operand.kind == AccessKind::Prefetch)
    }

    /// The general registers.
    pub fn registers(&self) -> RegisterUse {
        let mut found = RegisterUse::default();
        let mut read = 0;
        for register in self.info.used_registers() {
            let bit = bit_of(register.register());
            found.used |= bit;
            if writes(register.access()) {
                found.written |= bit;
            }
            match register.access() {
                OpAccess::Write if register.register().size() >= 4 => found.set |= bit,
                _ => read |= bit,
            }
        }
        found.set &= !read;
        // What may leave the target as it was: a source of zero, a selector of nothing, no shadow stack.
        use Mnemonic::{Bsf, Bsr, Lar, Lsl, Rdsspd, Rdsspq};
        if matches!(self.instruction.mnemonic(), Bsf | Bsr | Lar | Lsl | Rdsspd | Rdsspq) {
            found.set = 0;
        }
        found
    }

    /// The registers of which it is known what they hold afterwards: the stack pointer, and one result.
    pub fn sums(&self) -> impl Iterator<Item = RegisterSum> + use<> {
        self.stack_sum().into_iter().chain(self.result_sum())
    }

    fn op0(&self) -> Register {
        let is_register = self.instruction.op_count() > 0 && self.instruction.op0_kind() == OpKind::Register;
        if is_register { self.instruction.op0_register() } else { Register::None }
    }

    fn stack_sum(&self) -> Option<RegisterSum> {
        let instruction = self.instruction;
        if !instruction.is_stack_instruction() || self.op0().full_register() == Register::RSP {
            return None;
        }
        Some(if instruction.mnemonic() == Mnemonic::Leave {
            let number = i64::from(leave_bytes(instruction));
            RegisterSum { register: RSP, base: Some(RBP), number }
        } else {
            let number = i64::from(instruction.stack_pointer_increment());
            RegisterSum { register: RSP, base: Some(RSP), number }
        })
    }

    /// The result of one of the few instructions whose result is known.
    fn result_sum(&self) -> Option<RegisterSum> {
        let instruction = self.instruction;
        let op0 = self.op0();
        let register = number_of(op0)?;
        let is_wide = op0.is_gpr64();
        let op1 = if instruction.op_count() > 1 { instruction.op1_kind() } else { OpKind::NearBranch16 };
        let sum = |base: Option<u8>, number: i64| Some(RegisterSum { register, base, number });
        let to_itself = |number: i64| sum(Some(register), number);
        let small = || match op1 {
            OpKind::Immediate8to64 => Some(instruction.immediate8to64()),
            OpKind::Immediate32to64 => Some(instruction.immediate32to64()),
            _ => None,
        };
        match instruction.mnemonic() {
            Mnemonic::Add if is_wide => to_itself(small()?),
            Mnemonic::Sub if is_wide => to_itself(small()?.wrapping_neg()),
            Mnemonic::Inc if is_wide => to_itself(1),
            Mnemonic::Dec if is_wide => to_itself(-1),
            Mnemonic::Mov if is_wide && op1 == OpKind::Register => {
                sum(Some(number_of(instruction.op1_register())?), 0)
            }
            Mnemonic::Mov if is_wide && op1 == OpKind::Immediate64 => {
                sum(None, instruction.immediate64() as i64)
            }
            Mnemonic::Mov if is_wide && op1 == OpKind::Immediate32to64 => {
                sum(None, instruction.immediate32to64())
            }
            Mnemonic::Mov if op0.is_gpr32() && op1 == OpKind::Immediate32 => {
                sum(None, i64::from(instruction.immediate32()))
            }
            Mnemonic::Xor
                if op0.size() >= 4 && op1 == OpKind::Register && instruction.op1_register() == op0 =>
            {
                sum(None, 0)
            }
            Mnemonic::Lea if is_wide && instruction.is_ip_rel_memory_operand() => {
                sum(None, instruction.memory_displacement64() as i64)
            }
            Mnemonic::Lea
                if is_wide
                    && instruction.memory_index() == Register::None
                    && instruction.memory_base().is_gpr64() =>
            {
                let base = number_of(instruction.memory_base());
                sum(base, instruction.memory_displacement64() as i64)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_may_leave_its_target_does_not_set_it() {
        let set = |bytes: &[u8]| {
            let instruction = Instruction::decode(bytes, 0).expect("it is an instruction");
            Examiner::new().examine(&instruction).registers().set
        };
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
    fn results_that_follow_from_a_register_are_known() {
        let sums = |bytes: &[u8]| {
            let instruction = Instruction::decode(bytes, 0x1000).expect("it is an instruction");
            let mut examiner = Examiner::new();
            let sums = examiner.examine(&instruction).sums();
            sums.map(|sum| (sum.register, sum.base, sum.number)).collect::<Vec<_>>()
        };
        assert_eq!(sums(&[0x48, 0x83, 0xc6, 8]), [(6, Some(6), 8)], "add rsi, 8");
        assert_eq!(sums(&[0x48, 0x8d, 0x43, 0xf0]), [(0, Some(3), -16)], "lea rax, [rbx - 16]");
        assert_eq!(sums(&[0x48, 0x8d, 0x05, 1, 0, 0, 0]), [(0, None, 0x1008)], "lea rax, [rip + 1]");
        assert_eq!(sums(&[0x31, 0xc9]), [(1, None, 0)], "xor ecx, ecx");
        assert_eq!(sums(&[0x53]), [(4, Some(4), -8)], "push rbx");
        assert_eq!(sums(&[0xc9]), [(4, Some(5), 8)], "leave");
        assert_eq!(sums(&[0x54]), [], "push rsp");
        assert_eq!(sums(&[0x66, 0x5c]), [], "pop sp");
        assert_eq!(sums(&[0x66, 0xc9]), [(4, Some(5), 2)], "leave of 16 bits");
        assert_eq!(sums(&[0x01, 0xc8]), [], "add eax, ecx");
    }

    #[test]
    fn an_access_in_vain_is_no_access() {
        let silent = |bytes: &[u8]| {
            let instruction = Instruction::decode(bytes, 0).expect("it is an instruction");
            Examiner::new().examine(&instruction).may_access_nothing()
        };
        // lea; a long nop; rep movsb; mov eax, ecx; vmovdqu32 zmm0{k1}, [rdi]; prefetcht0
        for bytes in [
            &[0x48, 0x8d, 0x07][..],
            &[0x0f, 0x1f, 0x00],
            &[0xf3, 0xa4],
            &[0x89, 0xc8],
            &[0x62, 0xf1, 0x7e, 0x49, 0x6f, 0x07],
            &[0x0f, 0x18, 0x0f],
        ] {
            assert!(silent(bytes), "{bytes:x?}");
        }
        // movsb; mov eax, [rdi]; push rax; a return with a prefix
        for bytes in [&[0xa4][..], &[0x8b, 0x07], &[0x50], &[0xf3, 0xc3]] {
            assert!(!silent(bytes), "{bytes:x?}");
        }
    }
}

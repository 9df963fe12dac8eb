//! Results that are sums of registers, for analyses that follow pointers to elements of arrays.

use iced_x86::{Mnemonic, OpKind, Register};

use crate::effects::{Effects, number_of};

/// A general register that holds, after the instruction, a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterTerms {
    /// The register that is set.
    pub register: u8,
    /// Registers that are added as they were before, a bit each.
    pub terms: u16,
    /// Whether something else is added that is not known here: a register times a number.
    pub has_multiple: bool,
    /// Whether what the instruction loads is added.
    pub adds_memory: bool,
    /// The number that is added.
    pub number: i64,
}

impl Effects<'_> {
    /// The sum that an addition or the computation of an address gives, in 64 bits.
    pub fn terms(&self) -> Option<RegisterTerms> {
        let instruction = self.instruction;
        if instruction.op_count() < 2 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let target = instruction.op0_register();
        let register = number_of(target).filter(|_| target.is_gpr64())?;
        let bit = |register: Register| number_of(register).map_or(0, |number| 1_u16 << number);
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Add, OpKind::Register) => {
                let terms = bit(target) | bit(instruction.op1_register());
                Some(RegisterTerms { register, terms, has_multiple: false, adds_memory: false, number: 0 })
            }
            (Mnemonic::Add, OpKind::Memory) => Some(RegisterTerms {
                register,
                terms: bit(target),
                has_multiple: false,
                adds_memory: true,
                number: 0,
            }),
            (Mnemonic::Lea, OpKind::Memory) if !instruction.is_ip_rel_memory_operand() => {
                let (base, index) = (instruction.memory_base(), instruction.memory_index());
                let is_multiple = instruction.memory_index_scale() > 1;
                Some(RegisterTerms {
                    register,
                    terms: bit(base) | if is_multiple { 0 } else { bit(index) },
                    has_multiple: is_multiple && index != Register::None,
                    adds_memory: false,
                    number: instruction.memory_displacement64() as i64,
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Examiner, Instruction};

    fn check(bytes: &[u8], expect: Option<RegisterTerms>) {
        let instruction = Instruction::decode(bytes, 0x1000).unwrap();
        assert_eq!(Examiner::new().examine(&instruction).terms(), expect, "{bytes:x?}");
    }

    #[test]
    fn sums_have_terms() {
        let none =
            RegisterTerms { register: 0, terms: 0, has_multiple: false, adds_memory: false, number: 0 };
        // add rax, rbx; add rax, [rdi]; lea rcx, [rbx + rdx*8 + 16]; lea rax, [rbx + rdx]; add eax, ebx; mov rax, rbx
        check(&[0x48, 0x01, 0xd8], Some(RegisterTerms { terms: 0b1001, ..none }));
        check(&[0x48, 0x03, 0x07], Some(RegisterTerms { terms: 1, adds_memory: true, ..none }));
        let lea = RegisterTerms { register: 1, terms: 0b1000, has_multiple: true, number: 16, ..none };
        check(&[0x48, 0x8d, 0x4c, 0xd3, 0x10], Some(lea));
        check(&[0x48, 0x8d, 0x04, 0x13], Some(RegisterTerms { terms: 0b1100, ..none }));
        check(&[0x01, 0xd8], None);
        check(&[0x48, 0x89, 0xd8], None);
    }
}

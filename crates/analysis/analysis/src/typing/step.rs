//! The effect of one instruction on pointers.

use symbols::LinkAddr;
use x86::{
    ByteRule, ByteSource, ByteTarget, Examiner, Instruction, MemoryOperand, RegisterBytes, RegisterKind,
    RegisterSum, RegisterTerms, Transfer,
};

/// One instruction of a function, as far as pointers go.
pub(super) struct StepInstruction {
    pub(super) address: LinkAddr,
    pub(super) next: LinkAddr,
    pub(super) operands: Vec<MemoryOperand>,
    /// Registers that hold another one's value plus a number.
    pub(super) sums: Vec<RegisterSum>,
    /// A register that gets a sum of which more is not known.
    pub(super) terms: Option<RegisterTerms>,
    /// The register that eight bytes of memory are loaded into.
    pub(super) loads: Option<u8>,
    /// The register whose eight bytes are stored.
    pub(super) stores: Option<u8>,
    /// Registers that it may change.
    pub(super) written: u16,
    pub(super) transfer: Transfer,
}

impl StepInstruction {
    pub(super) fn of(instruction: &Instruction, examiner: &mut Examiner) -> Self {
        let effects = examiner.examine(instruction);
        let whole = |bytes: RegisterBytes| match bytes.register {
            RegisterKind::General(number) if bytes.first == 0 && bytes.len == 8 => Some(number),
            _ => None,
        };
        let (mut loads, mut stores) = (None, None);
        for assignment in &effects.data_flow().assignments {
            match (assignment.target, assignment.rule) {
                (ByteTarget::Register(target, _), ByteRule::Move(ByteSource::Memory(8))) => {
                    loads = whole(target)
                }
                (ByteTarget::Memory, ByteRule::Move(ByteSource::Register(source))) => stores = whole(source),
                _ => {}
            }
        }
        Self {
            address: LinkAddr(instruction.addr()),
            next: LinkAddr(instruction.next()),
            sums: effects.sums().collect(),
            terms: effects.terms(),
            loads,
            stores,
            written: effects.registers().written,
            transfer: instruction.transfer(),
            operands: effects.operands().collect(),
        }
    }
}

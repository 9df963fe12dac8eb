//! Where execution continues after an instruction.

use iced_x86::{Code, ConditionCode, FlowControl, OpKind};

use crate::instruction::Instruction;

/// Where execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// At the next instruction.
    Next,
    /// There.
    Jump(u64),
    /// There, where the condition holds, else at the next instruction.
    Branch(Condition, u64),
    /// There, as rcx says (jrcxz, loop and their relatives), else at the next instruction.
    CountBranch(u64),
    /// There; the address of the next instruction is pushed.
    Call(u64),
    /// Where a register or memory says.
    JumpIndirect,
    /// Where a register or memory says; the address of the next instruction is pushed.
    CallIndirect,
    /// Where the top of the stack says; as many bytes more are popped.
    Return(u16),
    /// A system call by syscall, then at the next instruction.
    Syscall,
    /// The kernel or a hypervisor is entered in another way.
    Kernel,
    /// An interrupt that the instruction asks for (int3, int n).
    Interrupt,
    /// An exception that it is made to raise (ud2).
    Exception,
    /// A memory transaction begins, ends or is aborted; where it begins, the address at which it goes on if it is aborted.
    Transaction(Option<u64>),
    /// A jump into another segment, or with an address of another size than 64 bits.
    FarJump,
    /// Such a call.
    FarCall,
    /// Such a return, or one from an interrupt.
    FarReturn,
}

/// A condition of flags, as instructions encode it in four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(u8);

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

impl Condition {
    /// Its four bits. The lowest one makes the opposite of it.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether it holds with these flags.
    pub fn holds(self, rflags: u64) -> bool {
        let is = |flag: u64| rflags & flag != 0;
        let holds = match self.0 >> 1 {
            0 => is(OVERFLOW),
            1 => is(CARRY),
            2 => is(ZERO),
            3 => is(CARRY) || is(ZERO),
            4 => is(SIGN),
            5 => is(PARITY),
            6 => is(SIGN) != is(OVERFLOW),
            _ => is(ZERO) || is(SIGN) != is(OVERFLOW),
        };
        holds != (self.0 & 1 != 0)
    }

    fn of(code: ConditionCode) -> Option<Self> {
        Some(Self(match code {
            ConditionCode::None => return None,
            ConditionCode::o => 0,
            ConditionCode::no => 1,
            ConditionCode::b => 2,
            ConditionCode::ae => 3,
            ConditionCode::e => 4,
            ConditionCode::ne => 5,
            ConditionCode::be => 6,
            ConditionCode::a => 7,
            ConditionCode::s => 8,
            ConditionCode::ns => 9,
            ConditionCode::p => 10,
            ConditionCode::np => 11,
            ConditionCode::l => 12,
            ConditionCode::ge => 13,
            ConditionCode::le => 14,
            ConditionCode::g => 15,
        }))
    }
}

impl Transfer {
    /// The address that the instruction itself names to go on at.
    pub fn target(self) -> Option<u64> {
        match self {
            Self::Jump(target)
            | Self::Branch(_, target)
            | Self::CountBranch(target)
            | Self::Call(target)
            | Self::Transaction(Some(target)) => Some(target),
            _ => None,
        }
    }
}

impl Instruction {
    /// Where execution goes on after it.
    pub fn transfer(&self) -> Transfer {
        let inner = &self.inner;
        let is_near = inner.op_count() > 0 && inner.op0_kind() == OpKind::NearBranch64;
        let target = inner.near_branch_target();
        match inner.flow_control() {
            FlowControl::Next => Transfer::Next,
            FlowControl::UnconditionalBranch if is_near => Transfer::Jump(target),
            // loope and loopne have a condition, too.
            FlowControl::ConditionalBranch if is_near => match Condition::of(inner.condition_code()) {
                Some(condition) if inner.is_jcc_short_or_near() => Transfer::Branch(condition, target),
                _ => Transfer::CountBranch(target),
            },
            FlowControl::Call if is_near => Transfer::Call(target),
            FlowControl::Call if inner.code() == Code::Syscall => Transfer::Syscall,
            FlowControl::Call => Transfer::Kernel,
            FlowControl::IndirectBranch if names_whole_address(inner) => Transfer::JumpIndirect,
            FlowControl::IndirectCall if names_whole_address(inner) => Transfer::CallIndirect,
            FlowControl::Return if inner.code() == Code::Retnq => Transfer::Return(0),
            FlowControl::Return if inner.code() == Code::Retnq_imm16 => Transfer::Return(inner.immediate16()),
            FlowControl::Interrupt => Transfer::Interrupt,
            FlowControl::Exception => Transfer::Exception,
            FlowControl::XbeginXabortXend => Transfer::Transaction(is_near.then_some(target)),
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::IndirectBranch => Transfer::FarJump,
            FlowControl::IndirectCall => Transfer::FarCall,
            FlowControl::Return => Transfer::FarReturn,
        }
    }

    /// The number of the general register that an indirect jump or call goes to.
    pub fn target_register(&self) -> Option<u8> {
        let is_indirect = matches!(self.transfer(), Transfer::JumpIndirect | Transfer::CallIndirect);
        (is_indirect && self.inner.op0_kind() == OpKind::Register)
            .then(|| self.inner.op0_register().full_register().number() as u8)
    }
}

/// Whether an indirect branch takes an address of 64 bits.
fn names_whole_address(instruction: &iced_x86::Instruction) -> bool {
    match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().is_gpr64(),
        OpKind::Memory => instruction.memory_size().size() == 8,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: Transfer) {
        let instruction = Instruction::decode(bytes, 0x1000).expect("it is an instruction");
        assert_eq!(instruction.transfer(), expect, "{bytes:x?}");
    }

    #[test]
    fn what_transfers_control_is_known_by_its_bytes() {
        check(&[0x90], Transfer::Next);
        check(&[0xeb, 0x10], Transfer::Jump(0x1012));
        check(&[0x75, 0xfe], Transfer::Branch(Condition(5), 0x1000));
        check(&[0x0f, 0x8f, 0, 1, 0, 0], Transfer::Branch(Condition(15), 0x1106));
        check(&[0xe3, 0], Transfer::CountBranch(0x1002));
        check(&[0xe2, 0], Transfer::CountBranch(0x1002));
        check(&[0xe1, 0], Transfer::CountBranch(0x1002));
        check(&[0xe0, 0], Transfer::CountBranch(0x1002));
        check(&[0xe8, 0, 0, 0, 0], Transfer::Call(0x1005));
        check(&[0xff, 0xe0], Transfer::JumpIndirect);
        check(&[0xff, 0x15, 1, 0, 0, 0], Transfer::CallIndirect);
        check(&[0x41, 0xff, 0x94, 0xc4, 1, 0, 0, 0], Transfer::CallIndirect);
        check(&[0xc3], Transfer::Return(0));
        check(&[0xc2, 8, 0], Transfer::Return(8));
        check(&[0x0f, 0x05], Transfer::Syscall);
        check(&[0x0f, 0x34], Transfer::Kernel);
        check(&[0xcc], Transfer::Interrupt);
        check(&[0xcd, 0x80], Transfer::Interrupt);
        check(&[0x0f, 0x0b], Transfer::Exception);
        check(&[0xc7, 0xf8, 0, 0, 0, 0], Transfer::Transaction(Some(0x1006)));
        check(&[0xff, 0x2f], Transfer::FarJump);
        check(&[0xff, 0x1f], Transfer::FarCall);
        check(&[0xcb], Transfer::FarReturn);
        check(&[0x48, 0xcf], Transfer::FarReturn);
        assert_eq!(Instruction::default().transfer(), Transfer::Exception);
    }

    #[test]
    fn registers_that_are_jumped_to_are_known() {
        let register = |bytes: &[u8]| Instruction::decode(bytes, 0).and_then(|it| it.target_register());
        assert_eq!(register(&[0x41, 0xff, 0xe3]), Some(11));
        assert_eq!(register(&[0xff, 0xd2]), Some(2));
        assert_eq!(register(&[0xff, 0x20]), None);
        assert_eq!(register(&[0x48, 0x89, 0xd8]), None);
    }

    #[test]
    fn conditions_are_those_of_the_processor() {
        for bits in 0..16 {
            for rflags in
                (0..32).map(|n: u64| n & 1 | (n & 2) << 1 | (n & 4) << 4 | (n & 8) << 4 | (n & 16) << 7)
            {
                assert_eq!(Condition(bits).holds(rflags), !Condition(bits ^ 1).holds(rflags));
            }
        }
        assert!(
            Condition(4).holds(ZERO) && Condition(12).holds(SIGN) && !Condition(12).holds(SIGN | OVERFLOW)
        );
        assert!(Condition(14).holds(ZERO) && Condition(6).holds(CARRY) && Condition(10).holds(PARITY));
    }
}

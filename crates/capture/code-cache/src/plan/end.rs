//! How a block ends, and which instructions are left to the tracer.

use x86::{Instruction, Transfer};

use crate::processor;

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It goes on at the next address.
    Fall,
    Jump(u64),
    Branch(u64),
    CountBranch(u64),
    Call(u64),
    JumpIndirect,
    CallIndirect,
    Return(u16),
    Syscall,
    /// Its one instruction is a repeated string instruction.
    Repeat,
    /// Its one instruction needs the tracer's help.
    Special,
}

impl End {
    /// How a block ends with this instruction, which leads there; `None` where it goes on.
    pub(super) fn of(instruction: &Instruction, transfer: Transfer) -> Option<Self> {
        if needs_tracer(instruction) {
            return Some(Self::Special);
        }
        if instruction.is_repeated() {
            return Some(Self::Repeat);
        }
        Some(match transfer {
            Transfer::Next => return None,
            Transfer::Jump(target) => Self::Jump(target),
            Transfer::Branch(_, target) => Self::Branch(target),
            Transfer::CountBranch(target) => Self::CountBranch(target),
            Transfer::Call(target) => Self::Call(target),
            Transfer::JumpIndirect => Self::JumpIndirect,
            Transfer::CallIndirect => Self::CallIndirect,
            Transfer::Return(bytes) => Self::Return(bytes),
            Transfer::Syscall => Self::Syscall,
            Transfer::Kernel
            | Transfer::Interrupt
            | Transfer::Exception
            | Transfer::Transaction(_)
            | Transfer::FarJump
            | Transfer::FarCall
            | Transfer::FarReturn => Self::Special,
        })
    }
}

/// Whether the instruction's accesses do not follow from the registers that a block can keep, or it would disturb the tracer,
/// whose is the base of gs, and which knows the base of fs.
fn needs_tracer(instruction: &Instruction) -> bool {
    instruction.is_privileged()
        || instruction.uses_gs()
        || instruction.sets_fs_base()
        || !instruction.has_known_accesses()
        || instruction.mask().is_some() && instruction.names_memory() && !processor::keeps_masks()
}

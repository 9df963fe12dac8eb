//! Accesses as the engine announces them, and the possible outcomes of a step.

use memref::AccessKind;

/// One access that an instruction is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// First byte, segment base included.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// What is done to them.
    pub kind: AccessKind,
}

/// The environment does not let the access be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Where accesses are made.
pub trait Environment {
    /// Called for each access, in the order of the architecture, before any of an instruction's accesses is made. Returns
    /// where to make it.
    ///
    /// # Errors
    /// [`Refused`]: the step ends, and nothing has changed.
    fn access(&mut self, operand: Operand) -> Result<u64, Refused>;

    /// What is added to addresses with an fs prefix.
    fn fs_base(&self) -> u64;

    /// What is added to addresses with a gs prefix.
    fn gs_base(&self) -> u64;
}

/// Why an instruction is not executed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// Its bytes are no instruction.
    Invalid,
    /// It enters the kernel, or changes what the engine rests on.
    System,
    /// It reaches memory in a way that the engine has no stub for.
    Memory,
    /// There is no room for its stub.
    Space,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The instruction is done; rip is after it.
    Executed,
    /// A part of a repeated instruction is done; rip stays.
    Again,
    /// The engine does not execute this one; nothing has changed.
    NotEmulated(Unsupported),
    /// The environment refused an access; nothing has changed.
    Refused,
    /// The processor raised a fault; no register has changed.
    Fault,
}

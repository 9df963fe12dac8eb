//! One frame of a stack.

/// Registers by their number in DWARF: rax 0, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 .. r15.
pub(crate) const RBX: usize = 3;
pub(crate) const RBP: usize = 6;
pub(crate) const RSP: usize = 7;
/// The return address, which stands for the instruction pointer.
pub(crate) const RIP: usize = 16;
pub(crate) const REGISTERS: usize = 17;
/// The processor's state in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    registers: [u64; REGISTERS],
}

impl StackFrame {
    /// The state at an instruction: the general registers in the order of DWARF (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp,
    /// r8 .. r15) and the instruction pointer.
    pub const fn new(registers: [u64; 17]) -> Self {
        Self { registers }
    }

    pub(crate) fn get(&self, register: usize) -> Option<u64> {
        self.registers.get(register).copied()
    }

    pub(crate) fn set(&mut self, register: usize, value: u64) {
        if let Some(place) = self.registers.get_mut(register) {
            *place = value;
        }
    }

    /// Its instruction; in a frame that called another one the address that the call returns to.
    pub const fn ip(&self) -> u64 {
        self.registers[RIP]
    }

    /// Its stack pointer.
    pub const fn sp(&self) -> u64 {
        self.registers[RSP]
    }
}

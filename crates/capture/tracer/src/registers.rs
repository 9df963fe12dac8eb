//! The program's registers, in the context of a signal and as `x86` has them: both are the kernel's order.

use tracee::frame::{Gregs, UContext};

/// The program's registers, as the engine has them: both are the kernel's order.
pub(crate) fn of(context: &mut UContext) -> &mut x86::Registers {
    const _: () = assert!(size_of::<Gregs>() == size_of::<x86::Registers>());
    // SAFETY: both types are 18 words in the same order, see their definitions.
    unsafe { &mut *(&raw mut context.gregs).cast() }
}

/// Registers of a signal's context, as the engine has them.
pub(crate) fn as_registers(gregs: &Gregs) -> &x86::Registers {
    // SAFETY: both types are 18 words in the same order, see their definitions.
    unsafe { &*(&raw const *gregs).cast() }
}

/// si_code of a fault for want of a right.
pub(crate) const SEGV_ACCERR: i32 = 2;

/// si_code of a trap by the trap flag.
pub(crate) const TRAP_TRACE: i32 = libc::TRAP_TRACE;

/// Of rflags: the processor traps after each instruction.
pub(crate) const TRAP_FLAG: u64 = 1 << 8;

/// String instructions go down.
pub(crate) const DIRECTION_FLAG: u64 = 1 << 10;

/// The next instruction does not trap.
pub(crate) const RESUME_FLAG: u64 = 1 << 16;

/// Of a page fault's error code: it was a write.
pub(crate) const FAULT_OF_WRITE: u64 = 1 << 1;

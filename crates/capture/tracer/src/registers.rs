//! Bits of the flags register, and the kernel's codes for faults and traps.

/// si_code of a fault for want of a right.
pub(crate) const SEGV_ACCERR: i32 = 2;

/// si_code of a trap for which the processor gave no reason.
pub(crate) const TRAP_BRKPT: i32 = libc::TRAP_BRKPT;

/// si_code of a trap by the trap flag.
pub(crate) const TRAP_TRACE: i32 = libc::TRAP_TRACE;

/// Of rflags: the processor traps after each instruction.
pub(crate) const TRAP_FLAG: u64 = 1 << 8;

/// String instructions go down.
pub(crate) const DIRECTION_FLAG: u64 = 1 << 10;

/// Accesses at addresses that are no multiples of their size fault.
pub(crate) const ALIGNMENT_FLAG: u64 = 1 << 18;

/// The next instruction does not trap.
pub(crate) const RESUME_FLAG: u64 = 1 << 16;

/// Of a page fault's error code: it was a write.
pub(crate) const FAULT_OF_WRITE: u64 = 1 << 1;

/// Of a page fault's error code: it was an instruction that was to be executed.
pub(crate) const FAULT_OF_FETCH: u64 = 1 << 4;

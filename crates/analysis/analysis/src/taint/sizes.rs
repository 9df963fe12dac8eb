//! Functions that allocate memory, and the registers that hold the requested size.

use memref::AllocationFunction as F;

const RDX: u8 = 2;
const RSI: u8 = 6;
const RDI: u8 = 7;

/// Registers that say how many bytes a function gives. What mappings are asked for are arguments of system calls.
pub(super) const fn size_registers(function: F) -> &'static [u8] {
    match function {
        F::Malloc | F::Valloc | F::New | F::NewArray => &[RDI],
        F::Calloc => &[RDI, RSI],
        F::Realloc | F::AlignedAlloc | F::Memalign => &[RSI],
        F::Reallocarray => &[RSI, RDX],
        F::PosixMemalign => &[RDX],
        _ => &[],
    }
}

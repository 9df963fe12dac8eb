//! The words of a traced thread's slot that the cache's code uses, by their offsets from the gs base.
//!
//! A *spill* holds a register of the program while recording code uses that register. Each register used in this way has a spill
//! of its own, so that a handler finds its value wherever the thread is interrupted; the tracer reads the spills by their numbers.

use buffers::flow::SPILLS_AT;

/// Spill 0: the scratch register that points into the buffer, whichever it is.
pub(crate) const SPILL_SCRATCH: u32 = SPILLS_AT;
/// Spill 1: rax.
pub(crate) const SPILL_RAX: u32 = SPILLS_AT + 8;
/// Spill 2: rcx.
pub(crate) const SPILL_RCX: u32 = SPILLS_AT + 16;
/// Spill 3: rdx.
pub(crate) const SPILL_RDX: u32 = SPILLS_AT + 24;
/// Spill 4: the second scratch register of blocks that only count.
pub(crate) const SPILL_SECOND: u32 = SPILLS_AT + 32;
/// Spill 4 as well: room for an address, in blocks that check accesses, which don't count.
pub(crate) const SPILL_LINE: u32 = SPILL_SECOND;
/// Spill 5: no register; the base of fs, which the tracer keeps there where accesses are checked.
pub(crate) const SPILL_FS: u32 = SPILLS_AT + 8 * FS_SPILL as u32;
/// The number of the spill that holds the base of fs, where accesses are checked.
pub const FS_SPILL: usize = 5;

/// Registers that are in spills 1 to 3, a bit each from rax on: as [`crate::Place::At`] says them.
pub(crate) mod aside {
    /// Those of an indirect branch on its way: rcx and rdx.
    pub(crate) const INDIRECT: u8 = 0b110;
    /// Those of code that copies an access's bytes: rax and rcx.
    pub(crate) const CAPTURE: u8 = 0b011;
}

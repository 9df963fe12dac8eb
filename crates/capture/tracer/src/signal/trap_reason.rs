//! The reason for a trap of an instruction, where the kernel did not learn it.
//!
//! The processor reports in DR6 that the trap flag caused the trap. In a virtual machine this is sometimes lost: the
//! kernel finds the register empty, and takes the trap for that of an `int1`, the only other one that leaves it
//! empty. A stepper would then miss a step. The instruction itself tells the two apart: an `int1` is just before the
//! address where the program continues, or, on some virtual machines, which do not advance past it, at that address.

use tracee::frame::{SigInfo, UContext};

use crate::memory::program_memory;
use crate::registers::{TRAP_BRKPT, TRAP_TRACE};

/// The whole of `int1`, but for prefixes.
const INT1: u8 = 0xf1;

/// A SIGTRAP: one by the trap flag says so after this.
pub(crate) fn complete(info: &mut SigInfo, context: &UContext) {
    let rip = context.gregs.rip;
    if info.code == TRAP_BRKPT && !is_int1(rip.wrapping_sub(1)) && !is_int1(rip) {
        info.code = TRAP_TRACE;
    }
}

fn is_int1(at: u64) -> bool {
    let mut byte = [0];
    program_memory::read(at, &mut byte) && byte == [INT1]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the code is after a trap with that code, at the second of these bytes.
    fn completed(code: i32, bytes: &[u8; 2]) -> i32 {
        let rip = &raw const bytes[1] as u64;
        let mut info = SigInfo::fault(libc::SIGTRAP, code, rip);
        // SAFETY: plain numbers and pointers, which may all be zero.
        let mut context: UContext = unsafe { core::mem::zeroed() };
        context.gregs.rip = rip;
        complete(&mut info, &context);
        info.code
    }

    #[test]
    fn a_step_without_its_reason_is_told_from_int1() {
        let (nop, int1, at_int1) = ([0x90, 0x90], [INT1, 0x90], [0x90, INT1]);
        assert_eq!(completed(TRAP_BRKPT, &nop), TRAP_TRACE);
        assert_eq!(completed(TRAP_TRACE, &nop), TRAP_TRACE);
        assert_eq!(completed(TRAP_BRKPT, &int1), TRAP_BRKPT);
        assert_eq!(completed(TRAP_BRKPT, &at_int1), TRAP_BRKPT);
        // A breakpoint, which the kernel raises itself, and one that somebody has sent.
        assert_eq!(completed(libc::SI_KERNEL, &nop), libc::SI_KERNEL);
        assert_eq!(completed(libc::SI_USER, &nop), libc::SI_USER);
    }
}

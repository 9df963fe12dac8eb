//! System calls: the code that the cache holds for one.
//!
//! The block leaves the cache through the gate, so that the tracer can make the call without a signal. A word
//! after that tells the tracer what it needs: the address in the program to which the call returns, and the kind
//! of the code. After the word comes the instruction itself, for calls that the tracer does not make in its gate:
//! the thread continues there, and the kernel raises a signal. Last comes the code that continues after either.

use crate::exit_reason::{EXIT_CALL, EXIT_TRAP};
use crate::mode::Mode;

/// Why the cache is left for a system call: the gate's reason.
pub const SYSTEM_CALL: u32 = EXIT_CALL;

/// Why it is left for an instruction that the tracer executes. The address of a trap is in the thread's slot: it stands for the
/// instruction, and is where the thread goes on if the tracer is to be told by a signal.
pub const SPECIAL_INSTRUCTION: u32 = EXIT_TRAP;

/// Where in the word the code's kind is; addresses of programs end before.
const MODE_AT: u32 = 56;
/// Bytes of a `syscall` instruction.
const CALL_BYTES: u64 = 2;

/// A system call in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The address in the program after the call.
    pub next: u64,
    /// What the code does.
    pub mode: Option<Mode>,
    /// The call itself.
    pub instruction: u64,
    /// What goes on after it.
    pub after: u64,
}

impl CallSite {
    /// The word of a call in code of that kind.
    pub(crate) fn word(next: u64, mode: Mode) -> u64 {
        next & ((1 << MODE_AT) - 1) | (mode as u64) << MODE_AT
    }

    /// What a word says that stands at an address.
    pub fn new(at: u64, word: u64) -> Self {
        let instruction = at + size_of::<u64>() as u64;
        Self {
            next: word & ((1 << MODE_AT) - 1),
            mode: Mode::ALL.into_iter().find(|&mode| mode as u64 == word >> MODE_AT),
            instruction,
            after: instruction + CALL_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_of() {
        for mode in Mode::ALL {
            let site = CallSite::new(0x1000, CallSite::word(0x7fff_ffff_f002, mode));
            let expect =
                CallSite { next: 0x7fff_ffff_f002, mode: Some(mode), instruction: 0x1008, after: 0x100a };
            assert_eq!(site, expect);
        }
        assert_eq!(CallSite::new(0, u64::MAX).mode, None);
    }
}

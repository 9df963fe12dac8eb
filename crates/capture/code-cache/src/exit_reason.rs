//! What an exit stub tells the gate: the reason for leaving the cache.

/// Why the cache is left through its gate: the upper bits of the reason; the lower ones are a number.
pub(crate) const EXIT_LINK: u32 = 0;
pub(crate) const EXIT_MISS: u32 = 1 << 30;
pub(crate) const EXIT_STOP: u32 = 2 << 30;
pub(crate) const EXIT_CHECK: u32 = 3 << 30;
pub(crate) const EXIT_KINDS: u32 = 3 << 30;
/// A system call: what it is is said by the word whose address is in the thread's slot, see [`crate::CallSite`]. As a look-up that
/// misses, of a mode that there is not.
pub(crate) const EXIT_CALL: u32 = EXIT_MISS | 0xff;
/// An instruction that the tracer executes: the trap at the address in the thread's slot stands for it.
pub(crate) const EXIT_TRAP: u32 = EXIT_MISS | 0xfe;
/// Of a check: the instruction was executed.
pub(crate) const CHECK_DONE: u32 = 1 << 29;

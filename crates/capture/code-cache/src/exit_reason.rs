//! What exit stubs tell the gate: why the cache is left.

/// Why the cache is left through its gate: the upper bits of the reason; the lower ones are a number.
pub(crate) const EXIT_LINK: u32 = 0;
pub(crate) const EXIT_MISS: u32 = 1 << 30;
pub(crate) const EXIT_STOP: u32 = 2 << 30;
pub(crate) const EXIT_CHECK: u32 = 3 << 30;
pub(crate) const EXIT_KINDS: u32 = 3 << 30;
/// Of a check: the instruction was executed.
pub(crate) const CHECK_DONE: u32 = 1 << 29;

//! Executions that a frame has taken and nobody has coded yet.

use std::fmt::Debug;

use blocks::SharedBlock;

use super::encoding::FrameCoder;
use super::frame::MANY;

/// Accesses that one run has at most.
pub const MAX_RUN_ACCESSES: u64 = MANY;

/// Executions of one thread, one after the other, as the recorder found them: it knows where they are and how many accesses they
/// make, and no more. Whoever needs the bytes of the frame has them coded, mostly a worker of the store.
pub trait ExecutionRun: Send + Debug {
    /// Gives the executions to the coder, in their order.
    fn code(&self, coder: &mut RunCoder<'_>);

    /// Bytes of memory that it keeps.
    fn memory(&self) -> usize;
}

/// What a recorder knows of a run without coding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOutline {
    /// The cycle at which the first execution began, or earlier.
    pub first_cycle: u64,
    /// The thread's fs base in all of them.
    pub base: u64,
    /// Accesses of all of them: at least one, at most [`MAX_RUN_ACCESSES`].
    pub accesses: u64,
}

/// Takes the executions of a run.
#[derive(Debug)]
pub struct RunCoder<'a> {
    pub(super) coder: &'a mut FrameCoder,
    pub(super) base: u64,
}

impl RunCoder<'_> {
    /// An execution that began at `cycle`, of the block of that number of the recorder's: one number for one block, as long as the
    /// thread lives. `find` gives the block. Returns its instructions; 0 where it is not there.
    #[inline]
    pub fn push<'b>(
        &mut self,
        id: u32,
        cycle: u64,
        values: &[[u8; 8]],
        find: impl FnOnce() -> Option<&'b SharedBlock>,
    ) -> u16 {
        self.coder.push(id, cycle, values, self.base, find)
    }
}

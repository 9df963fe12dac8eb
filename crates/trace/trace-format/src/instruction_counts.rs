//! Accesses by instruction, without their addresses and their order: the basis of tables of functions and threads.
//!
//! A frame of block executions is counted execution by execution, not access by access, which is much faster than
//! expanding it; see `encoder::blocks`. Frames are counted on several threads, since nothing depends on their order.

use memref::ThreadId;

use crate::{
    Error, InstructionCount, InstructionTable, StreamKind, Trace, in_order::in_order, reader::FrameError,
};

impl Trace {
    /// What each instruction of a thread did, in the order of their addresses. `threads` of this process work on it. Frames that are
    /// damaged are left out, and noted as readers do.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn count_instructions(
        &self,
        thread: ThreadId,
        threads: usize,
    ) -> Result<Vec<InstructionCount>, Error> {
        let inner = self.inner();
        let mut table = InstructionTable::default();
        let Some(stream) = inner.stream(StreamKind::Accesses, Some(thread)) else { return Ok(Vec::new()) };
        in_order(
            stream.frames.len(),
            threads,
            || (),
            |(), place| {
                let mut counted = InstructionTable::default();
                let frame = &stream.frames[place];
                stream.count_instructions(&inner.file, &inner.encoders, frame, &mut counted).map(|()| counted)
            },
            |_, counted| match counted {
                Ok(counted) => {
                    table.join(counted);
                    Ok(())
                }
                Err(FrameError::Damaged(_)) => Ok(()),
                Err(FrameError::Failed(error)) => Err(error),
            },
        )?;
        Ok(table.into_sorted())
    }
}

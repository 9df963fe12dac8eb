//! The control flow of a trace recorded with `record --flow full`: the basic blocks that a thread entered.

mod executed;
mod instructions;

use std::sync::Arc;

use memref::ThreadId;
use trace_format::control_flow::{self, BlockEntry, FlowEntry};
use trace_format::{StreamKind, Trace, TypedCursor};

pub(crate) use executed::{Executed, ExecutedStretch};
pub use instructions::{
    ExecutedInstruction, InstructionFeed, InstructionKind, InstructionSink, UnknownInstructions,
};

use crate::Error;

/// A block that was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Instructions that the thread had executed before; of a machine: that it had.
    pub cycle: u64,
    /// The block.
    pub block: BlockEntry,
}

/// The blocks that there are in a trace. Empty where control flow was not recorded.
///
/// # Errors
/// Where the trace can't be read.
pub fn blocks(trace: &Trace) -> Result<Arc<[BlockEntry]>, Error> {
    Ok(control_flow::blocks(trace)?.into())
}

/// Goes through the blocks that a thread entered, in their order. Damaged parts are passed over.
#[derive(Debug)]
pub struct Flow {
    cursor: Option<TypedCursor>,
    blocks: Arc<[BlockEntry]>,
    /// Entries of the present frame, and how many of them are passed.
    entries: Vec<Entered>,
    passed: usize,
}

impl Flow {
    /// That thread's, with the trace's [`blocks()`].
    pub fn of(trace: &Trace, thread: ThreadId, blocks: &Arc<[BlockEntry]>) -> Self {
        let cursor = trace.typed(StreamKind::Flow, Some(thread));
        Self { cursor, blocks: blocks.clone(), entries: Vec::new(), passed: 0 }
    }

    /// Goes to a place not after the first entry of that cycle or a later one.
    pub fn seek(&mut self, cycle: u64) {
        if let Some(cursor) = &mut self.cursor {
            cursor.seek_cycle(cycle);
            (self.passed, self.entries) = (0, Vec::new());
        }
    }

    /// The next entry, which stays the next one.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn peek(&mut self) -> Result<Option<Entered>, Error> {
        while self.passed >= self.entries.len() {
            let Some(cursor) = &mut self.cursor else { return Ok(None) };
            let Some(frame) = cursor.next_frame()? else {
                self.cursor = None;
                continue;
            };
            let blocks = &self.blocks;
            let entered = |entry: FlowEntry| {
                let block = *blocks.get(entry.block as usize).filter(|&&block| block != BlockEntry::NONE)?;
                Some(Entered { cycle: entry.cycle, block })
            };
            self.entries.clear();
            let entries = frame.bytes.chunks_exact(FlowEntry::BYTES).map(FlowEntry::from_bytes);
            self.entries.extend(entries.filter_map(entered));
            self.passed = 0;
        }
        Ok(self.entries.get(self.passed).copied())
    }

    /// Passes the next entry.
    ///
    /// # Errors
    /// Where the trace can't be read.
    pub fn advance(&mut self) -> Result<Option<Entered>, Error> {
        let next = self.peek()?;
        self.passed += usize::from(next.is_some());
        Ok(next)
    }
}

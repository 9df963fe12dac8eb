//! The sink's state of one traced thread: its shard of the trace, and its place in its stream of events.

use std::collections::{BTreeMap, VecDeque};

use buffers::Content;
use memref::{Event, Order, OrderMark, ThreadId};
use trace_format::{Error, ShardWriter};

use super::gathered::HeldBuffer;
use super::piece_coder::CodingPiece;
use super::stepped::SteppedStretch;
use crate::sink::flow::ThreadFlow;
use crate::sink::session_blocks::ExecutableBlocks;

/// One traced thread.
pub(super) struct TracedThread {
    /// Its process's number in the pool.
    pub(super) process: u32,
    pub(super) id: ThreadId,
    pub(super) shard: ShardWriter,
    /// Memory of what waits there to be written, when it was last looked at.
    pub(super) open_bytes: usize,
    /// Events so far: the cycle of the next one.
    pub(super) cycle: u64,
    /// The last order that it is known to come after.
    pub(super) order: Order,
    /// The buffer that comes next.
    pub(super) sequence: u32,
    /// Buffers that came before their turn: kernel-side races between submission and our look.
    pub(super) early: BTreeMap<u32, (Content, HeldBuffer)>,
    /// Whether its buffers are coded by pieces.
    pub(super) by_pieces: bool,
    /// Buffers that will be a piece.
    pub(super) gathered: Vec<HeldBuffer>,
    /// Its pieces that are being coded, in their order.
    pub(super) coding: VecDeque<CodingPiece>,
    /// Where its thread-local variables are, as far as its translated code told.
    pub(super) base: u64,
    /// From when on what it does next could have been done: when its last buffer was read, or it had not begun. Ns since the Unix epoch.
    pub(super) since_ns: u64,
    /// Bytes that were read of the buffer that it fills.
    pub(super) read: usize,
    /// Its number in the pool.
    pub(super) number: u32,
    /// The last block that it executed, as long as what waits to be written holds its accesses.
    pub(super) last: Option<LastBlock>,
    /// What is stepped just now.
    pub(super) stretch: Option<SteppedStretch>,
    /// Which blocks it enters, where that is kept.
    pub(super) flow: Option<ThreadFlow>,
}

impl TracedThread {
    /// Only so many instructions of the last block were executed: where its accesses begin among those that wait, and the cycle at
    /// which it was left.
    pub(super) fn cut(&mut self, executed: u64) -> Option<(usize, u64)> {
        let last = self.last.take()?;
        let executed = executed.min(last.instructions.into());
        self.cycle -= u64::from(last.instructions) - executed;
        Some((last.first, last.from + executed))
    }

    /// It enters that block of its process.
    #[inline]
    pub(super) fn enter(&mut self, known: &ExecutableBlocks, id: u32) -> Result<(), Error> {
        match &mut self.flow {
            Some(flow) => known.listed(id).map_or(Ok(()), |block| flow.enter(self.cycle, block)),
            None => Ok(()),
        }
    }

    /// An event that counts as one of the thread's.
    pub(super) fn push_counted(&mut self, event: &Event<&str>) -> Result<(), Error> {
        self.cycle += 1;
        self.shard.push(event)
    }

    /// What follows came after that order: the thread says so itself.
    pub(super) fn follow(&mut self, order: Order) -> Result<(), Error> {
        self.order = order;
        self.shard.push(&Event::Order(OrderMark { cycle: self.cycle, order }))
    }

    /// What comes from that cycle on came after that order.
    pub(super) fn mark(&mut self, cycle: u64, order: Order) -> Result<(), Error> {
        if order <= self.order {
            return Ok(());
        }
        self.order = order;
        self.shard.push(&Event::Order(OrderMark { cycle, order }))
    }
}

/// The last block that a thread executed.
#[derive(Clone, Copy)]
pub(super) struct LastBlock {
    /// Its first access among those that wait to be written.
    pub(super) first: usize,
    /// The thread's cycle at its start.
    pub(super) from: u64,
    pub(super) instructions: u16,
}

//! How many pieces of which threads are in progress, and how many may be.

use std::collections::VecDeque;
use std::sync::Arc;

use trace_server::Workers;

use super::gathered::{HeldBuffer, SpareRooms};
use crate::store::memory_plan::MemoryPlan;

/// What a buffer holds at least where it is full of blocks: what is read is counted before it is coded.
const ACCESSES_A_BUFFER: u64 = 4096;

/// The pieces of all threads.
pub(super) struct Pieces {
    /// Whoever reads codes where there are none.
    pub(super) workers: Option<Arc<Workers>>,
    /// How many buffers there may be.
    pub(super) limits: MemoryPlan,
    /// Whether so many buffers wait for whoever reads that workers are to help.
    pub(super) is_behind: bool,
    /// The threads whose pieces are on their way, the earliest first. What a thread was made to finish stays here until its turn.
    pub(super) sent: VecDeque<u32>,
    /// Buffers that wait to become pieces, and those of pieces on their way.
    pub(super) gathered: usize,
    pub(super) coding: usize,
    spare: SpareRooms,
}

impl Pieces {
    pub(super) fn new(workers: Option<Arc<Workers>>, limits: MemoryPlan) -> Self {
        let (sent, spare) = (VecDeque::new(), SpareRooms::default());
        Self { workers, limits, is_behind: false, sent, gathered: 0, coding: 0, spare }
    }

    /// Whether some are on their way.
    pub(super) fn are_some(&self) -> bool {
        self.gathered + self.coding > 0
    }

    /// Copies a buffer of the pool.
    pub(super) fn hold(&mut self, buffer: buffers::Buffer, filled: usize) -> HeldBuffer {
        HeldBuffer::read(buffer, filled, self.spare.take())
    }

    /// A buffer was read.
    pub(super) fn release(&mut self, buffer: HeldBuffer) {
        self.spare.give_back(buffer, self.limits.coding_buffers);
    }

    /// Accesses that are in none of the totals yet, about.
    pub(super) fn expected_accesses(&self) -> u64 {
        (self.gathered + self.coding) as u64 * ACCESSES_A_BUFFER
    }
}

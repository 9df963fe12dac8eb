//! How many pieces of which threads are on their way, and how many may be.

use std::collections::VecDeque;
use std::sync::Arc;

use trace_server::Workers;

use super::gathered::{HeldBuffer, SpareRooms};

/// Buffers of a piece. More make longer frames where workers are late, fewer let them help each other sooner.
const PIECE_BUFFERS: usize = 128;
/// Buffers of all threads that may wait to become pieces.
pub(super) const MOST_GATHERED: usize = 512;
/// Pieces on their way, for each worker: one that it codes and one that waits for it.
const PIECES_A_WORKER: usize = 2;
/// Buffers of pieces on their way, however many workers there are.
const MOST_CODING: usize = 1024;
/// What a buffer holds at least where it is full of blocks: what is read is counted before it is coded.
const ACCESSES_A_BUFFER: u64 = 4096;

/// The pieces of all threads.
pub(super) struct Pieces {
    /// Whoever reads codes where there are none.
    pub(super) workers: Option<Arc<Workers>>,
    /// Buffers of a piece.
    pub(super) most_buffers: usize,
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
    pub(super) fn new(workers: Option<Arc<Workers>>) -> Self {
        let (sent, spare) = (VecDeque::new(), SpareRooms::default());
        Self { workers, most_buffers: PIECE_BUFFERS, is_behind: false, sent, gathered: 0, coding: 0, spare }
    }

    /// Whether some are on their way.
    pub(super) fn are_some(&self) -> bool {
        self.gathered + self.coding > 0
    }

    /// Buffers of pieces that may be on their way.
    pub(super) fn most_coding(&self) -> usize {
        let workers = self.workers.as_ref().map_or(1, |workers| workers.count().max(1));
        (workers * PIECES_A_WORKER * self.most_buffers).min(MOST_CODING)
    }

    /// Copies a buffer of the pool.
    pub(super) fn hold(&mut self, buffer: buffers::Buffer, filled: usize) -> HeldBuffer {
        HeldBuffer::read(buffer, filled, self.spare.take())
    }

    /// A buffer was read.
    pub(super) fn release(&mut self, buffer: HeldBuffer) {
        let most = self.most_coding();
        self.spare.give_back(buffer, most);
    }

    /// Accesses that are in none of the totals yet, about.
    pub(super) fn expected_accesses(&self) -> u64 {
        (self.gathered + self.coding) as u64 * ACCESSES_A_BUFFER
    }
}

//! What a frame is coded from: executions as a recorder pushes them.
//!
//! Pushing is all that the recording thread does, so it is little more than two copies to vectors, whose memory goes from one frame
//! to another.

use std::sync::{Arc, Mutex, PoisonError};

use blocks::BasicBlock;
use memref::Access;

/// What a frame is coded from: executions and single accesses, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Executions {
    /// Its blocks, from number 1.
    pub(super) used: Vec<Arc<BasicBlock>>,
    /// Of each execution the number of its block and the instructions between it and the one before ([`LONG_STEP`], and two
    /// halves, where those are many). A zero stands for a single access.
    pub(super) order: Vec<u32>,
    /// The values of all executions.
    pub(super) values: Vec<[u8; 8]>,
    /// The single accesses.
    pub(super) singles: Vec<Access>,
    /// The cycle at which the frame begins.
    pub(super) start: u64,
    /// The thread's fs base in all of its executions.
    pub(super) base: u64,
    /// Accesses of all executions, and the single ones.
    pub(super) count: u64,
}

/// See [`Executions::order`].
pub(super) const LONG_STEP: u32 = u32::MAX;
/// Frames whose memory is kept for the next ones: fresh pages cost more than what is written to them.
const SPARES: usize = 4;
static SPARE: Mutex<Vec<Executions>> = Mutex::new(Vec::new());

impl Executions {
    /// Empty, with the memory of one that was coded.
    pub(super) fn spare() -> Self {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(super) fn give_back(self) {
        let Self { mut order, mut values, .. } = self;
        order.clear();
        values.clear();
        let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES {
            spares.push(Self { order, values, ..Self::default() });
        }
    }
}

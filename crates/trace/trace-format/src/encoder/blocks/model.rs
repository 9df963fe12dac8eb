//! What predicts the next execution: of each block of the frame its last two successors, with the instructions that lay between,
//! and of each of its values the last one, its stride, and its distance from the value recorded before it.
//!
//! Encoder and decoder walk the same model, so that neither successors nor values need be written where they are as predicted.

use super::codes::BLOCK_MASK;

/// What is known of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockHistory {
    /// Where its values are among all.
    pub(super) values: u32,
    pub(super) count: u8,
    /// The numbers of its last two successors, the last one first.
    pub(super) next: [u32; 2],
    /// Instructions between it and each of them, the last time.
    pub(super) steps: [u64; 2],
}

/// What is known of one value of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ValueHistory {
    pub(super) last: u64,
    pub(super) stride: u64,
    pub(super) relation: u64,
}

impl ValueHistory {
    #[inline]
    pub(super) fn settle(&mut self, value: u64, before: u64) {
        self.stride = value.wrapping_sub(self.last);
        self.relation = value.wrapping_sub(before);
        self.last = value;
    }
}

/// What execution after execution leaves. Block 0 is none: where the frame begins.
#[derive(Debug)]
pub(super) struct BlockModel {
    /// Its blocks, by their numbers.
    pub(super) states: Vec<BlockHistory>,
    /// The values of all of them.
    pub(super) values: Vec<ValueHistory>,
    /// The number of the block before.
    pub(super) previous: usize,
    /// The value recorded before.
    pub(super) value: u64,
    /// The cycle after the last block.
    pub(super) cycle: u64,
}

impl BlockModel {
    pub(super) fn new(cycle: u64) -> Self {
        let mut model = Self { states: Vec::new(), values: Vec::new(), previous: 0, value: 0, cycle };
        model.begin(cycle);
        model
    }

    /// Begins anew, with the memory that it has.
    pub(super) fn begin(&mut self, cycle: u64) {
        let start = BlockHistory { values: 0, count: 0, next: [0; 2], steps: [0; 2] };
        self.states.clear();
        self.states.push(start);
        self.values.clear();
        (self.previous, self.value, self.cycle) = (0, 0, cycle);
    }

    pub(super) fn add(&mut self, count: u8) -> u32 {
        let number = self.states.len() as u32;
        let values = self.values.len() as u32;
        self.states.push(BlockHistory { values, count, next: [0; 2], steps: [0; 2] });
        self.values.resize(self.values.len() + usize::from(count), ValueHistory::default());
        number
    }

    /// Enters what came after the previous block.
    #[inline]
    pub(super) fn follow(&mut self, code: u8, number: u32, step: u64) {
        if let Some(previous) = self.states.get_mut(self.previous) {
            if code & BLOCK_MASK != 0 {
                previous.next = [number, previous.next[0]];
                previous.steps[1] = previous.steps[0];
            }
            previous.steps[0] = step;
        }
        self.previous = number as usize;
    }
}

//! The model that predicts the next execution. For each block of the frame it holds the last two
//! successors, with the instructions between the block and them; for each value of the block,
//! the last value and its stride. The predicted distance between two values is the previous one.
//!
//! Encoder and decoder walk the same model, so neither successors nor values need to be written where they are as
//! predicted. The data for an execution is close together: a cache line for its block, and usually one for its values.

use blocks::SharedBlock;

use super::codes::BLOCK_MASK;

/// A recorder's number that no block has.
const NO_BLOCK: u32 = u32::MAX;

/// What is known of one block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct BlockHistory {
    /// Instructions between it and each of its last two successors, the last time.
    pub(super) steps: [u64; 2],
    /// The value that was recorded before its first one, the last time.
    pub(super) before: u64,
    /// The numbers of its last two successors, the last one first, and what their recorder calls them.
    pub(super) next: [u32; 2],
    pub(super) next_ids: [u32; 2],
    /// The recorder's number of it.
    pub(super) id: u32,
    /// Where its values are among all.
    pub(super) values: u32,
    /// Executions, and how many there were when values were last looked at one by one: an encoder counts them.
    pub(super) times: u32,
    pub(super) looked_at: u32,
    pub(super) instructions: u16,
    /// Accesses of each execution, where it is plain.
    pub(super) accesses: u16,
    /// Values that a frame keeps of an execution.
    pub(super) count: u8,
    /// Whether nothing about its executions follows from their values, and they have no orders.
    pub(super) is_plain: bool,
    /// Whether a value of the last execution was not as predicted: an encoder looks at each by itself then.
    pub(super) is_unsteady: bool,
}

const _: () = assert!(size_of::<BlockHistory>() == 64, "a cache line");

impl BlockHistory {
    /// Where the frame begins.
    const START: Self = Self {
        steps: [0; 2],
        before: 0,
        next: [0; 2],
        next_ids: [NO_BLOCK; 2],
        id: NO_BLOCK,
        values: 0,
        times: 0,
        looked_at: 0,
        instructions: 0,
        accesses: 0,
        count: 0,
        is_plain: false,
        is_unsteady: false,
    };
}

/// What is known of one value of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ValueHistory {
    pub(super) last: u64,
    pub(super) stride: u64,
}

impl ValueHistory {
    /// The value that comes next if it is as predicted.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.last.wrapping_add(self.stride)
    }

    #[inline]
    pub(super) fn settle(&mut self, value: u64) {
        self.stride = value.wrapping_sub(self.last);
        self.last = value;
    }
}

/// What execution after execution leaves. Block 0 is none: where the frame begins.
#[derive(Debug)]
pub(super) struct BlockModel {
    /// Its blocks, by their numbers.
    pub(super) blocks: Vec<BlockHistory>,
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
        let mut model = Self { blocks: Vec::new(), values: Vec::new(), previous: 0, value: 0, cycle };
        model.begin(cycle);
        model
    }

    /// Begins anew, with the memory that it has.
    pub(super) fn begin(&mut self, cycle: u64) {
        self.blocks.clear();
        self.blocks.push(BlockHistory::START);
        self.values.clear();
        (self.previous, self.value, self.cycle) = (0, 0, cycle);
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.blocks.capacity() * size_of::<BlockHistory>()
            + self.values.capacity() * size_of::<ValueHistory>()
    }

    /// Bytes of it that are no room for more.
    pub(super) fn filled(&self) -> usize {
        self.blocks.len() * size_of::<BlockHistory>() + self.values.len() * size_of::<ValueHistory>()
    }

    /// Adds a block, which its recorder calls `id`. Returns its number.
    pub(super) fn add(&mut self, id: u32, block: &SharedBlock) -> u32 {
        let number = self.blocks.len() as u32;
        let count = block.kept_values();
        self.blocks.push(BlockHistory {
            id,
            values: self.values.len() as u32,
            instructions: block.instructions(),
            accesses: block.fixed_count().unwrap_or(0),
            count,
            is_plain: block.is_fixed() && block.has_no_orders(),
            ..BlockHistory::START
        });
        self.values.resize(self.values.len() + usize::from(count), ValueHistory::default());
        number
    }

    /// Enters what came after the previous block.
    #[inline]
    pub(super) fn follow(&mut self, code: u8, number: u32, step: u64) {
        let is_predicted = code & BLOCK_MASK == 0;
        let id = if is_predicted { NO_BLOCK } else { self.id_of(number) };
        if let Some(previous) = self.blocks.get_mut(self.previous) {
            if !is_predicted {
                previous.next = [number, previous.next[0]];
                previous.next_ids = [id, previous.next_ids[0]];
                previous.steps[1] = previous.steps[0];
            }
            previous.steps[0] = step;
        }
        self.previous = number as usize;
    }

    fn id_of(&self, number: u32) -> u32 {
        self.blocks.get(number as usize).map_or(NO_BLOCK, |block| block.id)
    }
}

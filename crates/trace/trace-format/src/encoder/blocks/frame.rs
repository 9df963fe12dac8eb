//! A frame of block executions, while it grows and when it is complete.
//!
//! It is kept as it comes, and coded by whoever first asks the complete frame for its bytes or bounds: mostly not the thread that
//! records.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use blocks::{BasicBlock, MAX_ACCESSES};
use memref::Access;

use super::codes::COLUMNS;
use super::encoding::FrameCoder;
use super::executions::{Executions, LONG_STEP};
use crate::encoder::attribute::Attribute;
use crate::{Bounds, MAX_FRAME_ENTRIES};

/// Accesses of a frame.
const FRAME_ACCESSES: u64 = 1 << 20;
/// A string instruction that made more of them is kept as single ones, frame by frame.
pub(super) const MANY: u64 = 1 << 18;
const _: () = assert!(MAX_ACCESSES <= MANY as usize);

/// A frame of block executions that grows. They are kept as they come, and coded by whoever first looks at the frame when it is
/// finished: mostly not the thread that records.
#[derive(Debug, Default)]
pub struct BlockFrame {
    executions: Executions,
    /// From the recorder's numbers of blocks to ours; those of earlier frames are told by the block.
    numbers: Vec<u32>,
    /// The cycle after the last block.
    cycle: u64,
}

/// A frame that is complete.
#[derive(Debug)]
pub struct CodedFrame {
    executions: Executions,
    coded: OnceLock<(Bounds, Vec<Attribute>)>,
}

impl Drop for CodedFrame {
    fn drop(&mut self) {
        std::mem::take(&mut self.executions).give_back();
    }
}

impl CodedFrame {
    fn coded(&self) -> &(Bounds, Vec<Attribute>) {
        thread_local! {
            /// Room for the columns of one frame after the other.
            static COLUMNS_OF_THREAD: RefCell<[Vec<u8>; COLUMNS]> = const { RefCell::new([const { Vec::new() }; COLUMNS]) };
        }
        self.coded.get_or_init(|| {
            COLUMNS_OF_THREAD.with_borrow_mut(|columns| FrameCoder::new(&self.executions, columns).code())
        })
    }

    /// What the accesses span, but for the wall clock: of blocks from the extremes of their values, so that it may be a little
    /// more. As [`Self::parts`], this takes a while the first time.
    pub fn bounds(&self) -> Bounds {
        self.coded().0
    }

    /// Its attributes.
    pub fn parts(&self) -> &[Attribute] {
        &self.coded().1
    }

    /// Accesses in it.
    pub fn count(&self) -> u64 {
        self.executions.count
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let Executions { order, values, singles, .. } = &self.executions;
        size_of_val(&order[..]) + size_of_val(&values[..]) + size_of_val(&singles[..])
    }
}

impl BlockFrame {
    /// Accesses in it.
    pub fn len(&self) -> u64 {
        self.executions.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.executions.count == 0
    }

    /// Whether it is as long as a frame should be.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.executions.count >= FRAME_ACCESSES
    }

    /// Whether an execution can be added: so many accesses, with that fs base. If not, and the frame is not empty, the frame is
    /// to be finished first; if not even then, the accesses are to be added one by one.
    #[inline]
    pub fn takes(&self, count: u64, base: u64) -> bool {
        count <= MANY
            && self.executions.count + count <= MAX_FRAME_ENTRIES as u64
            && (self.executions.used.is_empty() || self.executions.base == base)
    }

    fn begin(&mut self, cycle: u64) {
        self.executions.start = cycle;
        self.cycle = cycle;
    }

    /// Adds an execution that [`Self::takes`] accepts. `id` is the recorder's number of the block, one number for one block at a
    /// time; `count` what the block says of the values.
    #[inline]
    pub fn push(
        &mut self,
        id: u32,
        block: &Arc<BasicBlock>,
        cycle: u64,
        values: &[[u8; 8]],
        base: u64,
        count: u64,
    ) {
        if count == 0 {
            return;
        }
        if self.executions.count == 0 {
            self.begin(cycle);
        }
        let number = match self.numbers.get(id as usize) {
            Some(&number)
                if self
                    .executions
                    .used
                    .get((number as usize).wrapping_sub(1))
                    .is_some_and(|used| Arc::ptr_eq(used, block)) =>
            {
                number
            }
            _ => self.enter(id as usize, block, base),
        };
        let executions = &mut self.executions;
        let step = cycle.wrapping_sub(self.cycle);
        match u32::try_from(step) {
            Ok(short) if short != LONG_STEP => executions.order.extend_from_slice(&[number, short]),
            _ => {
                let halves = [step as u32, (step >> 32) as u32];
                executions.order.extend_from_slice(&[number, LONG_STEP, halves[0], halves[1]]);
            }
        }
        executions.values.extend_from_slice(values.get(..usize::from(block.kept_values())).unwrap_or(values));
        executions.count += count;
        self.cycle = cycle + u64::from(block.instructions());
    }

    /// The number of a block that appears for the first time.
    #[cold]
    fn enter(&mut self, id: usize, block: &Arc<BasicBlock>, base: u64) -> u32 {
        let executions = &mut self.executions;
        if executions.used.is_empty() {
            executions.base = base;
        }
        executions.used.push(block.clone());
        let number = executions.used.len() as u32;
        if self.numbers.len() <= id {
            self.numbers.resize(id + 1, 0);
        }
        self.numbers[id] = number;
        number
    }

    /// Adds an access by itself. The caller keeps the frame within [`crate::MAX_FRAME_ENTRIES`].
    pub fn push_single(&mut self, access: &Access) {
        if self.executions.count == 0 {
            self.begin(access.cycle);
        }
        self.executions.count += 1;
        self.executions.order.push(0);
        self.executions.singles.push(*access);
    }

    /// The fs base of the executions in it.
    pub fn base(&self) -> u64 {
        self.executions.base
    }

    /// The cycle of the first access; all ones where there is none.
    pub fn first_cycle(&self) -> u64 {
        if self.is_empty() { u64::MAX } else { self.executions.start }
    }

    /// Ends the frame and begins an empty one.
    pub fn finish(&mut self) -> CodedFrame {
        let executions = std::mem::replace(&mut self.executions, Executions::spare());
        CodedFrame { executions, coded: OnceLock::new() }
    }
}

//! A frame of block executions, while it grows and when it is complete.
//!
//! Executions are coded as they arrive. What the complete frame needs besides its columns (the bounds and
//! counts of its accesses, its bytes in one piece) is computed on first use, mostly by a worker of the store.

use std::sync::{Mutex, OnceLock, PoisonError};

use blocks::{MAX_ACCESSES, SharedBlock};
use memref::Access;

use super::encoding::{CodedContent, ExpectedBlock, FrameCoder};
use crate::encoder::attribute::Attribute;
use crate::{AccessCounts, Bounds, MAX_FRAME_ENTRIES};

/// Accesses of a frame.
const FRAME_ACCESSES: u64 = 1 << 20;
/// Of them by themselves: each takes 32 bytes until it is coded, where an execution takes a few.
const FRAME_SINGLES: usize = 1 << 18;
/// A string instruction that made more of them is kept as single ones, frame by frame.
pub(super) const MANY: u64 = 1 << 18;
const _: () = assert!(MAX_ACCESSES <= MANY as usize);

/// A frame of block executions that grows.
#[derive(Debug, Default)]
pub struct BlockFrame {
    /// There once something was added.
    coder: Option<FrameCoder>,
    /// The fs base of its executions, once there is one.
    base: Option<u64>,
}

/// A frame that is complete.
#[derive(Debug)]
pub struct CodedFrame {
    count: u64,
    memory: usize,
    filled: usize,
    /// There until somebody needs the content.
    coder: Mutex<Option<FrameCoder>>,
    coded: OnceLock<CodedContent>,
    /// Its attributes where no other frame defines its blocks.
    alone: OnceLock<[Attribute; 1]>,
}

impl CodedFrame {
    fn coded(&self) -> &CodedContent {
        self.coded.get_or_init(|| {
            let coder = self.coder.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut coder = coder.unwrap_or_else(FrameCoder::spare);
            let coded = coder.code();
            coder.give_back();
            coded
        })
    }

    /// What the accesses span, but for the wall clock: of blocks from the extremes of their values, so that it may be a little
    /// more. As all of its content, this takes a while the first time.
    pub fn bounds(&self) -> Bounds {
        self.coded().bounds
    }

    /// The accesses by kind. As all of its content, this takes a while the first time.
    pub fn counts(&self) -> AccessCounts {
        self.coded().counts
    }

    /// Its attributes, with the definitions of all its blocks.
    pub fn parts(&self) -> &[Attribute] {
        self.alone.get_or_init(|| [self.coded().with_definitions()])
    }

    /// Its attribute without the definitions of its blocks.
    pub(crate) fn columns(&self) -> &Attribute {
        &self.coded().columns
    }

    /// Its blocks, in the order in which they appear.
    pub(crate) fn blocks(&self) -> &[SharedBlock] {
        &self.coded().blocks
    }

    /// Accesses in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of that, what is not room for more: what coding it takes grows with this.
    pub fn filled_bytes(&self) -> usize {
        self.filled
    }

    /// Bytes of memory that it takes before it is coded.
    pub fn bytes(&self) -> usize {
        self.memory
    }
}

impl BlockFrame {
    fn coder(&mut self) -> &mut FrameCoder {
        self.coder.get_or_insert_with(FrameCoder::spare)
    }

    /// Accesses in it.
    #[inline]
    pub fn len(&self) -> u64 {
        self.coder.as_ref().map_or(0, |coder| coder.count)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is as long as a frame should be.
    #[inline]
    pub fn is_full(&self) -> bool {
        let is_full = |coder: &FrameCoder| coder.count >= FRAME_ACCESSES || coder.singles() >= FRAME_SINGLES;
        self.coder.as_ref().is_some_and(is_full)
    }

    /// Bytes of what was added, and of what predicts it. Its memory is at most about twice that, and what earlier frames left in it.
    pub fn filled_bytes(&self) -> usize {
        self.coder.as_ref().map_or(0, FrameCoder::filled)
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.coder.as_ref().map_or(0, FrameCoder::memory)
    }

    /// Whether an execution can be added: so many accesses, with that fs base. If not, and the frame is not empty, the frame is to be
    /// finished first; if not even then, the accesses are to be added one by one.
    #[inline]
    pub fn takes(&self, count: u64, base: u64) -> bool {
        count <= MANY
            && self.len() + count <= MAX_FRAME_ENTRIES as u64
            && self.base.is_none_or(|own| own == base)
    }

    /// Adds an execution that [`Self::takes`] accepts. `id` is the recorder's number of the block, one number for one block as long as
    /// the frame grows; `count` what the block says of the values.
    #[inline]
    pub fn push(
        &mut self,
        id: u32,
        block: &SharedBlock,
        cycle: u64,
        values: &[[u8; 8]],
        base: u64,
        count: u64,
    ) {
        if count > 0 {
            self.base = Some(base);
            self.coder().push(id, block, cycle, values, base, count);
        }
    }

    /// The block of that number where it was executed before with that fs base, unless the frame is full: its executions can be added
    /// by [`Self::push_expected`]. Not one whose accesses follow from its values, or that has orders.
    #[inline]
    pub fn expect(&self, id: u32, base: u64) -> Option<ExpectedBlock> {
        let coder = self.coder.as_ref().filter(|coder| coder.count < FRAME_ACCESSES)?;
        if self.base == Some(base) { coder.expect(id) } else { None }
    }

    /// Adds an execution of the block that was expected last.
    #[inline]
    pub fn push_expected(&mut self, block: ExpectedBlock, cycle: u64, values: &[[u8; 8]]) {
        if let Some(coder) = &mut self.coder {
            coder.push_expected(block, cycle, values);
        }
    }

    /// Adds an access by itself. The caller keeps the frame within [`crate::MAX_FRAME_ENTRIES`].
    pub fn push_single(&mut self, access: &Access) {
        self.coder().push_single(access);
    }

    /// The fs base of the executions in it.
    pub fn base(&self) -> u64 {
        self.base.unwrap_or(0)
    }

    /// The cycle of the first access, or an earlier one; all ones where there is none.
    pub fn first_cycle(&self) -> u64 {
        self.coder.as_ref().filter(|coder| coder.count > 0).map_or(u64::MAX, |coder| coder.start)
    }

    /// Of a frame that was filled by who did not know when its thread came there, and with which fs base: all cycles become that much
    /// later, and all executions are with that base.
    pub fn begin_at(&mut self, cycle: u64, base: u64) {
        if let Some(coder) = &mut self.coder {
            coder.begin_at(cycle, base);
        }
        self.base = self.base.map(|_| base);
    }

    /// Ends the frame and begins an empty one.
    pub fn finish(&mut self) -> CodedFrame {
        let Self { coder, .. } = std::mem::take(self);
        CodedFrame {
            count: coder.as_ref().map_or(0, |coder| coder.count),
            memory: coder.as_ref().map_or(0, FrameCoder::memory),
            filled: coder.as_ref().map_or(0, FrameCoder::filled),
            coder: Mutex::new(coder),
            coded: OnceLock::new(),
            alone: OnceLock::new(),
        }
    }
}

//! A frame of block executions, while it grows and when it is complete.
//!
//! A frame that grows holds *runs* of executions as the recorder found them, in the buffers that a traced thread filled. They are
//! coded, in one pass, by whoever asks the complete frame for its bytes or bounds, mostly a worker of the store: frames depend on
//! nothing before them, so that several are coded beside each other, of one thread, too. Who has too many buffers in hand codes what
//! waits at once ([`BlockFrame::code_waiting`]); the bytes are the same.

use std::sync::{Mutex, OnceLock, PoisonError};

use blocks::{MAX_ACCESSES, SharedBlock};
use memref::Access;

use super::encoding::{CodedContent, FrameCoder};
use super::run::{ExecutionRun, RunCoder, RunOutline};
use crate::encoder::attribute::Attribute;
use crate::{AccessCounts, Bounds, MAX_FRAME_ENTRIES};

/// Accesses of a frame.
const FRAME_ACCESSES: u64 = 1 << 20;
/// A string instruction that made more of them is kept as single ones, frame by frame.
pub(super) const MANY: u64 = 1 << 18;
const _: () = assert!(MAX_ACCESSES <= MANY as usize);

/// A frame of block executions that grows.
#[derive(Debug, Default)]
pub struct BlockFrame {
    uncoded: UncodedFrame,
    count: u64,
    /// The cycle of the first access, or earlier.
    start: u64,
    /// The fs base of its executions, once there is one.
    base: Option<u64>,
}

/// What a frame is until it is coded.
#[derive(Debug, Default)]
struct UncodedFrame {
    /// What was coded at once.
    coder: Option<FrameCoder>,
    /// What comes after it.
    waiting: Vec<WaitingPart>,
    /// Bytes of memory that these keep.
    memory: usize,
}

/// A part of a frame that waits to be coded.
#[derive(Debug)]
enum WaitingPart {
    Run { run: Box<dyn ExecutionRun>, base: u64 },
    Single(Access),
}

/// A frame that is complete.
#[derive(Debug)]
pub struct CodedFrame {
    count: u64,
    memory: usize,
    uncoded: Mutex<UncodedFrame>,
    coded: OnceLock<CodedContent>,
    /// Its attributes where no other frame defines its blocks.
    alone: OnceLock<[Attribute; 1]>,
}

impl UncodedFrame {
    /// Codes what waits.
    fn coder(&mut self) -> &mut FrameCoder {
        let coder = self.coder.get_or_insert_with(FrameCoder::spare);
        for part in self.waiting.drain(..) {
            match part {
                WaitingPart::Run { run, base } => run.code(&mut RunCoder { coder, base }),
                WaitingPart::Single(access) => coder.push_single(&access),
            }
        }
        self.memory = 0;
        coder
    }
}

impl CodedFrame {
    fn coded(&self) -> &CodedContent {
        self.coded.get_or_init(|| {
            let mut uncoded = self.uncoded.lock().unwrap_or_else(PoisonError::into_inner);
            let coder = uncoded.coder();
            debug_assert_eq!(coder.count, self.count, "runs have the accesses that were told of them");
            let coded = coder.code();
            if let Some(coder) = uncoded.coder.take() {
                coder.give_back();
            }
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

    /// Bytes of memory that it takes before it is coded.
    pub fn bytes(&self) -> usize {
        self.memory
    }
}

impl BlockFrame {
    /// Accesses in it.
    #[inline]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it is as long as a frame should be.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count >= FRAME_ACCESSES
    }

    /// Whether an execution or a run can be added: so many accesses, with that fs base. If not, and the frame is not empty, the frame
    /// is to be finished first; if not even then, the accesses are to be added one by one.
    #[inline]
    pub fn takes(&self, count: u64, base: u64) -> bool {
        count <= MANY
            && self.count + count <= MAX_FRAME_ENTRIES as u64
            && self.base.is_none_or(|own| own == base)
    }

    fn add(&mut self, cycle: u64, count: u64) {
        if self.count == 0 {
            self.start = cycle;
        }
        self.count += count;
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
            self.add(cycle, count);
            self.base = Some(base);
            self.uncoded.coder().push(id, cycle, values, base, || Some(block));
        }
    }

    /// Adds a run that [`Self::takes`] accepts, to be coded later.
    pub fn push_run(&mut self, run: Box<dyn ExecutionRun>, outline: &RunOutline) {
        self.add(outline.first_cycle, outline.accesses);
        self.base = Some(outline.base);
        self.uncoded.memory += run.memory();
        self.uncoded.waiting.push(WaitingPart::Run { run, base: outline.base });
    }

    /// Adds an access by itself. The caller keeps the frame within [`crate::MAX_FRAME_ENTRIES`].
    pub fn push_single(&mut self, access: &Access) {
        self.add(access.cycle, 1);
        if self.uncoded.waiting.is_empty() {
            self.uncoded.coder().push_single(access);
        } else {
            self.uncoded.memory += size_of::<WaitingPart>();
            self.uncoded.waiting.push(WaitingPart::Single(*access));
        }
    }

    /// Codes what waits in it now: its runs are needed no more.
    pub fn code_waiting(&mut self) {
        if !self.uncoded.waiting.is_empty() {
            self.uncoded.coder();
        }
    }

    /// The fs base of the executions in it.
    pub fn base(&self) -> u64 {
        self.base.unwrap_or(0)
    }

    /// The cycle of the first access, or an earlier one; all ones where there is none.
    pub fn first_cycle(&self) -> u64 {
        if self.is_empty() { u64::MAX } else { self.start }
    }

    /// Ends the frame and begins an empty one.
    pub fn finish(&mut self) -> CodedFrame {
        let Self { uncoded, count, .. } = std::mem::take(self);
        let columns = uncoded.coder.as_ref().map_or(0, |coder| coder.memory());
        CodedFrame {
            count,
            memory: columns + uncoded.memory,
            uncoded: Mutex::new(uncoded),
            coded: OnceLock::new(),
            alone: OnceLock::new(),
        }
    }
}

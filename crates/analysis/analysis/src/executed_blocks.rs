//! The basic blocks of a trace's frames, each with one number for a whole replay, so that each block is examined only once.

use std::sync::Arc;

use blocks::SharedBlock;
use memref::{ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use trace_format::ExecutedFrame;

/// What blocks are looked up by; others may have the same, where code was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BlockKey {
    addr: VirtAddr,
    instructions: u16,
    values: u8,
}

/// The numbers of a frame's blocks.
#[derive(Clone, Debug, Default)]
struct FrameNumbers {
    serial: u64,
    numbers: Arc<[u32]>,
}

/// All blocks that were executed so far.
#[derive(Debug, Default)]
pub(crate) struct ExecutedBlocks {
    all: Vec<SharedBlock>,
    by_key: FxHashMap<BlockKey, Vec<u32>>,
    /// Of the frame that each thread is in.
    frames: FxHashMap<ThreadId, FrameNumbers>,
}

impl ExecutedBlocks {
    /// The numbers of the blocks of a frame, in its own order.
    pub(crate) fn enter(&mut self, thread: ThreadId, frame: &ExecutedFrame) -> Arc<[u32]> {
        let entered = self.frames.entry(thread).or_default();
        if entered.serial != frame.serial() {
            entered.serial = frame.serial();
            let numbers = frame.blocks().iter().map(|block| {
                let (addr, instructions, values) = (block.addr(), block.instructions(), block.kept_values());
                let same = self.by_key.entry(BlockKey { addr, instructions, values }).or_default();
                let same_block = |&&number: &&u32| {
                    let known = &self.all[number as usize];
                    known.is(block) || **known == **block
                };
                let known = same.iter().find(same_block);
                known.copied().unwrap_or_else(|| {
                    self.all.push(block.clone());
                    same.push(self.all.len() as u32 - 1);
                    self.all.len() as u32 - 1
                })
            });
            entered.numbers = numbers.collect();
        }
        entered.numbers.clone()
    }

    /// All blocks, by their numbers.
    pub(crate) fn all(&self) -> &[SharedBlock] {
        &self.all
    }
}

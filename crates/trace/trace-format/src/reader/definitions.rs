//! The blocks that frames name: found in the stream of definitions, and kept for the next frame that names them.
//!
//! A frame says where the epoch of its definitions begins, and the size of an epoch is bounded ([`EPOCH_ENTRIES`]).
//! Whatever a file claims, no more than a few epochs are therefore kept. Of an epoch, only the frames that contain
//! named definitions are read. All cursors of a file share this cache, even when the file has grown.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use blocks::{BasicBlock, Definition, SharedBlock};

use super::{
    file::{FrameError, TraceFile},
    stream::Stream,
};
use crate::{
    Encoders, StreamKind,
    encoder::{BlockNames, EPOCH_ENTRIES},
};

/// Epochs that are kept: threads are mostly read at about the same place of the file.
const KEPT: usize = 2;
const ENTRY_BYTES: usize = StreamKind::BlockDefinitions.entry_bytes();
const MISSING: &str = "a definition of a block that it names is missing";
const DAMAGED: &str = "a definition of a block that it names is damaged";

/// The definitions of a file that were read lately.
#[derive(Debug, Default)]
pub(crate) struct DefinitionCache {
    /// The one that was asked for last is the first.
    epochs: Mutex<VecDeque<DefinitionEpoch>>,
}

/// What is known of an epoch.
#[derive(Debug, Default)]
struct DefinitionEpoch {
    base: u64,
    /// By their places, as far as they were read.
    blocks: Vec<Option<SharedBlock>>,
    /// The frames that were read, by their offsets: whether they could be.
    read: BTreeMap<u64, Result<(), &'static str>>,
}

impl DefinitionCache {
    /// The blocks of those names. `stream` is the one of definitions.
    pub(super) fn blocks(
        &self,
        names: &BlockNames,
        stream: Option<&Stream>,
        file: &TraceFile,
        encoders: &Encoders,
    ) -> Result<Vec<SharedBlock>, FrameError> {
        let stream = stream.ok_or(FrameError::Damaged(MISSING))?;
        // Others that read frames wait while a definition is read, which most of them would need as well.
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.iter().position(|epoch| epoch.base == names.base);
        let epoch = known.and_then(|place| epochs.remove(place));
        let mut epoch = epoch.unwrap_or_else(|| DefinitionEpoch { base: names.base, ..Default::default() });
        let found = names.places.iter().map(|&place| epoch.block(place, stream, file, encoders)).collect();
        epochs.push_front(epoch);
        epochs.truncate(KEPT);
        found
    }
}

impl DefinitionEpoch {
    fn block(
        &mut self,
        place: u32,
        stream: &Stream,
        file: &TraceFile,
        encoders: &Encoders,
    ) -> Result<SharedBlock, FrameError> {
        let known = |epoch: &Self| epoch.blocks.get(place as usize).cloned().flatten();
        if let Some(block) = known(self) {
            return Ok(block);
        }
        self.read(place, stream, file, encoders)?;
        known(self).ok_or(FrameError::Damaged(MISSING))
    }

    /// Reads the frame that has that place, unless it was read before.
    fn read(
        &mut self,
        place: u32,
        stream: &Stream,
        file: &TraceFile,
        encoders: &Encoders,
    ) -> Result<(), FrameError> {
        let index = self.base.saturating_add(place.into());
        let number = stream.frames.partition_point(|frame| frame.header.end_index() <= index);
        let frame = stream.frames.get(number).filter(|frame| frame.header.first_index <= index);
        let frame = frame.ok_or(FrameError::Damaged(MISSING))?;
        if let Some(read) = self.read.get(&frame.offset) {
            return read.map_err(FrameError::Damaged);
        }
        let mut bytes = Vec::new();
        let read = if frame.header.entries > EPOCH_ENTRIES {
            Err(DAMAGED)
        } else {
            match stream.decode(file, encoders, frame, &mut bytes) {
                Ok(()) => self.keep(frame.header.first_index, &bytes),
                Err(FrameError::Damaged(_)) => Err(DAMAGED),
                Err(FrameError::Failed(error)) => return Err(FrameError::Failed(error)),
            }
        };
        self.read.insert(frame.offset, read);
        read.map_err(FrameError::Damaged)
    }

    /// Keeps the definitions of a frame, as far as they are of this epoch; of a damaged one none.
    fn keep(&mut self, first_index: u64, bytes: &[u8]) -> Result<(), &'static str> {
        let mut found = Vec::new();
        each_definition(bytes, |entry, block| {
            let place = (first_index + entry).checked_sub(self.base).filter(|&place| place < EPOCH_ENTRIES);
            found.extend(place.map(|place| (place as usize, SharedBlock::from(block))));
        })
        .ok_or(DAMAGED)?;
        for (place, block) in found {
            if self.blocks.len() <= place {
                self.blocks.resize(place + 1, None);
            }
            self.blocks[place] = Some(block);
        }
        Ok(())
    }
}

/// Gives the blocks that a frame of definitions has to `act`, with the entries before each; `None` where something else stands there.
pub(super) fn each_definition(bytes: &[u8], mut act: impl FnMut(u64, BasicBlock)) -> Option<()> {
    let mut at = 0;
    while at < bytes.len() {
        let (definition, len) = Definition::decode(bytes.get(at..)?)?;
        // A block without accesses is in no frame: who names one wants memory for nothing.
        let block = BasicBlock::new(&definition).filter(|block| !block.accesses().is_empty())?;
        act((at / ENTRY_BYTES) as u64, block);
        at += len;
    }
    Some(())
}

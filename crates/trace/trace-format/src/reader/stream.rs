//! One stream of an open trace: its frames in order, their decoding, and look-up of variable-sized data.

use std::sync::Arc;

use blocks::SharedBlock;
use memref::Access;

use super::{
    damage::Damage,
    file::{FrameError, TraceFile},
};
use crate::{
    Corrupt, Encoded, Encoder, Encoders, Error, ExecutedFrame, InstructionTable, StreamDescription,
    StreamKind,
    directory::FrameRef,
    encoder::{Attribute, BlockNames, number},
    entry::StreamEntry,
    var,
};

/// A stream and the frames that hold it, by sequence number.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) number: u32,
    pub(crate) description: StreamDescription,
    pub(crate) kind: Option<StreamKind>,
    pub(crate) frames: Vec<FrameRef>,
    /// The stream that has the definitions of the blocks that its frames name.
    definitions: Option<Arc<Stream>>,
}

impl Stream {
    /// Sorts the frames and names those that are missing or there twice.
    pub(crate) fn new(
        number: u32,
        description: StreamDescription,
        mut frames: Vec<FrameRef>,
        damage: &mut Vec<Damage>,
    ) -> Self {
        frames.sort_by_key(|frame| frame.header.sequence);
        let (mut sequence, mut index) = (0, 0);
        frames.retain(|frame| {
            let header = &frame.header;
            if header.sequence < sequence || header.first_index < index {
                let (offset, entries) = (frame.offset, header.entries);
                let what = "its sequence number or index is that of an earlier frame";
                damage.push(Damage::Frame { offset, stream: number, entries, what });
                return false;
            }
            if header.sequence > sequence || header.first_index > index {
                damage.push(Damage::Missing {
                    stream: number,
                    frames: header.sequence - sequence,
                    entries: header.first_index - index,
                    first_index: index,
                });
            }
            sequence = header.sequence.saturating_add(1);
            index = header.end_index();
            true
        });
        let kind = StreamKind::of(&description.entry_type);
        Self { number, description, kind, frames, definitions: None }
    }

    /// The stream, whose frames name blocks that the other one defines.
    pub(crate) fn with_definitions(self, definitions: Option<Arc<Stream>>) -> Self {
        Self { definitions, ..self }
    }

    /// Entries before the frame that are nowhere in the file.
    pub(crate) fn missing_before(&self, frame: usize) -> u64 {
        let Some(this) = self.frames.get(frame) else { return 0 };
        let before = frame.checked_sub(1).map_or(0, |before| self.frames[before].header.end_index());
        this.header.first_index.saturating_sub(before)
    }

    /// Reads a frame, and gives it to `decode`.
    fn decode_with(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        decode: impl FnOnce(&dyn Encoder, &Encoded<'_>) -> Result<(), Corrupt>,
    ) -> Result<(), FrameError> {
        let description = &self.description;
        let encoder = encoders.get(description.encoder).ok_or_else(|| {
            let (path, stream, encoder) = (file.path.clone(), self.number, description.encoder);
            FrameError::Failed(match number::retired(encoder) {
                Some(name) => Error::RetiredEncoder { path, stream, encoder, name },
                None => Error::UnknownEncoder { path, stream, encoder },
            })
        })?;
        let width = u64::from(description.entry_type.entry_bytes);
        let count = frame.header.entries;
        if count.checked_mul(width).is_none_or(|bytes| bytes > file.limits.frame_bytes) {
            return Err(FrameError::Damaged("it claims more entries than a frame may have"));
        }
        let parts = file.parts(frame, false)?;
        let blocks = self.named_blocks(file, encoders, &parts, count)?;
        let (entry_type, count) = (&description.entry_type, count as usize);
        let encoded = Encoded { entry_type, count, parts: &parts, blocks: &blocks };
        let decoded = decode(encoder.as_ref(), &encoded);
        decoded.map_err(|corrupt| FrameError::Damaged(corrupt.0))
    }

    /// The blocks that a frame names, if it is one of executions and does.
    fn named_blocks(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        parts: &[Attribute],
        entries: u64,
    ) -> Result<Vec<SharedBlock>, FrameError> {
        if !self.may_name_blocks() {
            return Ok(Vec::new());
        }
        match BlockNames::of(parts, entries) {
            Ok(Some(names)) => file.definitions.blocks(&names, self.definitions.as_deref(), file, encoders),
            Ok(None) => Ok(Vec::new()),
            Err(corrupt) => Err(FrameError::Damaged(corrupt.0)),
        }
    }

    /// Decodes a frame into the bytes of its entries, which replace what is in `out`.
    pub(crate) fn decode(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let width = u64::from(self.description.entry_type.entry_bytes);
        out.clear();
        let decoded = self
            .decode_with(file, encoders, frame, |encoder, encoded| encoder.decode(encoded, out))
            .and_then(|()| self.check_count(frame, out.len() as u64 / width));
        self.noted(file, frame, decoded)
    }

    /// Decodes a frame into its entries, which replace what is in `out`.
    pub(crate) fn decode_entries<E: StreamEntry>(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        out: &mut Vec<E>,
    ) -> Result<(), FrameError> {
        self.decode_entries_before(file, encoders, frame, None, out)
    }

    /// Decodes a frame into its entries, as [`Self::decode_entries`] does; with `end`, entries after the first one of that cycle or a later one may be left out.
    pub(crate) fn decode_entries_before<E: StreamEntry>(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        end: Option<u64>,
        out: &mut Vec<E>,
    ) -> Result<(), FrameError> {
        out.clear();
        let decoded = self
            .decode_with(file, encoders, frame, |encoder, encoded| E::decode(encoder, encoded, end, out))
            .and_then(|()| {
                let cut = end.is_some() && (out.len() as u64) < frame.header.entries;
                if cut { Ok(()) } else { self.check_count(frame, out.len() as u64) }
            });
        self.noted(file, frame, decoded)
    }

    /// Gives the accesses of a frame to `act`, some at a time. What was given before an error is not to be used.
    pub(crate) fn each_access(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        act: &mut dyn FnMut(&[Access]),
    ) -> Result<(), FrameError> {
        let mut given = 0;
        let mut counting = |accesses: &[Access]| {
            given += accesses.len() as u64;
            act(accesses);
        };
        let decoded = self
            .decode_with(file, encoders, frame, |encoder, encoded| {
                encoder.each_access(encoded, &mut counting)
            })
            .and_then(|()| self.check_count(frame, given));
        self.noted(file, frame, decoded)
    }

    /// Decodes a frame of accesses into executions, in place of what is in `out`.
    pub(crate) fn decode_executions(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        out: &mut ExecutedFrame,
    ) -> Result<(), FrameError> {
        out.begin();
        let decoded = self
            .decode_with(file, encoders, frame, |encoder, encoded| encoder.decode_executions(encoded, out))
            .and_then(|()| self.check_count(frame, out.accesses()));
        self.noted(file, frame, decoded)
    }

    /// Counts the accesses of a frame by instruction.
    pub(crate) fn count_instructions(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
        out: &mut InstructionTable,
    ) -> Result<(), FrameError> {
        let counted = self
            .decode_with(file, encoders, frame, |encoder, encoded| encoder.count_instructions(encoded, out));
        self.noted(file, frame, counted)
    }

    /// Verifies the checksums of a frame.
    pub(crate) fn verify(&self, file: &TraceFile, frame: &FrameRef) -> Result<(), FrameError> {
        self.noted(file, frame, file.parts(frame, true).map(|_| ()))
    }

    /// Whether its frames may name blocks, which other frames define.
    pub(crate) fn may_name_blocks(&self) -> bool {
        self.description.encoder == number::BLOCKS
    }

    /// Verifies that what a frame names is there, without decoding the frame.
    pub(crate) fn verify_names(
        &self,
        file: &TraceFile,
        encoders: &Encoders,
        frame: &FrameRef,
    ) -> Result<(), FrameError> {
        let parts = file.parts(frame, false);
        let found = parts
            .and_then(|parts| self.named_blocks(file, encoders, &parts, frame.header.entries))
            .map(|_| ());
        self.noted(file, frame, found)
    }

    /// Notes that a frame could not be read.
    fn noted(
        &self,
        file: &TraceFile,
        frame: &FrameRef,
        decoded: Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        if let Err(FrameError::Damaged(what)) = decoded {
            let (offset, entries) = (frame.offset, frame.header.entries);
            file.met.note(Damage::Frame { offset, stream: self.number, entries, what });
        }
        decoded
    }

    fn check_count(&self, frame: &FrameRef, count: u64) -> Result<(), FrameError> {
        if count == frame.header.entries {
            Ok(())
        } else {
            Err(FrameError::Damaged("its encoder gave another number of entries than the header says"))
        }
    }
}

/// Looks up variable-sized data; keeps the frame it decoded last.
#[derive(Debug)]
pub(crate) struct VarReader {
    stream: Option<Arc<Stream>>,
    decoded: Option<usize>,
    bytes: Vec<u8>,
}

impl VarReader {
    pub(crate) fn new(stream: Option<Arc<Stream>>) -> Self {
        Self { stream, decoded: None, bytes: Vec::new() }
    }

    /// The datum at a reference; `None` where it is damaged, missing, or none starts there.
    pub(crate) fn get(
        &mut self,
        file: &TraceFile,
        encoders: &Encoders,
        reference: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut failure = None;
        let blocks = (reference..=u64::MAX).map(|index| match self.block(file, encoders, index) {
            Ok(block) => block,
            Err(error) => {
                failure = Some(error);
                None
            }
        });
        let datum = var::get(blocks);
        match failure {
            Some(error) => Err(error),
            None => Ok(datum),
        }
    }

    fn block(
        &mut self,
        file: &TraceFile,
        encoders: &Encoders,
        index: u64,
    ) -> Result<Option<[u8; var::BLOCK_BYTES]>, Error> {
        let Some(stream) = self.stream.clone() else { return Ok(None) };
        let place = stream.frames.partition_point(|frame| frame.header.end_index() <= index);
        let Some(frame) = stream.frames.get(place).filter(|frame| frame.header.first_index <= index) else {
            return Ok(None);
        };
        if self.decoded != Some(place) {
            self.decoded = None;
            match stream.decode(file, encoders, frame, &mut self.bytes) {
                Ok(()) => self.decoded = Some(place),
                Err(FrameError::Damaged(_)) => return Ok(None),
                Err(FrameError::Failed(error)) => return Err(error),
            }
        }
        let blocks = self.bytes.as_chunks().0;
        Ok(blocks.get((index - frame.header.first_index) as usize).copied())
    }
}

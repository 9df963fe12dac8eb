//! Directories and the end of a trace: how a reader finds every frame without scanning (docs/format.md, *Directory*, *End*).

use crate::{
    EndReason,
    bytes::ByteReader,
    encoder::{Attribute, Coding},
    frame::{self, FrameHeader, FrameKind},
};

/// References in a full directory.
pub(crate) const CAPACITY: usize = 1024;
/// Bytes of the end frame.
pub(crate) const END_BYTES: usize = frame::HEADER_BYTES + frame::ATTRIBUTE_BYTES + 16;
const REFERENCE_BYTES: usize = 152;
const NONE: u64 = u64::MAX;
const ATTRIBUTE_DIRECTORY: u16 = 2;
const ATTRIBUTE_END: u16 = 3;

/// Where a frame is, and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRef {
    pub(crate) offset: u64,
    pub(crate) header: FrameHeader,
    pub(crate) checksum: u64,
}

/// A directory's content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) previous: Option<u64>,
    pub(crate) frames: Vec<FrameRef>,
}

impl Directory {
    pub(crate) fn part(&self) -> Attribute {
        let mut bytes = Vec::with_capacity(16 + self.frames.len() * REFERENCE_BYTES);
        bytes.extend(self.previous.unwrap_or(NONE).to_le_bytes());
        bytes.extend((self.frames.len() as u64).to_le_bytes());
        for frame in &self.frames {
            bytes.extend(frame.offset.to_le_bytes());
            bytes.extend(frame.header.mirror());
            bytes.extend(frame.checksum.to_le_bytes());
        }
        Attribute { kind: ATTRIBUTE_DIRECTORY, coding: Coding::Zstd, bytes }
    }

    pub(crate) fn parse(parts: &[Attribute]) -> Option<Self> {
        let [Attribute { kind: ATTRIBUTE_DIRECTORY, bytes, .. }] = parts else { return None };
        let mut reader = ByteReader::new(bytes);
        let previous = reader.u64().map(|offset| (offset != NONE).then_some(offset))?;
        let count = reader.u64()?;
        if count > CAPACITY as u64 || bytes.len() as u64 != 16 + count * REFERENCE_BYTES as u64 {
            return None;
        }
        let frames = (0..count)
            .map(|_| {
                let offset = reader.u64()?;
                let header = FrameHeader::from_mirror(reader.take(frame::MIRROR.len())?)?;
                Some(FrameRef { offset, header, checksum: reader.u64()? })
            })
            .collect::<Option<_>>()?;
        Some(Self { previous, frames })
    }
}

/// The end's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) last_directory: Option<u64>,
    pub(crate) frames: u64,
    /// In the header, where data has its sequence.
    pub(crate) why: EndReason,
}

impl End {
    pub(crate) fn part(self) -> Attribute {
        let mut bytes = self.last_directory.unwrap_or(NONE).to_le_bytes().to_vec();
        bytes.extend(self.frames.to_le_bytes());
        Attribute { kind: ATTRIBUTE_END, coding: Coding::Stored, bytes }
    }

    pub(crate) fn parse(frame: &[u8], session: u64) -> Option<Self> {
        let head = frame::parse_head(frame)?;
        if head.header.kind != FrameKind::End || head.session != session {
            return None;
        }
        let parts = frame::parts(frame, &head.header, Some(frame.len() as u64)).ok()?;
        let [Attribute { kind: ATTRIBUTE_END, bytes, .. }] = parts.as_slice() else { return None };
        let mut reader = ByteReader::new(bytes);
        let last_directory = reader.u64().map(|offset| (offset != NONE).then_some(offset))?;
        let frames = reader.u64()?;
        let why = EndReason::from_code(head.header.sequence);
        reader.is_empty().then_some(Self { last_directory, frames, why })
    }
}

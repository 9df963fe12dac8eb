//! Frames made by one process and appended to a file by another: what a client sends to a server.

use super::{
    definitions::NamedBlocks,
    options::CreateOptions,
    sink::{NewSegment, encoded, header, zstd_level},
};
use crate::{
    Bounds,
    frame::{self, FrameHeader, FrameKind},
};

/// A frame of entries, as it stands in a file (docs/format.md, *Frame*), but for the session, which the file knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFrame {
    header: FrameHeader,
    bytes: Vec<u8>,
}

impl FinishedFrame {
    /// Encodes and compresses a segment; of one that is coded, with the names that its blocks have in the trace that it is for.
    #[must_use]
    pub fn of(segment: &NewSegment<'_>, options: &CreateOptions, named: Option<&NamedBlocks>) -> Self {
        let parts = encoded(segment, options, named);
        let level = zstd_level(options, segment.encoder);
        let (header, bytes, _) = frame::build(0, header(segment, options), &parts, level);
        Self { header, bytes }
    }

    /// Checks what came from elsewhere: all checksums hold, and it is one whole frame of entries. They are not decoded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let head = frame::parse_head(&bytes).ok_or("its header is damaged")?;
        if head.header.kind != FrameKind::Data || head.header.entries == 0 {
            return Err("it has no entries");
        }
        frame::parts(&bytes, &head.header, None)?;
        Ok(Self { header: head.header, bytes })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of its stream.
    #[must_use]
    pub fn stream(&self) -> u32 {
        self.header.stream
    }

    /// Its place among the frames of the stream.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// The index of its first entry.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.header.first_index
    }

    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.header.entries
    }

    /// What the entries span.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.header.bounds
    }

    /// Makes it a frame of that session.
    pub(super) fn for_session(mut self, session: u64) -> SessionFrame {
        let checksum = frame::set_session(&mut self.bytes, &self.header, session);
        SessionFrame { header: self.header, bytes: self.bytes, checksum }
    }
}

/// A frame of a file.
pub(super) struct SessionFrame {
    pub(super) header: FrameHeader,
    pub(super) bytes: Vec<u8>,
    /// Of its header.
    pub(super) checksum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryType, writer::sink::SegmentContent};

    fn frame() -> FinishedFrame {
        let entry_type = EntryType::accesses();
        let entries = vec![0; 32 * 5];
        let segment = NewSegment {
            stream: 3,
            entry_type: &entry_type,
            encoder: entry_type.default_encoder(),
            sequence: 7,
            first_index: 100,
            wall_ns: 5,
            bounds: None,
            content: SegmentContent::Entries(&entries),
        };
        FinishedFrame::of(&segment, &CreateOptions::default(), None)
    }

    #[test]
    fn it_comes_back_from_its_bytes_and_any_change_is_seen() {
        let frame = frame();
        assert_eq!(FinishedFrame::parse(frame.bytes().to_vec()).as_ref(), Ok(&frame));
        assert_eq!((frame.stream(), frame.sequence(), frame.first_index(), frame.count()), (3, 7, 100, 5));
        for at in 0..frame.bytes().len() {
            let mut changed = frame.bytes().to_vec();
            changed[at] ^= 0x10;
            assert!(FinishedFrame::parse(changed).is_err(), "byte {at}");
            assert!(FinishedFrame::parse(frame.bytes()[..at].to_vec()).is_err(), "{at} bytes");
        }
        let longer = [frame.bytes(), &[0; 8]].concat();
        assert!(FinishedFrame::parse(longer).is_err());
    }

    #[test]
    fn the_session_is_the_files() {
        let frame = frame().for_session(0x1234_5678_9abc_def0);
        let head = frame::parse_head(&frame.bytes).expect("a header");
        assert_eq!((head.session, head.checksum), (0x1234_5678_9abc_def0, frame.checksum));
        assert_eq!(head.header, frame.header);
    }
}

//! Stores written by Simutrace 3: their memory streams, decoded with the same predictors as in the encoder `vpc`.
//!
//! Only what memtap imports is read: memory streams of 32 and 64 bits, with and without data. A store's
//! payloads carry no checksums, so damage is noticed only where a column does not decode, or not at all.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

use memref::VirtAddr;

use crate::{
    Error, TraceSource,
    encoder::{
        lzma,
        vpc::{self, ColumnsRef, MemoryEntry, Shape},
    },
};

/// Frames begin after it.
const FILE_HEADER_BYTES: u64 = 4096;
const DIRECTORY_ENTRIES: u64 = 1024;
const DIRECTORY_ENTRY_BYTES: u64 = 128;
const FRAME_HEADER_BYTES: u64 = 120;
const ATTRIBUTE_HEADER_BYTES: u64 = 32;
/// Where the fields of version 3 begin in the file header.
const V3: usize = 16;
const FIRST_DIRECTORY: usize = V3 + 152;
const FRAME: u32 = 0x454d_5246;
const DIRECTORY_LINK: u32 = 0x4b4e_4c44;
const ATTRIBUTE: u32 = 0x5254_5441;
const METADATA_SEQUENCE: u32 = u32::MAX;
const ATTRIBUTE_DATA: u8 = 0;
const ATTRIBUTE_DESCRIPTION: u8 = 1;
const ATTRIBUTE_ASSOCIATED: u8 = 2;
/// Bytes of a segment: a constant of the server's build that the file does not tell.
const SEGMENT_BYTES: u64 = 64 << 20;
/// The GUIDs of write types that are known, in the order of their bytes.
const WRITES: [[u8; 16]; 2] = [
    [0xae, 0x6f, 0x7f, 0x15, 0x88, 0x0e, 0xba, 0x48, 0xb8, 0x29, 0x5c, 0x1c, 0x81, 0x8f, 0x56, 0xa9],
    [0xdd, 0x3c, 0x94, 0x6e, 0xda, 0xd2, 0x83, 0x4e, 0x98, 0x4f, 0x58, 0x5c, 0x47, 0xeb, 0x0e, 0x36],
];

/// An entry of a memory stream, widened to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimEntry {
    /// Instructions executed before, 48 bits.
    pub cycle: u64,
    /// Bit 0: the data has the machine's full size; bits 1 to 15 are the writer's.
    pub tag: u16,
    /// The instruction.
    pub ip: VirtAddr,
    /// The address.
    pub addr: VirtAddr,
    /// The data, or, where it is not of full size, the value in the low half and the size in bytes in the high one.
    pub data: u64,
}

/// A memory stream of a store.
#[derive(Clone, Debug)]
pub struct SimStream {
    /// Its name.
    pub name: String,
    /// Whether its entries are writes.
    pub write: bool,
    /// 32 or 64.
    pub bits: u32,
    /// Whether entries carry data.
    pub data: bool,
    hidden: Vec<u32>,
    segments: Vec<SimFrame>,
}

impl SimStream {
    /// How many segments it has.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// How many entries it has.
    pub fn entries(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.entries)).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct SimFrame {
    offset: u64,
    sequence: u32,
    stream: u32,
    guid: [u8; 16],
    entries: u32,
    start_cycle: u64,
    total_bytes: u64,
}

/// Which data frame: those of a stream follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SimFrameKey {
    stream: u32,
    sequence: u32,
}

/// A decoded frame of a hidden stream, by stream: sequence number and bytes.
type DecodedColumns = BTreeMap<u32, (u32, Vec<u8>)>;

/// An open store.
pub struct SimStore {
    path: PathBuf,
    source: Box<dyn TraceSource>,
    len: u64,
    streams: Vec<SimStream>,
    /// Data frames of all streams.
    frames: BTreeMap<SimFrameKey, SimFrame>,
    decoded: DecodedColumns,
}

impl std::fmt::Debug for SimStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimStore").field("path", &self.path).finish_non_exhaustive()
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl SimFrame {
    /// From a directory's entry.
    fn parse(entry: &[u8]) -> Option<Self> {
        Some(Self {
            sequence: u32_at(entry, 8)?,
            stream: u32_at(entry, 12)?,
            guid: *entry.get(16..)?.first_chunk()?,
            entries: u32_at(entry, 32)?,
            start_cycle: u64_at(entry, 56)?,
            total_bytes: u64_at(entry, 80)?,
            offset: u64_at(entry, 120)?,
        })
    }
}

impl SimStore {
    /// Opens a store and reads its directories.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Io { path: path.into(), operation: "open the file", offset: 0, source };
        Self::open_on(Box::new(File::open(path).map_err(failed)?), path)
    }

    /// As [`Self::open`], from anything that holds the bytes; `path` is what errors call it.
    pub fn open_on(source: Box<dyn TraceSource>, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        let failed =
            |source| Error::Io { path: path.clone(), operation: "ask for the length", offset: 0, source };
        let len = source.len_bytes().map_err(failed)?;
        let decoded = BTreeMap::new();
        let mut store = Self { path, source, len, streams: Vec::new(), frames: BTreeMap::new(), decoded };
        let header = store.read(0, FILE_HEADER_BYTES)?;
        if header.get(..8) != Some(b"Simtrace") {
            return Err(store.broken(0, "not a store of Simutrace (it does not begin with Simtrace)"));
        }
        if u16_at(&header, 8) != Some(3) {
            return Err(store.broken(8, "written by another version of Simutrace than 3"));
        }
        let first = u64_at(&header, FIRST_DIRECTORY).unwrap_or(0);
        let frames = store.directories(first)?;
        store.describe(&frames)?;
        Ok(store)
    }

    /// The memory streams. Others are not read.
    pub fn streams(&self) -> &[SimStream] {
        &self.streams
    }

    fn broken(&self, offset: u64, what: &'static str) -> Error {
        Error::Foreign { path: self.path.clone(), offset, what }
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(self.broken(offset, "ends where more should follow; was it closed?"));
        }
        let mut bytes = vec![0; len as usize];
        self.source.read_at(offset, &mut bytes).map_err(|source| Error::Io {
            path: self.path.clone(),
            operation: "read",
            offset,
            source,
        })?;
        Ok(bytes)
    }

    /// The frames that the chain of directories names.
    fn directories(&self, first: u64) -> Result<Vec<SimFrame>, Error> {
        let mut frames = Vec::new();
        let mut next = Some(first);
        // Each directory but the last is full, so a chain that is longer than the file has room for runs in a circle.
        let most = self.len / (DIRECTORY_ENTRIES * DIRECTORY_ENTRY_BYTES) + 1;
        for _ in 0..most {
            let Some(offset) = next.take() else { return Ok(frames) };
            let len = (DIRECTORY_ENTRIES * DIRECTORY_ENTRY_BYTES).min(self.len.saturating_sub(offset));
            for entry in self.read(offset, len)?.chunks_exact(DIRECTORY_ENTRY_BYTES as usize) {
                match u32_at(entry, 0) {
                    Some(FRAME) => frames.extend(SimFrame::parse(entry)),
                    Some(DIRECTORY_LINK) => next = u64_at(entry, 8),
                    _ => break,
                }
            }
        }
        match next {
            None => Ok(frames),
            Some(offset) => Err(self.broken(offset, "its directories run in a circle")),
        }
    }

    /// The attributes of a frame: type and stored bytes.
    fn attributes(&self, frame: &SimFrame) -> Result<Vec<(u8, Vec<u8>)>, Error> {
        let mut attributes = Vec::new();
        let mut at = FRAME_HEADER_BYTES;
        while at + ATTRIBUTE_HEADER_BYTES <= frame.total_bytes {
            let head = self.read(frame.offset.saturating_add(at), ATTRIBUTE_HEADER_BYTES)?;
            if u32_at(&head, 0) != Some(ATTRIBUTE) {
                return Err(self.broken(frame.offset + at, "no attribute where one should be"));
            }
            let len = u64_at(&head, 16).unwrap_or(0);
            at += ATTRIBUTE_HEADER_BYTES;
            if len > frame.total_bytes - at {
                return Err(self.broken(frame.offset + at, "an attribute is longer than its frame"));
            }
            attributes.push((head[4] & 0x7f, self.read(frame.offset + at, len)?));
            at += len;
        }
        Ok(attributes)
    }

    /// Finds the memory streams: those that have associated ones.
    fn describe(&mut self, frames: &[SimFrame]) -> Result<(), Error> {
        let mut descriptions = BTreeMap::new();
        let mut associated = BTreeMap::new();
        for frame in frames {
            if frame.sequence != METADATA_SEQUENCE {
                let key = SimFrameKey { stream: frame.stream, sequence: frame.sequence };
                self.frames.insert(key, *frame);
                continue;
            }
            for (kind, bytes) in self.attributes(frame)? {
                match kind {
                    ATTRIBUTE_DESCRIPTION => drop(descriptions.insert(frame.stream, (*frame, bytes))),
                    ATTRIBUTE_ASSOCIATED => {
                        let count = u32_at(&bytes, 0).unwrap_or(0) as usize;
                        let words = bytes.get(4..).unwrap_or(&[]).as_chunks().0;
                        let ids: Vec<u32> =
                            words.iter().take(count).copied().map(u32::from_le_bytes).collect();
                        associated.insert(frame.stream, ids);
                    }
                    _ => {}
                }
            }
        }
        for (number, hidden) in associated {
            let Some((frame, description)) = descriptions.get(&number) else { continue };
            let text = |at: usize, len: usize| {
                let bytes = description.get(at..at + len).unwrap_or(&[]);
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                String::from_utf8_lossy(&bytes[..end]).into_owned()
            };
            let type_name = text(264, 256);
            let (bits, data) = match u32_at(description, 264 + 280).unwrap_or(0) & 0x7fff_ffff {
                16 => (32, false),
                20 => (32, true),
                24 => (64, false),
                32 => (64, true),
                _ => continue,
            };
            let shape = Shape { bits, data };
            // 32-bit streams keep cycles apart from the other literals, but in the same order.
            if hidden.len() != 1 + 2 * shape.fields() {
                return Err(self.broken(frame.offset, "a memory stream has another number of hidden streams"));
            }
            let segments = self.frames.range(
                SimFrameKey { stream: number, sequence: 0 }..SimFrameKey {
                    stream: number,
                    sequence: METADATA_SEQUENCE,
                },
            );
            self.streams.push(SimStream {
                name: text(0, 256),
                write: WRITES.contains(&frame.guid) || type_name.contains("write"),
                bits,
                data,
                hidden,
                segments: segments.map(|(_, frame)| *frame).collect(),
            });
        }
        Ok(())
    }

    /// Decodes a segment of a stream, and gives its entries in order.
    pub fn read_segment(
        &mut self,
        stream: usize,
        segment: usize,
        mut emit: impl FnMut(SimEntry),
    ) -> Result<(), Error> {
        let Some(stream) = self.streams.get(stream).cloned() else { return Ok(()) };
        let Some(frame) = stream.segments.get(segment) else { return Ok(()) };
        let shape = Shape { bits: stream.bits, data: stream.data };
        let entry_bytes = 8 + u64::from(shape.bits / 8) * (2 + u64::from(shape.data));
        let capacity = SEGMENT_BYTES / entry_bytes;
        let fields = shape.fields();
        let widths: Vec<u64> = std::iter::once(2)
            .chain(std::iter::repeat_n(1, fields))
            .chain((0..fields).map(|field| shape.literal_bytes(field) as u64))
            .collect();
        let mut places = Vec::new();
        for (&number, width) in stream.hidden.iter().zip(&widths) {
            let bytes = capacity * width;
            let shared = (SEGMENT_BYTES / bytes).max(1) as u32;
            self.load(number, frame.sequence / shared, frame)?;
            places.push((number, u64::from(frame.sequence % shared) * bytes, bytes));
        }
        let mut columns = places.iter().map(|&(number, from, bytes)| {
            let all = self.decoded.get(&number).map_or(&[][..], |(_, bytes)| bytes);
            let all = all.get(from as usize..).unwrap_or(&[]);
            &all[..all.len().min(bytes as usize)]
        });
        let tags = columns.next().unwrap_or(&[]);
        let mut rest: Vec<&[u8]> = columns.collect();
        let literals = rest.split_off(fields);
        let columns = ColumnsRef { tags, ids: rest, literals };
        let put = |entry: MemoryEntry| {
            let MemoryEntry { cycle, tag, ip, addr, data } = entry;
            emit(SimEntry { cycle, tag, ip: VirtAddr(ip), addr: VirtAddr(addr), data });
        };
        vpc::decode(shape, frame.start_cycle, &columns, frame.entries as usize, put)
            .map_err(|corrupt| self.broken(frame.offset, corrupt.0))
    }

    /// Decompresses a frame of a hidden stream, unless it is the one that was decompressed last.
    fn load(&mut self, stream: u32, sequence: u32, of: &SimFrame) -> Result<(), Error> {
        if self.decoded.get(&stream).is_some_and(|(last, _)| *last == sequence) {
            return Ok(());
        }
        let frame = self.frames.get(&SimFrameKey { stream, sequence }).copied();
        // A column without literals has no frame.
        let mut bytes = Vec::new();
        if let Some(frame) = frame {
            for (kind, stored) in self.attributes(&frame)? {
                if kind == ATTRIBUTE_DATA {
                    let len = u64_at(&stored, 0).filter(|&len| len <= SEGMENT_BYTES);
                    let whole = len.and_then(|len| lzma::decompress(&stored, len as usize));
                    bytes = whole
                        .ok_or_else(|| self.broken(frame.offset, "a hidden stream cannot be decompressed"))?;
                }
            }
        } else if of.entries > 0 && sequence > 0 {
            return Err(self.broken(of.offset, "a frame of a hidden stream is missing"));
        }
        self.decoded.insert(stream, (sequence, bytes));
        Ok(())
    }
}

//! Encoders: how the entries of one segment become attributes of a frame, and back.
//!
//! An encoder works on the entries' bytes as docs/format.md lays them out, one segment at a time and without memory of
//! others, so that each frame is decodable alone. The second stage (zstd) and the checksums are the frame's. Start with
//! [`Encoder`]; the default of accesses is in `predict`, the one of recorders in `live.rs`.

pub(crate) mod blocks;
mod columns;
mod generic;
mod index;
mod live;
pub(crate) mod lzma;
mod predict;
pub(crate) mod vpc;
mod words;

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap, fmt, ops::Range, sync::Arc};

pub use blocks::{BlockFrame, CodedFrame};
pub(crate) use columns::Columns;
use generic::Generic;
use live::Live;
pub(crate) use predict::AccessEncoder;
pub use predict::flow_head;
use vpc::Vpc;

use memref::Access;

use crate::{DataAccess, EntryType, bytes::Reader, entry::Entry};

/// Number of the encoder that stores entries as they are.
pub(crate) const RAW: u32 = 0;
/// Number of [`Columns`].
pub(crate) const COLUMNS: u32 = 1;
/// Number of [`Live`].
pub(crate) const LIVE: u32 = 2;
/// Number of [`AccessEncoder`].
pub(crate) const ACCESS: u32 = 3;
/// Number of [`AccessEncoder`] for archives.
pub(crate) const ARCHIVE: u32 = 4;

/// Number of [`Generic`].
pub(crate) const GENERIC: u32 = 5;
/// Number of [`predict::Flow`].
pub(crate) const FLOW: u32 = 7;
/// Number of [`Vpc`].
pub(crate) const VPC: u32 = 6;
/// Number of [`blocks::ExecutionEncoder`].
pub(crate) const BLOCKS: u32 = 8;

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Stored = 0,
    /// As one zstd frame.
    Zstd = 1,
    /// By LZMA: length u64, properties, raw stream.
    Lzma = 2,
}

/// The most that a payload decodes to.
pub(crate) const MAX_UNCOMPRESSED: u64 = 1 << 30;

impl Coding {
    pub(crate) fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            0 => Self::Stored,
            1 => Self::Zstd,
            2 => Self::Lzma,
            _ => return None,
        })
    }

    /// Decodes exactly `len` bytes; `None` where the content is something else.
    pub fn restore(self, stored: &[u8], len: usize) -> Option<Vec<u8>> {
        match self {
            Self::Stored => (stored.len() == len).then(|| stored.to_vec()),
            // A frame that claims more than zstd can produce from its bytes must not make us allocate it.
            Self::Zstd => {
                let claimed = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
                let bytes = claimed.filter(|&claimed| claimed == len as u64);
                let bytes = bytes.and_then(|_| zstd::bulk::decompress(stored, len).ok());
                bytes.filter(|bytes| bytes.len() == len)
            }
            Self::Lzma => lzma::decompress(stored, len),
        }
    }
}

/// An attribute of a frame, not yet or no longer compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its type: 0 entries, 32 and up as the encoder likes.
    pub kind: u16,
    /// How to store it.
    pub coding: Coding,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Part {
    /// The payload as it is stored, and how: as it is where compressing gains nothing, or has no memory.
    pub fn store(&self, zstd_level: i32) -> (Coding, Cow<'_, [u8]>) {
        let compressed = match self.coding {
            Coding::Stored => None,
            Coding::Zstd => zstd_compress(&self.bytes, zstd_level),
            Coding::Lzma => lzma::compress(&self.bytes),
        };
        match compressed.filter(|bytes| bytes.len() < self.bytes.len()) {
            Some(bytes) => (self.coding, bytes.into()),
            None => (Coding::Stored, self.bytes.as_slice().into()),
        }
    }
}

/// Compresses with a context that the thread keeps: a new one for each frame costs more in fresh pages than a short frame in
/// compression.
fn zstd_compress(bytes: &[u8], level: i32) -> Option<Vec<u8>> {
    thread_local! {
        static CONTEXT: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.as_ref().is_none_or(|(of, _)| *of != level) {
            *context = Some((level, zstd::bulk::Compressor::new(level).ok()?));
        }
        context.as_mut()?.1.compress(bytes).ok()
    })
}

/// A frame's content is not what its encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// What a decoder of accesses says of others.
const NO_ACCESSES: Corrupt = Corrupt("the entries are no accesses");

/// A segment as its encoder left it.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// What its entries are.
    pub entry_type: &'a EntryType,
    /// How many there are.
    pub count: usize,
    /// What was made of them.
    pub parts: &'a [Part],
}

/// Turns segments into attributes and back. Stateless: one instance serves all streams and threads at once.
pub trait Encoder: Send + Sync {
    /// The number in stream descriptions. Numbers below 1,024 are memtap's.
    fn id(&self) -> u32;

    /// The name for people.
    fn name(&self) -> &'static str;

    /// Encodes whole entries of `entry_type`: at least one, at most [`crate::MAX_FRAME_ENTRIES`].
    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Part>;

    /// Decodes exactly as many entries as it says and appends them to `out`. The parts have passed their checksums but may
    /// still be anything.
    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt>;

    /// As [`Self::decode`] for entries that are accesses, without the detour over their bytes where the encoder knows one.
    /// With `end`, it may stop behind the first access whose cycle is not below that: cycles never decrease, and nobody wants
    /// those that follow.
    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        _end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        let mut bytes = Vec::new();
        self.decode(encoded, &mut bytes)?;
        if words::has_data(encoded.entry_type) {
            let mut all: Vec<DataAccess> = Vec::new();
            entries(&bytes, &mut all)?;
            out.extend(all.iter().map(|entry| entry.access));
            return Ok(());
        }
        entries(&bytes, out)
    }
}

/// Appends the entries in decoded bytes.
pub(crate) fn entries<E: Entry>(bytes: &[u8], out: &mut Vec<E>) -> Result<(), Corrupt> {
    out.reserve(bytes.len() / E::KIND.entry_bytes());
    for entry in bytes.chunks_exact(E::KIND.entry_bytes()) {
        let entry = E::get(&mut Reader::new(entry));
        out.push(entry.ok_or(Corrupt("an entry has a number that stands for nothing"))?);
    }
    Ok(())
}

/// Entries as they are, for blocks of variable-sized data.
#[derive(Debug)]
struct Raw;

impl Encoder for Raw {
    fn id(&self) -> u32 {
        RAW
    }

    fn name(&self) -> &'static str {
        "raw"
    }

    fn encode(&self, _: &EntryType, entries: &[u8]) -> Vec<Part> {
        raw(entries)
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        raw_decode(encoded, out)
    }
}

/// The inverse of [`raw`].
pub(crate) fn raw_decode(encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    raw_bytes(encoded, entries_part(encoded.parts)?, out)
}

/// Appends entries that are stored as they are.
fn raw_bytes(encoded: &Encoded<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Corrupt> {
    if encoded.count.checked_mul(encoded.entry_type.entry_bytes as usize) != Some(bytes.len()) {
        return Err(Corrupt("the entries do not have the length that the header says"));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// What encoder 0 makes of any entries.
pub(crate) fn raw(entries: &[u8]) -> Vec<Part> {
    vec![Part { kind: 0, coding: Coding::Zstd, bytes: entries.to_vec() }]
}

/// The attribute type of entries as they are, where an encoder of accesses finds that they are none.
const OTHERS: u16 = 32;

fn others(entries: &[u8]) -> Vec<Part> {
    vec![Part { kind: OTHERS, coding: Coding::Zstd, bytes: entries.to_vec() }]
}

/// The one attribute of type 0.
pub(crate) fn entries_part(parts: &[Part]) -> Result<&[u8], Corrupt> {
    match parts {
        [Part { kind: 0, bytes, .. }] => Ok(bytes),
        _ => Err(Corrupt("the frame does not consist of one attribute with entries")),
    }
}

/// The ranges of an entry that none of its type's first `fields` fields has.
fn uncovered(entry_type: &EntryType, fields: usize) -> Vec<Range<usize>> {
    let (mut rest, mut at) = (Vec::new(), 0);
    for field in entry_type.fields.iter().take(fields) {
        let offset = usize::from(field.offset);
        rest.push(at..offset.max(at));
        at = offset + usize::from(field.bytes);
    }
    rest.push(at..(entry_type.entry_bytes as usize).max(at));
    rest.retain(|range| !range.is_empty());
    rest
}

/// The bytes of those ranges, entry after entry.
fn between(entries: &[u8], width: usize, ranges: &[Range<usize>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries.chunks_exact(width) {
        for range in ranges {
            bytes.extend_from_slice(&entry[range.clone()]);
        }
    }
    bytes
}

/// The inverse of [`between`]; `None` where there are not as many bytes.
fn put_between(mut bytes: &[u8], width: usize, ranges: &[Range<usize>], entries: &mut [u8]) -> Option<()> {
    for entry in entries.chunks_exact_mut(width) {
        for range in ranges {
            let (front, behind) = bytes.split_at_checked(range.len())?;
            entry[range.clone()].copy_from_slice(front);
            bytes = behind;
        }
    }
    bytes.is_empty().then_some(())
}

/// The encoders that a writer or reader knows, by number.
#[derive(Clone)]
pub struct Encoders(BTreeMap<u32, Arc<dyn Encoder>>);

impl Encoders {
    /// The number of the recorders' encoder.
    pub const LIVE: u32 = LIVE;
    /// The number of the encoder of accesses by the blocks that made them.
    pub const BLOCKS: u32 = BLOCKS;

    /// Adds one, or replaces the one with its number.
    pub fn add(&mut self, encoder: Arc<dyn Encoder>) {
        self.0.insert(encoder.id(), encoder);
    }

    /// The one with that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<dyn Encoder>> {
        self.0.values().find(|encoder| encoder.name() == name)
    }

    /// The one with that number.
    pub fn get(&self, id: u32) -> Option<&Arc<dyn Encoder>> {
        self.0.get(&id)
    }
}

impl Default for Encoders {
    /// memtap's own.
    fn default() -> Self {
        let mut encoders = Self(BTreeMap::new());
        encoders.add(Arc::new(Raw));
        encoders.add(Arc::new(Columns));
        encoders.add(Arc::new(Live));
        encoders.add(Arc::new(AccessEncoder { archive: false }));
        encoders.add(Arc::new(AccessEncoder { archive: true }));
        encoders.add(Arc::new(Generic));
        encoders.add(Arc::new(Vpc));
        encoders.add(Arc::new(predict::Flow));
        encoders.add(Arc::new(blocks::ExecutionEncoder));
        encoders
    }
}

impl fmt::Debug for Encoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(id, encoder)| (id, encoder.name()))).finish()
    }
}

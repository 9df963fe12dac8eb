//! Frames: a header, a table of attributes, their payloads (docs/format.md, *Frame*).

use std::borrow::Borrow;

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    AccessCounts, Bounds, KindSet, MAX_FRAME_ENTRIES,
    bounds::Interval,
    encoder::{Attribute, Coding},
};

/// Bytes of the header without the attribute table.
pub(crate) const HEADER_BYTES: usize = 160;
/// Bytes of one attribute in the table.
pub(crate) const ATTRIBUTE_BYTES: usize = 32;
/// The most attributes of a frame.
pub(crate) const MAX_ATTRIBUTES: usize = 64;
/// What a frame begins with.
pub(crate) const MAGIC: [u8; 8] = *b"mtFRAME\x1a";
/// Frames and payloads start at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// The part of the header that directories repeat.
pub(crate) const MIRROR: std::ops::Range<usize> = 16..152;
const CHECKSUM: usize = 152;
/// Where the counts are, in the part that directories repeat.
const COUNTS: usize = 124;
/// In the first of them: they are there.
const COUNTED: u32 = 1 << 31;
/// The level of zstd while somebody waits.
pub(crate) const ZSTD_LIVE: i32 = 1;
/// The level of zstd where time counts.
pub(crate) const ZSTD_STANDARD: i32 = 3;
/// The level of zstd where bytes count.
pub(crate) const ZSTD_ARCHIVE: i32 = 19;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Description = 0,
    Data = 1,
    Directory = 2,
    End = 3,
}

/// A frame's header without magic, session and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) attributes: u16,
    pub(crate) stream: u32,
    pub(crate) sequence: u64,
    pub(crate) total_bytes: u64,
    pub(crate) first_index: u64,
    pub(crate) entries: u64,
    pub(crate) bounds: Bounds,
    /// Of frames of accesses; not of those of earlier versions.
    pub(crate) counts: Option<AccessCounts>,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The counts of a header, if it has any; `None` where these bytes can't be counts of that many entries.
fn counts(header: &[u8], entries: u64) -> Option<Option<AccessCounts>> {
    let bytes: &[u8; 12] = header.get(COUNTS..)?.first_chunk()?;
    let (words, _) = bytes.as_chunks();
    let [loads, stores, modifies] = [0, 1, 2].map(|place| u32::from_le_bytes(words[place]));
    if loads & COUNTED == 0 {
        return (bytes == &[0; 12]).then_some(None);
    }
    let [loads, stores, modifies] = [loads & !COUNTED, stores, modifies].map(u64::from);
    let prefetches = entries.checked_sub(loads + stores + modifies)?;
    Some(Some(AccessCounts { loads, stores, modifies, prefetches }))
}

impl FrameHeader {
    /// A header of a frame without entries.
    pub(crate) fn plain(kind: FrameKind, stream: u32, sequence: u64) -> Self {
        Self {
            kind,
            attributes: 0,
            stream,
            sequence,
            total_bytes: 0,
            first_index: 0,
            entries: 0,
            bounds: Bounds::NONE,
            counts: None,
        }
    }

    /// The bytes `MIRROR` of the header.
    pub(crate) fn mirror(&self) -> [u8; 136] {
        let mut out = [0; 136];
        let bounds = &self.bounds;
        out[0..2].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[2..4].copy_from_slice(&self.attributes.to_le_bytes());
        out[4..8].copy_from_slice(&self.stream.to_le_bytes());
        let mut at = 8;
        let words = [self.sequence, self.total_bytes, self.first_index, self.entries];
        let intervals = [bounds.cycles, bounds.wall_ns, bounds.orders, bounds.addrs, bounds.ips];
        for value in words.into_iter().chain(intervals.into_iter().flat_map(|i| [i.min, i.max])) {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
            at += 8;
        }
        out[120..124].copy_from_slice(&bounds.kinds.0.to_le_bytes());
        if let Some(counts) = self.counts {
            // A frame's entries are fewer than 2^31; prefetches are the rest of them.
            let words = [counts.loads as u32 | COUNTED, counts.stores as u32, counts.modifies as u32];
            for (place, word) in words.into_iter().enumerate() {
                out[COUNTS + 4 * place..][..4].copy_from_slice(&word.to_le_bytes());
            }
        }
        out
    }

    /// The inverse of [`Self::mirror`]; `None` where the values can't be those of a frame.
    pub(crate) fn from_mirror(bytes: &[u8]) -> Option<Self> {
        let kind = match u16::from_le_bytes(bytes.get(0..2)?.try_into().ok()?) {
            0 => FrameKind::Description,
            1 => FrameKind::Data,
            2 => FrameKind::Directory,
            3 => FrameKind::End,
            _ => return None,
        };
        let attributes = u16::from_le_bytes(bytes.get(2..4)?.try_into().ok()?);
        let interval = |at: usize| Some(Interval { min: word(bytes, at)?, max: word(bytes, at + 8)? });
        let kinds = word(bytes, 120)? as u32;
        let entries = word(bytes, 32)?;
        let header = Self {
            kind,
            attributes,
            stream: u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?),
            sequence: word(bytes, 8)?,
            total_bytes: word(bytes, 16)?,
            first_index: word(bytes, 24)?,
            entries,
            bounds: Bounds {
                cycles: interval(40)?,
                wall_ns: interval(56)?,
                orders: interval(72)?,
                addrs: interval(88)?,
                ips: interval(104)?,
                kinds: KindSet(kinds),
            },
            counts: counts(bytes, entries)?,
        };
        let table = (HEADER_BYTES + usize::from(attributes) * ATTRIBUTE_BYTES) as u64;
        let plausible = usize::from(attributes) <= MAX_ATTRIBUTES
            && header.total_bytes >= table
            && header.total_bytes.is_multiple_of(ALIGN as u64)
            && header.total_bytes <= i64::MAX as u64
            && header.entries <= MAX_FRAME_ENTRIES as u64
            && header.first_index.checked_add(header.entries).is_some();
        plausible.then_some(header)
    }

    /// Bytes of header and attribute table.
    pub(crate) fn head_bytes(&self) -> usize {
        HEADER_BYTES + usize::from(self.attributes) * ATTRIBUTE_BYTES
    }

    /// The index after the last entry.
    pub(crate) fn end_index(&self) -> u64 {
        self.first_index.saturating_add(self.entries)
    }
}

/// Builds a whole frame; the header's attribute count and length are entered here. Returns the header with them, the bytes,
/// and the checksum of the header.
pub(crate) fn build(
    session: u64,
    mut header: FrameHeader,
    parts: &[impl Borrow<Attribute>],
    zstd_level: i32,
) -> (FrameHeader, Vec<u8>, u64) {
    let parts: Vec<&Attribute> = parts.iter().map(Borrow::borrow).collect();
    let stored: Vec<_> = parts.iter().map(|part| part.store(zstd_level)).collect();
    let payload: usize = stored.iter().map(|(_, bytes)| bytes.len().next_multiple_of(ALIGN)).sum();
    header.attributes = parts.len() as u16;
    let head_bytes = header.head_bytes();
    header.total_bytes = (head_bytes + payload) as u64;
    let mut out = Vec::with_capacity(head_bytes + payload);
    out.extend(MAGIC);
    out.extend(session.to_le_bytes());
    out.extend(header.mirror());
    out.extend([0; 8]);
    for (part, (coding, bytes)) in parts.iter().zip(&stored) {
        out.extend(part.kind.to_le_bytes());
        out.extend((*coding as u16).to_le_bytes());
        out.extend([0; 4]);
        out.extend((bytes.len() as u64).to_le_bytes());
        out.extend((part.bytes.len() as u64).to_le_bytes());
        out.extend(xxh3_64(bytes).to_le_bytes());
    }
    let checksum = xxh3_64(&out[..head_bytes]);
    out[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
    for (_, bytes) in &stored {
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(ALIGN), 0);
    }
    (header, out, checksum)
}

/// A parsed header and attribute table.
pub(crate) struct Head {
    pub(crate) header: FrameHeader,
    pub(crate) checksum: u64,
    pub(crate) session: u64,
}

/// How many bytes header and table take, from the header's first bytes; `None` where this is no header.
pub(crate) fn head_bytes(bytes: &[u8]) -> Option<usize> {
    if bytes.get(..8)? != MAGIC {
        return None;
    }
    Some(FrameHeader::from_mirror(bytes.get(MIRROR)?)?.head_bytes())
}

/// Parses and verifies header and table at the front of `bytes`.
pub(crate) fn parse_head(bytes: &[u8]) -> Option<Head> {
    let len = head_bytes(bytes)?;
    let mut head = bytes.get(..len)?.to_vec();
    let checksum = word(&head, CHECKSUM)?;
    head.get_mut(CHECKSUM..CHECKSUM + 8)?.fill(0);
    if xxh3_64(&head) != checksum {
        return None;
    }
    Some(Head { header: FrameHeader::from_mirror(&head[MIRROR])?, checksum, session: word(&head, 8)? })
}

/// Makes the frame, whose header that is, one of another session; the checksum of the header then.
pub(crate) fn set_session(frame: &mut [u8], header: &FrameHeader, session: u64) -> u64 {
    frame[MAGIC.len()..][..8].copy_from_slice(&session.to_le_bytes());
    frame[CHECKSUM..][..8].fill(0);
    let checksum = xxh3_64(&frame[..header.head_bytes()]);
    frame[CHECKSUM..][..8].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Verifies all payloads of a whole frame whose head was parsed, and decodes them where their bytes are wanted: at most so many
/// together. The error says what is wrong.
pub(crate) fn parts(
    frame: &[u8],
    header: &FrameHeader,
    most: Option<u64>,
) -> Result<Vec<Attribute>, &'static str> {
    const SHORT: &str = "its payloads do not fit its length";
    let mut at = header.head_bytes();
    let mut parts = Vec::new();
    let mut left = most.unwrap_or(0);
    let table = frame.get(HEADER_BYTES..at).ok_or(SHORT)?;
    for entry in table.chunks_exact(ATTRIBUTE_BYTES) {
        let kind = u16::from_le_bytes([entry[0], entry[1]]);
        let coding = u16::from_le_bytes([entry[2], entry[3]]);
        let field = |at| word(entry, at).ok_or(SHORT);
        let len = usize::try_from(field(8)?).map_err(|_| SHORT)?;
        let padded = len.checked_next_multiple_of(ALIGN).ok_or(SHORT)?;
        let end = at.checked_add(padded).ok_or(SHORT)?;
        let payload = frame.get(at..end).ok_or(SHORT)?;
        let (stored, padding) = payload.split_at(len);
        if xxh3_64(stored) != field(24)? {
            return Err("the checksum of a payload does not hold");
        }
        if padding.iter().any(|&byte| byte != 0) {
            return Err("its padding is not zero");
        }
        at = end;
        if most.is_none() {
            continue;
        }
        let uncompressed = field(16)?;
        left = left
            .checked_sub(uncompressed)
            .ok_or("its attributes are longer than memory is given for a frame")?;
        let coding = Coding::from_code(coding).ok_or("an attribute has an unknown coding or size")?;
        let bytes = coding.restore(stored, uncompressed as usize);
        let bytes = bytes.ok_or("an attribute cannot be decompressed")?;
        parts.push(Attribute { kind, coding, bytes });
    }
    if at as u64 != header.total_bytes || at != frame.len() {
        return Err(SHORT);
    }
    Ok(parts)
}

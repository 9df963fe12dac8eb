//! The definition that a tracer writes of a block when it translates it, as bytes.
//!
//! All numbers are little-endian. `docs/format.md` repeats this table, since frames store definitions unchanged.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length of the definition in bytes |
//! | 4..8 | the block's number in its process |
//! | 8..16 | address of its first instruction |
//! | 16..18 | instructions |
//! | 18 | values of an execution |
//! | 19 | 1: the last two values are orders |
//! | 20..22 | accesses |
//! | 22..24 | bytes of code, 0 where nobody asks |
//! | 24.. | the accesses, 24 bytes each, then the stretches, 24 bytes each, as many as the length leaves room for |
//!
//! An access consists of: instruction (2), offset (2), size (2), kind, flags (fs 1, short 2, repeated 4, and from bit 3 a [`Chosen`]
//! plus one), base, index, scale, count afterwards, place afterwards, value of the mask, bytes of an element, value of the data,
//! displacement (8). The offset is relative to the address of the *stretch* that contains the access, which is the last one that begins
//! before it or with it, or to that of the block if there is none. A stretch consists of: its first access (2), zero (14), address (8).

use memref::{AccessKind, VirtAddr};

use crate::{BlockAccess, Chosen, MAX_ACCESSES, Masked, NO_VALUE, Repeated};

/// Bytes of a definition's head, and of one access in it.
const HEAD_BYTES: usize = 24;
const ACCESS_BYTES: usize = 24;
const STRETCH_BYTES: usize = 24;
/// The longest definition.
pub const MAX_DEFINITION_BYTES: usize = HEAD_BYTES + MAX_ACCESSES * (ACCESS_BYTES + STRETCH_BYTES);

/// Which code a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first instruction.
    pub addr: VirtAddr,
    /// Instructions.
    pub instructions: u16,
    /// Bytes from the first one to the end of the last in memory; zero where nobody asks.
    pub bytes: u16,
}

impl Extent {
    /// So many instructions from there on.
    pub const fn of(addr: VirtAddr, instructions: u16) -> Self {
        Self { addr, instructions, bytes: 0 }
    }
}

/// What a block is: written once, when it is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Its number in its process.
    pub id: u32,
    /// Its code.
    pub extent: Extent,
    /// What an execution of it records.
    pub values: RecordedValues,
    accesses: &'a [u8],
    stretches: &'a [u8],
}

/// What one execution of a block records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedValues {
    /// How many values an execution records.
    pub count: u8,
    /// Whether the last two of them are the orders around its one instruction: the one that it drew before, and the last one
    /// that was given out after it. Zero: the thread was alone.
    pub ordered: bool,
}

impl RecordedValues {
    /// So many, without orders.
    pub const fn plain(count: u8) -> Self {
        Self { count, ordered: false }
    }
}

/// An access, in its stretch.
struct Stretched<'a> {
    access: &'a BlockAccess,
    /// Its number, where the stretch begins with it.
    begins: Option<u16>,
    /// Where the stretch's offsets count from.
    from: i64,
}

/// Divides accesses into stretches.
fn stretched(accesses: &[BlockAccess]) -> impl Iterator<Item = Stretched<'_>> {
    (0..).zip(accesses).scan(0, |from, (number, access)| {
        let begins = u16::try_from(access.offset.wrapping_sub(*from)).is_err().then_some(number);
        if begins.is_some() {
            *from = access.offset;
        }
        Some(Stretched { access, begins, from: *from })
    })
}

/// Writes a definition and returns its length.
pub fn encode_definition(
    id: u32,
    extent: Extent,
    values: RecordedValues,
    accesses: &[BlockAccess],
    into: &mut [u8; MAX_DEFINITION_BYTES],
) -> usize {
    let count = accesses.len().min(MAX_ACCESSES);
    let accesses = accesses.get(..count).unwrap_or(&[]);
    let stretches = || stretched(accesses).filter_map(|own| Some((own.begins?, own.from)));
    let bytes = HEAD_BYTES + count * ACCESS_BYTES + stretches().count() * STRETCH_BYTES;
    let mut len = 0;
    let mut put = |part: &[u8]| {
        if let Some(place) = into.get_mut(len..len + part.len()) {
            place.copy_from_slice(part);
            len += part.len();
        }
    };
    put(&(bytes as u32).to_le_bytes());
    put(&id.to_le_bytes());
    put(&extent.addr.0.to_le_bytes());
    put(&extent.instructions.to_le_bytes());
    put(&[values.count, values.ordered.into()]);
    put(&(count as u16).to_le_bytes());
    put(&extent.bytes.to_le_bytes());
    for Stretched { access, from, .. } in stretched(accesses) {
        put(&access.instruction.to_le_bytes());
        put(&((access.offset - from) as u16).to_le_bytes());
        put(&access.size.to_le_bytes());
        let mut flags =
            u8::from(access.fs) | u8::from(access.short) << 1 | u8::from(access.repeated.is_some()) << 2;
        let (mask, element) = match access.masked {
            None => (NO_VALUE, 0),
            Some(masked) => {
                flags |= match masked.chosen {
                    Chosen::Each => 1 << 3,
                    Chosen::Packed => 2 << 3,
                    Chosen::Any => 3 << 3,
                };
                (masked.value, masked.bytes)
            }
        };
        let none = Repeated { count_after: NO_VALUE, place_after: NO_VALUE };
        let Repeated { count_after, place_after } = access.repeated.unwrap_or(none);
        put(&[access.kind.code(), flags, access.base, access.index, access.scale, count_after, place_after]);
        put(&[mask, element, access.data]);
        put(&access.displacement.to_le_bytes());
    }
    for (first, from) in stretches() {
        put(&first.to_le_bytes());
        put(&[0; 14]);
        put(&extent.addr.0.wrapping_add_signed(from).to_le_bytes());
    }
    len
}

impl<'a> Definition<'a> {
    /// Reads the definition at the front of `bytes`, and says its length. `None` where there is no whole one.
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let len = word(0)? as usize;
        let counts = word(20)?;
        let count = usize::from(counts as u16);
        let end = HEAD_BYTES + count * ACCESS_BYTES;
        let stretches = len.checked_sub(end)?;
        if count > MAX_ACCESSES || stretches % STRETCH_BYTES != 0 || len > MAX_DEFINITION_BYTES {
            return None;
        }
        let addr = u64::from(word(8)?) | u64::from(word(12)?) << 32;
        let sizes = word(16)?;
        let definition = Self {
            id: word(4)?,
            extent: Extent { addr: VirtAddr(addr), instructions: sizes as u16, bytes: (counts >> 16) as u16 },
            values: RecordedValues { count: (sizes >> 16) as u8, ordered: sizes >> 24 & 1 != 0 },
            accesses: bytes.get(HEAD_BYTES..end)?,
            stretches: bytes.get(end..len)?,
        };
        Some((definition, len))
    }

    /// Its accesses, in their order.
    pub fn accesses(&self) -> impl Iterator<Item = BlockAccess> + use<'a> {
        let mut stretches = self.stretches.chunks_exact(STRETCH_BYTES).peekable();
        let addr = self.extent.addr.0;
        let mut from = 0i64;
        (0..).zip(self.accesses.chunks_exact(ACCESS_BYTES)).map(move |(number, bytes)| {
            let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
            let half = |at: usize| u16::from(byte(at)) | u16::from(byte(at + 1)) << 8;
            let flags = byte(7);
            let displacement = bytes.get(16..24).and_then(|part| part.try_into().ok());
            let begins = |stretch: &&[u8]| {
                stretch.first_chunk().is_some_and(|first| u16::from_le_bytes(*first) <= number)
            };
            while let Some(stretch) = stretches.next_if(begins) {
                let start = stretch.last_chunk().map_or(addr, |start| u64::from_le_bytes(*start));
                from = start.wrapping_sub(addr) as i64;
            }
            BlockAccess {
                instruction: half(0),
                offset: from.wrapping_add(half(2).into()),
                size: half(4),
                kind: AccessKind::from_code(byte(6)).unwrap_or(AccessKind::Load),
                base: byte(8),
                index: byte(9),
                scale: byte(10),
                fs: flags & 1 != 0,
                short: flags & 2 != 0,
                repeated: (flags & 4 != 0)
                    .then_some(Repeated { count_after: byte(11), place_after: byte(12) }),
                masked: match flags >> 3 & 3 {
                    1 => Some(Chosen::Each),
                    2 => Some(Chosen::Packed),
                    3 => Some(Chosen::Any),
                    _ => None,
                }
                .map(|chosen| Masked { value: byte(13), bytes: byte(14), chosen }),
                data: byte(15),
                displacement: displacement.map_or(0, i64::from_le_bytes),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn definitions_come_back() {
        let accesses = [
            BlockAccess {
                instruction: 3,
                offset: 17,
                size: 64,
                kind: AccessKind::Modify,
                base: 1,
                index: 2,
                scale: 8,
                fs: true,
                short: true,
                repeated: None,
                masked: Some(Masked { value: 4, bytes: 8, chosen: Chosen::Packed }),
                data: 7,
                displacement: -5,
            },
            BlockAccess { instruction: 4, offset: -5000, ..BlockAccess::NONE },
            BlockAccess { instruction: 4, offset: -5000, size: 8, ..BlockAccess::NONE },
            BlockAccess { instruction: 5, offset: 60_000, ..BlockAccess::NONE },
            BlockAccess { instruction: 9, offset: 1 << 40, ..BlockAccess::NONE },
            BlockAccess {
                instruction: 10,
                repeated: Some(Repeated { count_after: 4, place_after: 5 }),
                ..BlockAccess::NONE
            },
        ];
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let values = RecordedValues { count: 3, ordered: true };
        let extent = Extent { addr: VirtAddr(0x1234_5678_9abc), instructions: 9, bytes: 300 };
        let len = encode_definition(77, extent, values, &accesses, &mut bytes);
        let (definition, read) = Definition::decode(&bytes[..len]).unwrap();
        assert_eq!((read, definition.id, definition.extent), (len, 77, extent));
        assert_eq!(definition.values, values);
        assert_eq!(definition.accesses().collect::<Vec<_>>(), accesses);
        assert!(Definition::decode(&bytes[..len - 1]).is_none());
    }

    /// The bytes that docs/format.md describes: old traces have them.
    #[test]
    fn the_bytes_are_those_of_the_format() {
        let accesses = [BlockAccess {
            instruction: 3,
            offset: 0x1122,
            size: 64,
            kind: AccessKind::Store,
            base: 1,
            index: 2,
            scale: 8,
            fs: true,
            short: true,
            repeated: Some(Repeated { count_after: 5, place_after: 6 }),
            masked: Some(Masked { value: 4, bytes: 8, chosen: Chosen::Packed }),
            data: 7,
            displacement: -2,
        }];
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent { addr: VirtAddr(0x1234_5678_9abc), instructions: 9, bytes: 300 };
        let values = RecordedValues { count: 10, ordered: true };
        let len = encode_definition(0x0102_0304, extent, values, &accesses, &mut bytes);
        #[rustfmt::skip]
        let expect = [
            48, 0, 0, 0, 4, 3, 2, 1, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 9, 0, 10, 1, 1, 0, 0x2c, 1,
            3, 0, 0x22, 0x11, 64, 0, AccessKind::Store.code(), 1 | 2 | 4 | 2 << 3, 1, 2, 8, 5, 6, 4, 8, 7,
            0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        assert_eq!(bytes[..len], expect);
    }

    #[test]
    fn instructions_that_are_far_from_the_first_are_in_stretches_of_their_own() {
        let far = BlockAccess { instruction: 2, offset: -16, ..BlockAccess::NONE };
        let accesses = [BlockAccess::NONE, far, BlockAccess { instruction: 3, offset: -12, ..far }];
        let mut bytes = [0; MAX_DEFINITION_BYTES];
        let extent = Extent::of(VirtAddr(0x1000), 4);
        let len = encode_definition(1, extent, RecordedValues::plain(0), &accesses, &mut bytes);
        assert_eq!(len, 24 + 3 * 24 + 24);
        let mut stretch = [0; 24];
        (stretch[0], stretch[16], stretch[17]) = (1, 0xf0, 0x0f);
        assert_eq!(bytes[24 + 3 * 24..len], stretch);
        let (definition, _) = Definition::decode(&bytes[..len]).unwrap();
        assert_eq!(definition.accesses().collect::<Vec<_>>(), accesses);
    }
}

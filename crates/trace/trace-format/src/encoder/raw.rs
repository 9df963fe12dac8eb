//! Entries as they are: encoder 0, and what every other encoder does with entries that are not of its kind.

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder},
    number,
};
use crate::EntryType;

/// Entries as they are, for blocks of variable-sized data.
#[derive(Debug)]
pub(super) struct Raw;

impl Encoder for Raw {
    fn id(&self) -> u32 {
        number::RAW
    }

    fn name(&self) -> &'static str {
        number::name_of(number::RAW)
    }

    fn encode(&self, _: &EntryType, entries: &[u8]) -> Vec<Attribute> {
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
pub(super) fn raw_bytes(encoded: &Encoded<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Corrupt> {
    if encoded.count.checked_mul(encoded.entry_type.entry_bytes as usize) != Some(bytes.len()) {
        return Err(Corrupt("the entries do not have the length that the header says"));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// What encoder 0 makes of any entries.
pub(crate) fn raw(entries: &[u8]) -> Vec<Attribute> {
    vec![Attribute { kind: 0, coding: Coding::Zstd, bytes: entries.to_vec() }]
}

/// The attribute type of entries as they are, where an encoder of accesses finds that they are none.
pub(super) const OTHERS: u16 = 32;

pub(super) fn others(entries: &[u8]) -> Vec<Attribute> {
    vec![Attribute { kind: OTHERS, coding: Coding::Zstd, bytes: entries.to_vec() }]
}

/// The one attribute of type 0.
pub(crate) fn entries_part(parts: &[Attribute]) -> Result<&[u8], Corrupt> {
    match parts {
        [Attribute { kind: 0, bytes, .. }] => Ok(bytes),
        _ => Err(Corrupt("the frame does not consist of one attribute with entries")),
    }
}

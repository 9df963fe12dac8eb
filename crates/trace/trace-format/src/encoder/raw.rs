//! Entries as they are: encoder 0, and the fallback of every other encoder for entries that it does not handle.

use memref::Access;

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder},
    number, words,
};
use crate::{DataAccess, EntryType, ExecutedFrame, InstructionTable, entry::entries};

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

    fn decode_accesses(
        &self,
        encoded: &Encoded<'_>,
        _end: Option<u64>,
        out: &mut Vec<Access>,
    ) -> Result<(), Corrupt> {
        out.reserve(encoded.count);
        self.each_access(encoded, &mut |accesses| out.extend_from_slice(accesses))
    }

    fn decode_executions(&self, encoded: &Encoded<'_>, out: &mut ExecutedFrame) -> Result<(), Corrupt> {
        self.each_access(encoded, &mut |accesses| {
            accesses.iter().for_each(|access| out.push_single(*access));
        })
    }

    fn each_access(&self, encoded: &Encoded<'_>, act: &mut dyn FnMut(&[Access])) -> Result<(), Corrupt> {
        let bytes = of_right_length(encoded, entries_part(encoded.parts)?)?;
        let has_data = words::has_data(encoded.entry_type);
        let (mut accesses, mut with_data) = (Vec::new(), Vec::<DataAccess>::new());
        for some in bytes.chunks(SOME * encoded.entry_type.entry_bytes as usize) {
            accesses.clear();
            if has_data {
                with_data.clear();
                entries(some, &mut with_data)?;
                accesses.extend(with_data.iter().map(|entry| entry.access));
            } else {
                entries(some, &mut accesses)?;
            }
            act(&accesses);
        }
        Ok(())
    }

    fn count_instructions(&self, encoded: &Encoded<'_>, out: &mut InstructionTable) -> Result<(), Corrupt> {
        self.each_access(encoded, &mut |accesses| out.add_all(accesses))
    }
}

/// Entries that are looked at together, so that they need not be in memory twice.
const SOME: usize = 1 << 14;

fn of_right_length<'a>(encoded: &Encoded<'_>, bytes: &'a [u8]) -> Result<&'a [u8], Corrupt> {
    if encoded.count.checked_mul(encoded.entry_type.entry_bytes as usize) != Some(bytes.len()) {
        return Err(Corrupt("the entries do not have the length that the header says"));
    }
    Ok(bytes)
}

/// The inverse of [`raw`].
pub(crate) fn raw_decode(encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
    raw_bytes(encoded, entries_part(encoded.parts)?, out)
}

/// Appends entries that are stored as they are.
pub(super) fn raw_bytes(encoded: &Encoded<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Corrupt> {
    out.extend_from_slice(of_right_length(encoded, bytes)?);
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

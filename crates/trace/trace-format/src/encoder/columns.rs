//! The encoder of any type: fields become columns, as differences where a field grows or is an address
//! (docs/format.md, *Encoders*, 1). Bytes that no field covers are kept where they are not zero.

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder},
    number,
    uncovered::{between, put_between, uncovered},
};
use crate::{
    EntryType, Field, FieldRole,
    bytes::{ByteReader, put_varint, unzigzag, zigzag},
};

/// Attribute type of the bytes that no field covers.
const BETWEEN: u16 = 32;

/// Entries of which all fields are coded before those of the next ones: as many as stay in a processor's cache.
const ROWS_AT_ONCE: usize = 512;

/// Fields as columns.
#[derive(Debug)]
pub(crate) struct Columns;

/// The column of a field, while it grows.
struct Column<'a> {
    field: &'a Field,
    /// The value before the next one.
    last: u64,
    /// Its differences; of a field that does not grow each of its bytes.
    parts: Vec<Vec<u8>>,
}

impl<'a> Column<'a> {
    fn new(field: &'a Field) -> Self {
        let parts = if field.role == FieldRole::Plain { field.bytes.into() } else { 1 };
        Self { field, last: 0, parts: vec![Vec::new(); parts] }
    }

    fn push(&mut self, rows: &[u8], width: usize) {
        let rows = || rows.chunks_exact(width);
        if self.field.role == FieldRole::Plain {
            for (at, part) in (usize::from(self.field.offset)..).zip(&mut self.parts) {
                part.extend(rows().map(|entry| entry[at]));
            }
        } else if let [part] = &mut self.parts[..] {
            for entry in rows() {
                let value = self.field.get(entry);
                put_varint(part, zigzag(value.wrapping_sub(self.last)));
                self.last = value;
            }
        }
    }
}

impl Encoder for Columns {
    fn id(&self) -> u32 {
        number::COLUMNS
    }

    fn name(&self) -> &'static str {
        number::name_of(number::COLUMNS)
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        let width = entry_type.entry_bytes as usize;
        let mut columns: Vec<Column<'_>> = entry_type.fields.iter().map(Column::new).collect();
        for rows in entries.chunks(ROWS_AT_ONCE * width) {
            columns.iter_mut().for_each(|column| column.push(rows, width));
        }
        let mut bytes = Vec::new();
        for Column { parts, .. } in &columns {
            bytes.extend(parts.iter().map(|part| part.len() as u64).sum::<u64>().to_le_bytes());
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
        }
        let mut parts = vec![Attribute { kind: 0, coding: Coding::Zstd, bytes }];
        let rest = uncovered(entry_type, entry_type.fields.len());
        let is_used =
            |entry: &[u8]| rest.iter().any(|range| entry[range.clone()].iter().any(|&byte| byte != 0));
        if entries.chunks_exact(width).any(is_used) {
            let bytes = between(entries, width, &rest);
            parts.push(Attribute { kind: BETWEEN, coding: Coding::Zstd, bytes });
        }
        parts
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let &Encoded { entry_type, count, parts, .. } = encoded;
        const SHORT: Corrupt = Corrupt("a column is too short");
        let (columns, rest) = match parts {
            [Attribute { kind: 0, bytes, .. }] => (bytes, None),
            [Attribute { kind: 0, bytes, .. }, Attribute { kind: BETWEEN, bytes: rest, .. }] => {
                (bytes, Some(rest))
            }
            _ => return Err(Corrupt("the frame has an attribute that its encoder does not write")),
        };
        let mut reader = ByteReader::new(columns);
        let width = entry_type.entry_bytes as usize;
        let start = out.len();
        // Before anything is allocated: each field takes a byte an entry or more.
        let lens: usize = entry_type.fields.len().saturating_mul(count);
        if reader.remaining() < lens {
            return Err(SHORT);
        }
        out.resize(start + count * width, 0);
        let rows = &mut out[start..];
        for spec in &entry_type.fields {
            let len = usize::try_from(reader.u64().ok_or(SHORT)?).map_err(|_| SHORT)?;
            let column = reader.take(len).ok_or(SHORT)?;
            let (at, bytes) = (usize::from(spec.offset), usize::from(spec.bytes));
            if spec.role == FieldRole::Plain {
                if column.len() != count * bytes {
                    return Err(SHORT);
                }
                for (plane, values) in column.chunks_exact(count.max(1)).enumerate() {
                    for (row, &value) in rows.chunks_exact_mut(width).zip(values) {
                        row[at + plane] = value;
                    }
                }
                continue;
            }
            let mut column = ByteReader::new(column);
            let mut last = 0_u64;
            for row in rows.chunks_exact_mut(width) {
                last = last.wrapping_add(unzigzag(column.varint().ok_or(SHORT)?));
                row[at..at + bytes].copy_from_slice(&last.to_le_bytes()[..bytes]);
            }
            if !column.is_empty() {
                return Err(Corrupt("a column is too long"));
            }
        }
        if let Some(rest) = rest {
            let ranges = uncovered(entry_type, entry_type.fields.len());
            put_between(rest, width, &ranges, rows)
                .ok_or(Corrupt("the bytes that no field covers are not as many as the entries have"))?;
        }
        if reader.is_empty() { Ok(()) } else { Err(Corrupt("bytes follow the last column")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::StreamKind;

    proptest! {
        #[test]
        fn entries_of_every_type_round_trip(
            kind in prop::sample::select(StreamKind::ALL),
            seed: Vec<u8>,
            turns in prop::sample::select(&[1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1]),
        ) {
            let entry_type = kind.entry_type();
            let width = kind.entry_bytes();
            let mut entries = seed;
            entries.resize(entries.len().next_multiple_of(width).max(width), 7);
            let entries = entries.repeat(turns);
            let parts = Columns.encode(&entry_type, &entries);
            let encoded = Encoded { entry_type: &entry_type, count: entries.len() / width, parts: &parts, blocks: &[] };
            let mut decoded = Vec::new();
            prop_assert_eq!(Columns.decode(&encoded, &mut decoded), Ok(()));
            prop_assert_eq!(decoded, entries);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(kind in prop::sample::select(StreamKind::ALL), bytes: Vec<u8>, count in 0..99_usize) {
            let parts = [Attribute { kind: 0, coding: Coding::Stored, bytes }];
            let encoded = Encoded { entry_type: &kind.entry_type(), count, parts: &parts, blocks: &[] };
            let _ = Columns.decode(&encoded, &mut Vec::new());
        }
    }
}

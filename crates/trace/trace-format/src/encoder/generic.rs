//! The encoder of entries of any type: each field becomes a column of its own, in the form that suits it
//! (docs/format.md, *Encoders*, 5). Bytes that no field covers form a column too, so every entry is restored byte for byte.

use std::ops::Range;

use super::{
    attribute::{Attribute, Coding},
    codec::{Corrupt, Encoded, Encoder},
    number,
    uncovered::{between, put_between, uncovered},
};
use crate::{
    EntryType,
    bytes::{ByteReader, put_varint, unzigzag, zigzag},
};

/// Attribute types: the forms, then a column a field, then the bytes between.
const FORMS: u16 = 32;
const COLUMNS: u16 = 33;
/// Attributes that a frame can have; what more fields there are share the column of the bytes between.
const MAX_COLUMNS: usize = 60;

/// The field's bytes of all entries: first all lowest bytes, then all second ones, ...
const PLANES: u8 = 0;
/// Varints of the zigzag differences from the entry before.
const DIFFERENCES: u8 = 1;
/// As planes, of the differences.
const DIFFERENCE_PLANES: u8 = 2;
/// As they are, one after the other.
const PLAIN: u8 = 3;

/// Columns, each in the form that suits it.
#[derive(Debug)]
pub(crate) struct Generic;

/// Where a column's bytes are in an entry.
struct Column {
    offset: usize,
    bytes: usize,
}

/// The columns of a type, and the ranges of an entry that none of them has.
fn columns(entry_type: &EntryType) -> (Vec<Column>, Vec<Range<usize>>) {
    let fields = entry_type.fields.iter().take(MAX_COLUMNS);
    let columns =
        fields.map(|field| Column { offset: field.offset.into(), bytes: field.bytes.into() }).collect();
    (columns, uncovered(entry_type, MAX_COLUMNS))
}

fn value(entry: &[u8], column: &Column) -> u64 {
    let mut word = [0; 8];
    word[..column.bytes].copy_from_slice(&entry[column.offset..column.offset + column.bytes]);
    u64::from_le_bytes(word)
}

/// Sign-extends what the field can hold, so that small steps down are small too.
fn narrow(difference: u64, bytes: usize) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    ((difference << unused) as i64 >> unused) as u64
}

fn planes(values: &[u64], bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() * bytes);
    for plane in 0..bytes {
        out.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
    out
}

fn differences(values: &[u64], bytes: usize) -> Vec<u64> {
    let mut last = 0;
    let step = |&value: &u64| {
        let difference = narrow(value.wrapping_sub(last), bytes);
        last = value;
        zigzag(difference)
    };
    values.iter().map(step).collect()
}

fn form(form: u8, values: &[u64], bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    match form {
        PLANES => return planes(values, bytes),
        DIFFERENCES => differences(values, bytes).into_iter().for_each(|value| put_varint(&mut out, value)),
        DIFFERENCE_PLANES => return planes(&differences(values, bytes), bytes),
        _ => values.iter().for_each(|value| out.extend(&value.to_le_bytes()[..bytes])),
    }
    out
}

/// Entries that are tried to find the best form.
const SAMPLE: usize = 1 << 14;

fn best_form(values: &[u64], bytes: usize) -> u8 {
    let from = values.len().saturating_sub(SAMPLE) / 2;
    let sample = &values[from..values.len().min(from + SAMPLE)];
    let size = |number: &u8| {
        let bytes = form(*number, sample, bytes);
        zstd::bulk::compress(&bytes, 1).map_or(usize::MAX, |compressed| compressed.len())
    };
    [PLANES, DIFFERENCES, DIFFERENCE_PLANES, PLAIN].into_iter().min_by_key(size).unwrap_or(PLAIN)
}

fn parse(form: u8, bytes: usize, count: usize, column: &[u8]) -> Option<Vec<u64>> {
    let plane = |column: &[u8]| {
        let at = |place: usize| {
            (0..bytes).fold(0, |word, plane| word | u64::from(column[plane * count + place]) << (8 * plane))
        };
        (column.len() == count.checked_mul(bytes)?).then(|| (0..count).map(at).collect::<Vec<u64>>())
    };
    let mut last = 0u64;
    let unused = 64 - 8 * bytes as u32;
    let mut sum = |code: u64| {
        last = (last.wrapping_add(unzigzag(code)) << unused) >> unused;
        last
    };
    match form {
        PLANES => plane(column),
        DIFFERENCE_PLANES => {
            // Codes are as wide as the field: zigzag of a narrowed difference fits it.
            Some(plane(column)?.into_iter().map(sum).collect())
        }
        DIFFERENCES => {
            let mut reader = ByteReader::new(column);
            let mut values = Vec::with_capacity(count.min(column.len()));
            for _ in 0..count {
                values.push(sum(reader.varint()?));
            }
            reader.is_empty().then_some(values)
        }
        PLAIN => {
            let word = |chunk: &[u8]| {
                let mut word = [0; 8];
                word[..bytes].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            };
            (column.len() == count.checked_mul(bytes)?)
                .then(|| column.chunks_exact(bytes).map(word).collect())
        }
        _ => None,
    }
}

impl Encoder for Generic {
    fn id(&self) -> u32 {
        number::GENERIC
    }

    fn name(&self) -> &'static str {
        number::name_of(number::GENERIC)
    }

    fn encode(&self, entry_type: &EntryType, entries: &[u8]) -> Vec<Attribute> {
        let width = entry_type.entry_bytes as usize;
        let (columns, rest) = columns(entry_type);
        let mut parts = vec![Attribute { kind: FORMS, coding: Coding::Stored, bytes: Vec::new() }];
        for (number, column) in columns.iter().enumerate() {
            let values: Vec<u64> = entries.chunks_exact(width).map(|entry| value(entry, column)).collect();
            let best = best_form(&values, column.bytes);
            parts[0].bytes.push(best);
            let bytes = form(best, &values, column.bytes);
            parts.push(Attribute { kind: COLUMNS + number as u16, coding: Coding::Zstd, bytes });
        }
        let bytes = between(entries, width, &rest);
        parts.push(Attribute { kind: COLUMNS + columns.len() as u16, coding: Coding::Zstd, bytes });
        parts
    }

    fn decode(&self, encoded: &Encoded<'_>, out: &mut Vec<u8>) -> Result<(), Corrupt> {
        let &Encoded { entry_type, count, parts, .. } = encoded;
        const WRONG: Corrupt = Corrupt("a column is not what the frame's forms say");
        let width = entry_type.entry_bytes as usize;
        let (columns, rest) = columns(entry_type);
        let [forms, parts @ .., rest_part] = parts else { return Err(WRONG) };
        let in_order = |(number, part): (usize, &Attribute)| part.kind == COLUMNS + number as u16;
        if forms.kind != FORMS
            || forms.bytes.len() != columns.len()
            || parts.len() != columns.len()
            || rest_part.kind != COLUMNS + columns.len() as u16
            || !parts.iter().enumerate().all(in_order)
        {
            return Err(WRONG);
        }
        let gaps: usize = rest.iter().map(|range| range.len()).sum();
        if Some(rest_part.bytes.len()) != count.checked_mul(gaps) {
            return Err(WRONG);
        }
        let mut values = Vec::new();
        for ((column, part), &form) in columns.iter().zip(parts).zip(&forms.bytes) {
            values.push(parse(form, column.bytes, count, &part.bytes).ok_or(WRONG)?);
        }
        let first = out.len();
        out.resize(first + count * width, 0);
        for (place, entry) in out[first..].chunks_exact_mut(width).enumerate() {
            for (column, values) in columns.iter().zip(&values) {
                let bytes = values[place].to_le_bytes();
                entry[column.offset..column.offset + column.bytes].copy_from_slice(&bytes[..column.bytes]);
            }
        }
        put_between(&rest_part.bytes, width, &rest, &mut out[first..]).ok_or(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Field, FieldRole, Guid};

    fn entry_type() -> EntryType {
        let field = |offset, bytes| Field { name: "f".into(), offset, bytes, role: FieldRole::Plain };
        let fields = vec![field(1, 8), field(9, 1), field(12, 4), field(16, 2)];
        EntryType { guid: Guid([0; 16]), name: "test".into(), entry_bytes: 19, fields }
    }

    proptest! {
        #[test]
        fn any_entries_come_back(entries in prop::collection::vec(any::<[u8; 19]>(), 1..200)) {
            let bytes = entries.concat();
            let parts = Generic.encode(&entry_type(), &bytes);
            let mut out = Vec::new();
            let encoded = Encoded { entry_type: &entry_type(), count: entries.len(), parts: &parts, blocks: &[] };
            Generic.decode(&encoded, &mut out).unwrap();
            prop_assert!(out == bytes);
            let more = Encoded { count: entries.len() + 1, ..encoded };
            prop_assert!(Generic.decode(&more, &mut out).is_err());
        }

        #[test]
        fn every_form_comes_back(values: Vec<u64>, bytes in prop::sample::select(vec![1usize, 2, 4, 8])) {
            let values: Vec<u64> = values.iter().map(|value| value >> (64 - 8 * bytes as u32)).collect();
            for number in [PLANES, DIFFERENCES, DIFFERENCE_PLANES, PLAIN] {
                let column = form(number, &values, bytes);
                prop_assert_eq!(parse(number, bytes, values.len(), &column), Some(values.clone()));
            }
        }
    }

    #[test]
    fn columns_find_their_form() {
        let growing: Vec<u64> = (0..5_000).map(|n| n * 1_000_003).collect();
        assert!(matches!(best_form(&growing, 8), DIFFERENCES | DIFFERENCE_PLANES));
        let text: Vec<u64> = (0..5_000).map(|n| [7, 1 << 40, 99][n % 3]).collect();
        assert_ne!(best_form(&text, 8), DIFFERENCES);
    }
}

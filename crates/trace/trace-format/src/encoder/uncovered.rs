//! The bytes of entries that no field of their type covers: encoders that work field by field store them separately.

use std::ops::Range;

use crate::EntryType;

/// The ranges of an entry that none of its type's first `fields` fields has.
pub(super) fn uncovered(entry_type: &EntryType, fields: usize) -> Vec<Range<usize>> {
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
pub(super) fn between(entries: &[u8], width: usize, ranges: &[Range<usize>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries.chunks_exact(width) {
        for range in ranges {
            bytes.extend_from_slice(&entry[range.clone()]);
        }
    }
    bytes
}

/// The inverse of [`between`]; `None` where there are not as many bytes.
pub(super) fn put_between(
    mut bytes: &[u8],
    width: usize,
    ranges: &[Range<usize>],
    entries: &mut [u8],
) -> Option<()> {
    for entry in entries.chunks_exact_mut(width) {
        for range in ranges {
            let (front, rest) = bytes.split_at_checked(range.len())?;
            entry[range.clone()].copy_from_slice(front);
            bytes = rest;
        }
    }
    bytes.is_empty().then_some(())
}

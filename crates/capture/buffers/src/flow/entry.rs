//! Reading the entries of a buffer: from its end, since each header stands after its payload.

use super::{CUT, CUT_ALL, EMBED, ID_BITS, PAD};

/// One entry of a translated thread's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Instructions without accesses.
    Instructions(u64),
    /// A record.
    Record(&'a [u8]),
    /// An execution of a block: its number, its values (eight bytes each), and the instructions without accesses that
    /// followed it.
    Block(u32, &'a [u8], u64),
    /// Only that many instructions of the block before were executed; `true`: but all its accesses were made.
    Cut(u64, bool),
}

/// Finds the entries of a buffer, from its end. `values` says how many values a block has. `found` gets where each entry starts
/// and ends, the last one first; `false` where the bytes are no entries.
#[inline]
pub fn find_entries(
    bytes: &[u8],
    values: impl Fn(u32) -> Option<u8>,
    mut found: impl FnMut(usize, usize),
) -> bool {
    let mut end = bytes.len() & !7;
    while end > 0 {
        let Some(header) = word_at(bytes, end - 8) else { return false };
        let id = header & ((1 << ID_BITS) - 1);
        let payload = match id {
            PAD => 0,
            EMBED => (header >> ID_BITS) as usize,
            CUT => 1,
            id => match values(id as u32) {
                Some(values) => usize::from(values),
                None => return false,
            },
        };
        let Some(start) = payload.checked_mul(8).and_then(|bytes| (end - 8).checked_sub(bytes)) else {
            return false;
        };
        found(start, end);
        end = start;
    }
    true
}

/// Whether the entry that ends there is a [`CUT`], and whether it says nothing at all.
#[inline]
pub fn is_cut_or_empty(bytes: &[u8], end: usize) -> (bool, bool) {
    let header = end.checked_sub(8).and_then(|at| word_at(bytes, at)).unwrap_or(0);
    (header & ((1 << ID_BITS) - 1) == CUT, header == PAD)
}

/// The entry between two places that [`find_entries`] found.
#[inline]
pub fn entry(bytes: &[u8], start: usize, end: usize) -> Option<Entry<'_>> {
    let header = word_at(bytes, end.checked_sub(8)?)?;
    let payload = bytes.get(start..end - 8)?;
    let number = header >> ID_BITS;
    Some(match header & ((1 << ID_BITS) - 1) {
        PAD => Entry::Instructions(number),
        EMBED => Entry::Record(payload),
        CUT => {
            let word = word_at(payload, 0)?;
            Entry::Cut(word & 0xffff_ffff, word & CUT_ALL != 0)
        }
        id => Entry::Block(id as u32, payload, number),
    })
}

/// The little-endian word at that place.
#[inline]
pub fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn entries_are_found_from_the_end() {
        let words =
            [5u64 << ID_BITS, 11, 22, 17 | 3 << ID_BITS, 9, 8, EMBED | 2 << ID_BITS, 1 | CUT_ALL, CUT];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut places = Vec::new();
        assert!(find_entries(&bytes, |id| (id == 17).then_some(2), |start, end| places.push((start, end))));
        places.reverse();
        let entries: Vec<_> = places.iter().map(|&(start, end)| entry(&bytes, start, end).unwrap()).collect();
        assert_eq!(
            entries,
            [
                Entry::Instructions(5),
                Entry::Block(17, &bytes[8..24], 3),
                Entry::Record(&bytes[32..48]),
                Entry::Cut(1, true)
            ]
        );
        assert!(!find_entries(&bytes[8..], |_| None, |_, _| {}));
    }
}

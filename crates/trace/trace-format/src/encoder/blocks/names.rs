//! How a frame names blocks that other frames define (docs/format.md, *Block definitions*): an attribute
//! with the beginning of an epoch of the stream of definitions, and the place of each block in it.
//!
//! This module handles only the attribute. The reader finds the definitions at these places, and the writer puts them there.

use crate::bytes::{ByteReader, put_varint, unzigzag, zigzag};
use crate::encoder::attribute::{Attribute, Coding};
use crate::encoder::codec::Corrupt;

/// The attribute's type.
pub(super) const NAMES: u16 = 33;
/// Entries of the stream of definitions that an epoch has at most: what a reader keeps of one is bounded by it.
pub(crate) const EPOCH_ENTRIES: u64 = 1 << 18;

const MALFORMED: Corrupt = Corrupt("the names of its blocks are malformed");

/// The blocks of a frame, by where they are defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockNames {
    /// The index of the epoch's first entry.
    pub(crate) base: u64,
    /// Where the definitions begin, in entries from there on: below [`EPOCH_ENTRIES`].
    pub(crate) places: Vec<u32>,
}

impl BlockNames {
    pub(crate) fn attribute(&self) -> Attribute {
        let mut bytes = Vec::with_capacity(8 + 2 * self.places.len());
        bytes.extend(self.base.to_le_bytes());
        let mut before = 0;
        for place in self.places.iter().map(|&place| u64::from(place)) {
            put_varint(&mut bytes, zigzag(place.wrapping_sub(before)));
            before = place;
        }
        Attribute { kind: NAMES, coding: Coding::Zstd, bytes }
    }

    /// The names that a frame has, if it does not define its blocks itself: `most` at most, since each block makes an access.
    pub(crate) fn of(parts: &[Attribute], most: u64) -> Result<Option<Self>, Corrupt> {
        let [_, Attribute { kind: NAMES, bytes, .. }] = parts else { return Ok(None) };
        let mut reader = ByteReader::new(bytes);
        let base = reader.u64().ok_or(MALFORMED)?;
        let most = most.min(EPOCH_ENTRIES) as usize;
        let (mut places, mut before) = (Vec::with_capacity(most.min(reader.remaining())), 0u64);
        while !reader.is_empty() {
            before = before.wrapping_add(unzigzag(reader.varint().ok_or(MALFORMED)?));
            if before >= EPOCH_ENTRIES || places.len() == most || base.checked_add(before).is_none() {
                return Err(MALFORMED);
            }
            places.push(before as u32);
        }
        Ok(Some(Self { base, places }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns() -> Attribute {
        Attribute { kind: 0, coding: Coding::Zstd, bytes: Vec::new() }
    }

    proptest! {
        #[test]
        fn names_come_back(base in 0..u64::MAX / 2, places in prop::collection::vec(0..EPOCH_ENTRIES as u32, 0..99)) {
            let names = BlockNames { base, places };
            let parts = [columns(), names.attribute()];
            prop_assert_eq!(BlockNames::of(&parts, 99), Ok(Some(names)));
        }

        #[test]
        fn any_bytes_are_names_within_the_bounds_or_refused(bytes: Vec<u8>, most in 0u64..9) {
            let parts = [columns(), Attribute { bytes, kind: NAMES, coding: Coding::Stored }];
            if let Ok(names) = BlockNames::of(&parts, most) {
                let BlockNames { base, places } = names.expect("the attribute is there");
                prop_assert!(places.len() as u64 <= most);
                prop_assert!(places.iter().all(|&place| u64::from(place) < EPOCH_ENTRIES && u64::from(place) <= u64::MAX - base));
            }
        }
    }

    #[test]
    fn a_frame_that_defines_its_blocks_names_none() {
        assert_eq!(BlockNames::of(&[columns()], 9), Ok(None));
    }
}

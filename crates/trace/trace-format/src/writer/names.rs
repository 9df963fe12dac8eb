//! The strings of a session: each is written once, into a separate stream, and referred to by its first block.

use std::collections::HashMap;

use super::segment::PendingSegment;
use crate::StreamKind;

/// The reference of the empty string.
pub(crate) const EMPTY: u64 = u64::MAX;
/// Strings beyond this total are written again instead of being remembered.
const MAX_REMEMBERED_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct NameTable {
    references: HashMap<Box<str>, u64>,
    remembered_bytes: usize,
    pub(crate) segment: PendingSegment,
}

impl Default for NameTable {
    fn default() -> Self {
        Self {
            references: HashMap::new(),
            remembered_bytes: 0,
            segment: PendingSegment::new(StreamKind::Names, None),
        }
    }
}

impl NameTable {
    /// The reference of `name`, which will be in the file once the segment is written.
    pub(crate) fn reference(&mut self, name: &str, clock: fn() -> u64) -> u64 {
        if name.is_empty() {
            return EMPTY;
        }
        if let Some(&reference) = self.references.get(name) {
            return reference;
        }
        let reference = self.segment.push_data(name.as_bytes(), clock);
        if self.remembered_bytes + name.len() <= MAX_REMEMBERED_BYTES {
            self.remembered_bytes += name.len();
            self.references.insert(name.into(), reference);
        }
        reference
    }
}

//! The stores of a vCPU: their physical addresses and bytes.

use std::ops::Range;

use memref::ThreadId;
use trace_format::{DataAccess, DataCursor, Filter, Trace};

use super::walk::Places;
use crate::Error;

/// One store to the guest's memory.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) cycle: u64,
    /// The parts of memory, in the order of the bytes.
    pub(super) ranges: [Range<u64>; 2],
    pub(super) bytes: [u8; 16],
}

/// The stores of a vCPU, in order.
pub(super) struct Stores {
    cursor: DataCursor,
    places: Places,
    accesses: std::vec::IntoIter<DataAccess>,
    index: u64,
    next: Option<Store>,
}

impl Stores {
    pub(super) fn new(trace: &Trace, thread: ThreadId) -> Result<Self, Error> {
        let cursor = trace.shard(thread).data_accesses(&Filter::default());
        let places = Places::new(trace, thread)?;
        let mut stores = Self { cursor, places, accesses: Vec::new().into_iter(), index: 0, next: None };
        stores.advance()?;
        Ok(stores)
    }

    /// The next store, without going on.
    pub(super) fn peek(&self) -> Option<&Store> {
        self.next.as_ref()
    }

    /// Goes on to the next store whose bytes are known.
    pub(super) fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        loop {
            for entry in self.accesses.by_ref() {
                let (index, access) = (self.index, entry.access);
                self.index += 1;
                self.places.go_to(index)?;
                if !access.kind.writes() || entry.value_bytes == 0 {
                    continue;
                }
                let Some(ranges) = self.places.physical.ranges(&access) else { continue };
                let mut bytes = [0; 16];
                if entry.value_bytes <= 8 {
                    bytes[..8].copy_from_slice(&entry.value.to_le_bytes());
                } else {
                    let Some(wide) = self.cursor.bytes(&entry)? else { continue };
                    for (to, from) in bytes.iter_mut().zip(wide) {
                        *to = from;
                    }
                }
                self.next = Some(Store { cycle: access.cycle, ranges, bytes });
                return Ok(());
            }
            let Some(block) = self.cursor.next_block()? else { return Ok(()) };
            let block = block.to_vec();
            self.accesses = block.into_iter();
            self.index = self.cursor.first_index();
        }
    }
}

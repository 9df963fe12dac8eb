//! Iterates over a stream entry by entry, forwards and backwards.

use std::ops::Range;

use super::{Client, EntryReader};
use crate::Error;
use crate::wire::By;

/// Entries that are read at once.
const BATCH: u32 = 4096;
/// Indices that are looked at in one step backwards, at most: fewer where entries match, more where a filter leaves few.
const FARTHEST: u64 = 1 << 18;

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its index in the stream.
    pub index: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A place between two entries of a stream, and the entries around it that match a filter.
#[derive(Debug)]
pub struct EntryCursor {
    client: Client,
    stream: u32,
    reader: EntryReader,
    /// Right before the entry of this index.
    at: u64,
    /// All matching entries of these indices are in `bytes`.
    held: Range<u64>,
    bytes: Vec<u8>,
    indices: Vec<u64>,
    /// The index after the last entry, as it was when it was looked at.
    end: u64,
    lost: u64,
}

impl EntryCursor {
    pub(super) fn new(client: Client, stream: u32, reader: EntryReader) -> Self {
        let (bytes, indices) = (Vec::new(), Vec::new());
        Self { client, stream, reader, at: 0, held: 0..0, bytes, indices, end: 0, lost: 0 }
    }

    /// Goes to the place right before that index; beyond the end is the end.
    pub fn seek(&mut self, index: u64) {
        self.at = index;
    }

    /// Entries that it passed over because they are damaged or missing; twice where it passed them twice.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The next entry, and goes behind it. `None` at the end; a trace that is being written may have more later.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, Error> {
        loop {
            if self.held.contains(&self.at) {
                let place = self.indices.partition_point(|index| *index < self.at);
                if place < self.indices.len() {
                    self.at = self.indices[place] + 1;
                    return Ok(Some(self.entry(place)));
                }
                self.at = self.held.end;
            }
            self.forget();
            let next = self.hold(self.at, u64::MAX)?;
            if next <= self.at {
                return Ok(None);
            }
            self.held = self.at..next;
        }
    }

    /// The entry before, and goes in front of it. `None` at the beginning.
    pub fn previous_entry(&mut self) -> Result<Option<Entry<'_>>, Error> {
        let mut farther = u64::from(BATCH);
        loop {
            if self.held.start < self.at && self.at <= self.held.end {
                let place = self.indices.partition_point(|index| *index < self.at);
                if let Some(before) = place.checked_sub(1) {
                    self.at = self.indices[before];
                    return Ok(Some(self.entry(before)));
                }
                self.at = self.held.start;
            }
            if self.at > self.end {
                self.end = self.client.seek(self.stream, By::Index, u64::MAX)?;
                self.at = self.at.min(self.end);
            }
            if self.at == 0 {
                return Ok(None);
            }
            self.forget();
            let from = self.at.saturating_sub(farther);
            let mut next = from;
            while next < self.at {
                let after = self.hold(next, self.at)?;
                if after <= next {
                    break;
                }
                next = after;
            }
            self.held = from..self.at;
            farther = (farther * 2).min(FARTHEST);
        }
    }

    fn entry(&self, place: usize) -> Entry<'_> {
        let width = self.reader.entry_bytes();
        Entry { index: self.indices[place], bytes: &self.bytes[place * width..][..width] }
    }

    fn forget(&mut self) {
        self.held = 0..0;
        self.bytes.clear();
        self.indices.clear();
    }

    /// Takes some of the entries from an index on, those below `until`; returns where to go on.
    fn hold(&mut self, from: u64, until: u64) -> Result<u64, Error> {
        let batch = self.reader.read(from, BATCH)?;
        for (place, entry) in batch.entries().enumerate() {
            let index = batch.index(place);
            if index >= until {
                break;
            }
            self.indices.push(index);
            self.bytes.extend_from_slice(entry);
        }
        self.lost += batch.lost();
        self.end = batch.end_index();
        Ok(batch.next_index())
    }
}

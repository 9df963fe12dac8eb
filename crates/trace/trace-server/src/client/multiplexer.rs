//! Several streams merged into one: by an increasing field, such as cycles or orders, or by the places of their entries.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trace_format::{Field, FieldRole, Filter};

use super::{Client, EntryCursor};
use crate::Error;

/// An entry of one of several streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedEntry<'a> {
    /// Its stream.
    pub stream: u32,
    /// Its index there.
    pub index: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Which source is next: that with the least key, and of several the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    key: u64,
    place: usize,
}

#[derive(Debug)]
struct Source {
    stream: u32,
    cursor: EntryCursor,
    /// What is compared; without one, the index.
    field: Option<Field>,
    /// Its next entry.
    index: u64,
    bytes: Vec<u8>,
}

impl Source {
    /// Goes on to its next entry; what that is compared by.
    fn advance(&mut self) -> Result<Option<u64>, Error> {
        let Some(entry) = self.cursor.next_entry()? else { return Ok(None) };
        self.index = entry.index;
        self.bytes.clear();
        self.bytes.extend_from_slice(entry.bytes);
        Ok(Some(self.field.as_ref().map_or(entry.index, |field| field.get(&self.bytes))))
    }
}

/// The matching entries of several streams, the least first; of equal ones that of the stream that was named first.
#[derive(Debug)]
pub struct Multiplexer {
    sources: Vec<Source>,
    /// What is next, of each stream that has more.
    next: BinaryHeap<Reverse<Turn>>,
    /// The source whose entry was given last: it goes on at the next call.
    given: Option<usize>,
}

impl Multiplexer {
    pub(super) fn open(
        client: &Client,
        streams: &[u32],
        field: Option<&str>,
        filter: &Filter,
    ) -> Result<Self, Error> {
        let known = client.streams()?;
        let mut sources = Vec::new();
        for &stream in streams {
            let usage = |what| Error::Usage { stream, what };
            let found = known.iter().find(|known| known.number == stream);
            let found = found.ok_or_else(|| usage("the trace has no such stream"))?;
            let growing = |name| {
                let grows = |field: &&Field| field.name == name && field.role == FieldRole::Growing;
                let field = found.description.entry_type.fields.iter().find(grows).cloned();
                field.ok_or_else(|| usage("its entries have no growing field of that name"))
            };
            let field = field.map(growing).transpose()?;
            let cursor = client.cursor(stream, filter)?;
            sources.push(Source { stream, cursor, field, index: 0, bytes: Vec::new() });
        }
        let mut merged = Self { sources, next: BinaryHeap::new(), given: None };
        for place in 0..merged.sources.len() {
            merged.advance(place)?;
        }
        Ok(merged)
    }

    fn advance(&mut self, place: usize) -> Result<(), Error> {
        if let Some(key) = self.sources[place].advance()? {
            self.next.push(Reverse(Turn { key, place }));
        }
        Ok(())
    }

    /// The next entry; `None` at the end of all streams.
    pub fn next_entry(&mut self) -> Result<Option<MergedEntry<'_>>, Error> {
        if let Some(place) = self.given.take() {
            self.advance(place)?;
        }
        let Some(Reverse(Turn { place, .. })) = self.next.pop() else { return Ok(None) };
        self.given = Some(place);
        let Source { stream, index, bytes, .. } = &self.sources[place];
        Ok(Some(MergedEntry { stream: *stream, index: *index, bytes }))
    }

    /// Entries that it passed over because they are damaged or missing.
    pub fn lost(&self) -> u64 {
        self.sources.iter().map(|source| source.cursor.lost()).sum()
    }
}

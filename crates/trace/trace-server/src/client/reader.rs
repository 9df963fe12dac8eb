//! Reads a stream from a server.

use std::sync::Arc;

use buffers_host::Region;
use trace_format::Filter;

use super::connection::{AnswerMemory, Connection};
use crate::Error;
use crate::wire::{EntryBlock, Reply, Request};

/// Reads the entries of one stream that match a filter.
#[derive(Debug)]
pub struct EntryReader {
    connection: Arc<Connection>,
    reader: u32,
    entry_bytes: usize,
    buffer_bytes: usize,
    region: Option<Arc<Region>>,
    block: EntryBlock,
    /// Entries and indices of `block`.
    bytes: Vec<u8>,
}

/// Entries that were read.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    block: &'a EntryBlock,
    bytes: &'a [u8],
    entry_bytes: usize,
}

impl<'a> Batch<'a> {
    /// The entries, in the order of their indices.
    pub fn entries(&self) -> std::slice::ChunksExact<'a, u8> {
        let len = self.block.entries as usize * self.entry_bytes;
        self.bytes.get(..len).unwrap_or(&[]).chunks_exact(self.entry_bytes)
    }

    /// The bytes of all entries.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes.get(..self.block.entries as usize * self.entry_bytes).unwrap_or(&[])
    }

    /// The index of one of them in the stream.
    pub fn index(&self, place: usize) -> u64 {
        if !self.block.indexed {
            return self.block.first_index + place as u64;
        }
        let at = self.block.entries as usize * self.entry_bytes + place * 4;
        let offset = self.bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        self.block.first_index + offset.map_or(0, u32::from_le_bytes) as u64
    }

    /// Where to read on.
    pub fn next_index(&self) -> u64 {
        self.block.next_index
    }

    /// The index after the stream's last entry, at the time of reading.
    pub fn end_index(&self) -> u64 {
        self.block.end_index
    }

    /// Entries that are damaged or missing between the index that was asked for and [`Self::next_index`].
    pub fn lost(&self) -> u64 {
        self.block.lost
    }
}

impl EntryReader {
    pub(crate) fn open(
        connection: &Arc<Connection>,
        stream: u32,
        buffer_bytes: u32,
        filter: &Filter,
    ) -> Result<Self, Error> {
        let request = Request::OpenReader { stream, buffer_bytes, filter: filter.clone() };
        let (reply, memory) = connection.call(&request)?;
        let Reply::Reader { reader, buffer_bytes, entry_bytes, shared } = reply else {
            return Err(connection.strange());
        };
        let (entry_bytes, buffer_bytes) = (entry_bytes as usize, buffer_bytes as usize);
        if entry_bytes == 0 {
            return Err(connection.strange());
        }
        let failed =
            |source| Error::Io { what: "a buffer".into(), operation: "map its memory", cause: source };
        let region = match memory {
            AnswerMemory::Region(region) => Some(region),
            AnswerMemory::Descriptor(fd) => Some(Arc::new(Region::open(fd, buffer_bytes).map_err(failed)?)),
            AnswerMemory::None if shared => return Err(connection.strange()),
            AnswerMemory::None => None,
        };
        let connection = connection.clone();
        let (block, bytes) = (EntryBlock::default(), Vec::new());
        Ok(Self { connection, reader, entry_bytes, buffer_bytes, region, block, bytes })
    }

    /// Bytes of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// At most `most` entries from `index` on. There may be none although the stream goes on: read on at `next_index`, until
    /// that is the `end_index`. A trace that is being written may have more later.
    pub fn read(&mut self, index: u64, most: u32) -> Result<Batch<'_>, Error> {
        let (reply, _) = self.connection.call(&Request::Read { reader: self.reader, index, most })?;
        let Reply::Block(mut block) = reply else { return Err(self.connection.strange()) };
        let width = self.entry_bytes + if block.indexed { 4 } else { 0 };
        let len = block.entries as usize * width;
        if len > self.buffer_bytes {
            return Err(self.connection.strange());
        }
        self.bytes.clear();
        match &self.region {
            Some(region) => region.read(0, len, &mut self.bytes),
            None if block.compressed => {
                let whole = zstd::bulk::decompress(&block.data, self.buffer_bytes);
                self.bytes = whole.map_err(|_| self.connection.strange())?;
            }
            None => self.bytes = std::mem::take(&mut block.data),
        }
        if self.bytes.len() != len {
            return Err(self.connection.strange());
        }
        block.data = Vec::new();
        self.block = block;
        Ok(Batch { block: &self.block, bytes: &self.bytes, entry_bytes: self.entry_bytes })
    }
}

impl Drop for EntryReader {
    fn drop(&mut self) {
        let _ = self.connection.call(&Request::CloseReader { reader: self.reader });
    }
}

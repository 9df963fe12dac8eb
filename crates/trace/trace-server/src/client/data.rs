//! Data of any length in addition to entries, such as names and messages; entries hold
//! references to it (Simutrace, section 2.2; docs/format.md, *Variable-sized data*).

use trace_format::var::{self, BLOCK_BYTES};

use super::{Client, EntryReader, EntryWriter};
use crate::Error;
use crate::wire::By;

/// Blocks that are read at once.
const BLOCKS: u32 = 64;

/// Writes data of any length into a stream of them. A stream has one such writer at a time, since a reference is a place in it.
#[derive(Debug)]
pub struct DataWriter {
    writer: EntryWriter,
    /// The reference of the next datum; `None` once some could not be written, after which nobody knows.
    next: Option<u64>,
    stream: u32,
    blocks: Vec<u8>,
}

impl DataWriter {
    pub(super) fn open(client: &Client, stream: u32) -> Result<Self, Error> {
        let writer = client.writer(stream)?;
        // An earlier writer's may be on their way to the file.
        client.flush(false)?;
        let next = client.seek(stream, By::Index, u64::MAX)?;
        Ok(Self { writer, next: Some(next), stream, blocks: Vec::new() })
    }

    /// Writes a datum; returns its reference. After a failure nothing can be written any more.
    pub fn push(&mut self, data: &[u8]) -> Result<u64, Error> {
        let what = "data before these could not be written";
        let reference = self.next.take().ok_or(Error::Usage { stream: self.stream, what })?;
        self.blocks.clear();
        let count = var::put(&mut self.blocks, data);
        self.writer.push_all(&self.blocks)?;
        self.next = Some(reference + count);
        Ok(reference)
    }

    /// Gives its buffers back. Where that fails, some of what was written is not in the trace.
    pub fn close(self) -> Result<(), Error> {
        self.writer.close()
    }
}

/// Reads data of any length by their references.
#[derive(Debug)]
pub struct DataReader {
    reader: EntryReader,
}

impl DataReader {
    pub(super) fn new(reader: EntryReader) -> Self {
        Self { reader }
    }

    /// The datum at a reference; `None` where none begins there, or a part of it is damaged or not in the file yet.
    pub fn get(&mut self, reference: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut failure = None;
        let (mut first, mut blocks) = (reference, Vec::<[u8; BLOCK_BYTES]>::new());
        let blocks_from = (reference..=u64::MAX).map(|index| {
            if index - first >= blocks.len() as u64 {
                (first, blocks) = (index, Vec::new());
                match self.reader.read(index, BLOCKS) {
                    // Blocks that are lost are left out of a batch.
                    Ok(batch) => {
                        let whole = batch
                            .entries()
                            .enumerate()
                            .take_while(|(place, _)| batch.index(*place) == index + *place as u64);
                        blocks
                            .extend(whole.filter_map(|(_, entry)| <[u8; BLOCK_BYTES]>::try_from(entry).ok()));
                    }
                    Err(error) => failure = Some(error),
                }
            }
            blocks.get((index - first) as usize).copied()
        });
        let datum = var::get(blocks_from);
        failure.map_or(Ok(datum), Err)
    }
}

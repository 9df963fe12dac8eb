//! Fills a stream's buffers: the writer of one thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use buffers_host::Region;

use super::connection::{AnswerMemory, Connection};
use crate::Error;
use crate::engine::ring::RingLayout;
use crate::wire::{Reply, Request};

/// Writes the entries of one stream, for one thread. An entry is stored and counted in shared memory; only a full buffer
/// takes a message, and only where no other buffer is free does the writer wait.
///
/// Dropped without [`EntryWriter::close`], it closes as well, but nobody hears of a failure.
#[derive(Debug)]
pub struct EntryWriter {
    connection: Arc<Connection>,
    region: Arc<Region>,
    /// Whether the server sees the region.
    shared: bool,
    layout: RingLayout,
    stream: u32,
    writer: u32,
    /// The buffer that is being filled, and how far.
    buffer: usize,
    at: usize,
    /// Where it begins in the region, how much fits, and its word.
    base: usize,
    full: usize,
    /// Buffers that the server has.
    away: usize,
    closed: bool,
}

impl EntryWriter {
    pub(crate) fn open(
        connection: &Arc<Connection>,
        stream: u32,
        buffer_bytes: u32,
        buffers: u32,
    ) -> Result<Self, Error> {
        let (reply, memory) = connection.call(&Request::OpenWriter { stream, buffer_bytes, buffers })?;
        let Reply::Writer { writer, buffer_bytes, buffers, entry_bytes, shared } = reply else {
            return Err(connection.strange());
        };
        let layout = RingLayout {
            buffers: buffers as usize,
            buffer_bytes: buffer_bytes as usize,
            entry_bytes: entry_bytes as usize,
        };
        if layout.buffers < 2 || layout.entry_bytes == 0 || layout.buffer_bytes < layout.entry_bytes {
            return Err(connection.strange());
        }
        let failed =
            |source| Error::Io { what: "a buffer".into(), operation: "map its memory", cause: source };
        let region = match memory {
            AnswerMemory::Region(region) => region,
            AnswerMemory::Descriptor(descriptor) => {
                Arc::new(Region::open(descriptor, layout.total()).map_err(failed)?)
            }
            AnswerMemory::None if shared => return Err(connection.strange()),
            AnswerMemory::None => Arc::new(Region::create(layout.total()).map_err(failed)?),
        };
        Ok(Self {
            connection: connection.clone(),
            region,
            shared,
            layout,
            stream,
            writer,
            buffer: 0,
            at: 0,
            base: layout.buffer(0),
            full: layout.full(),
            away: 0,
            closed: false,
        })
    }

    /// Bytes of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.layout.entry_bytes
    }

    /// Writes one entry.
    #[inline]
    pub fn push(&mut self, entry: &[u8]) -> Result<(), Error> {
        if entry.len() != self.layout.entry_bytes {
            return Err(self.usage("the entry has another length than the stream's type"));
        }
        if self.at + entry.len() > self.full {
            self.submit()?;
        }
        self.region.write(self.base + self.at, entry);
        self.publish(self.at + entry.len());
        Ok(())
    }

    /// Writes one entry whose length is known when the caller is compiled: the fast path.
    #[inline]
    pub fn push_array<const BYTES: usize>(&mut self, entry: &[u8; BYTES]) -> Result<(), Error> {
        if BYTES != self.layout.entry_bytes {
            return Err(self.usage("the entry has another length than the stream's type"));
        }
        if self.at + BYTES > self.full {
            self.submit()?;
        }
        self.region.write(self.base + self.at, entry);
        self.publish(self.at + BYTES);
        Ok(())
    }

    /// Writes whole entries.
    pub fn push_all(&mut self, mut entries: &[u8]) -> Result<(), Error> {
        if !entries.len().is_multiple_of(self.layout.entry_bytes) {
            return Err(self.usage("the bytes are not whole entries"));
        }
        while !entries.is_empty() {
            if self.at == self.full {
                self.submit()?;
            }
            let (piece, rest) = entries.split_at(entries.len().min(self.full - self.at));
            self.region.write(self.base + self.at, piece);
            self.publish(self.at + piece.len());
            entries = rest;
        }
        Ok(())
    }

    /// Where the next entry goes, for those who fill it in place; [`Self::commit`] follows. Nobody else touches these bytes
    /// until then. The place is valid until the next call.
    pub fn next_entry(&mut self) -> Result<*mut u8, Error> {
        if self.at + self.layout.entry_bytes > self.full {
            self.submit()?;
        }
        Ok(self.region.as_ptr().wrapping_add(self.base + self.at))
    }

    /// The entry that [`Self::next_entry`] gave is written.
    #[inline]
    pub fn commit(&mut self) {
        if self.at + self.layout.entry_bytes <= self.full {
            self.publish(self.at + self.layout.entry_bytes);
        }
    }

    #[inline]
    fn publish(&mut self, at: usize) {
        self.at = at;
        if let Some(word) = self.region.words().get(self.layout.filled(self.buffer)) {
            word.store(at as u64, Ordering::Release);
        }
    }

    fn usage(&self, what: &'static str) -> Error {
        Error::Usage { stream: self.stream, what }
    }

    /// Hands the started buffer over, and returns with another one: waits where the server has all of them.
    #[cold]
    pub fn submit(&mut self) -> Result<(), Error> {
        let mut entries = Vec::new();
        if !self.shared {
            self.region.read(self.base, self.at, &mut entries);
            // What a server would do.
            if let Some(word) = self.region.words().get(self.layout.filled(self.buffer)) {
                word.store(0, Ordering::Release);
            }
        }
        self.connection.submit(self.writer, self.buffer as u32, self.at as u32, entries)?;
        self.away += 1;
        self.buffer = (self.buffer + 1) % self.layout.buffers;
        self.base = self.layout.buffer(self.buffer);
        self.at = 0;
        let back = self.connection.back(self.writer, self.away == self.layout.buffers);
        // Even a refused buffer comes back.
        match back {
            Ok(back) => self.away = self.away.saturating_sub(back as usize),
            Err(error) => {
                self.away = self.away.saturating_sub(1);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Hands over what is filled, if the server can't see it, and waits until all of it is in the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        if !self.shared && self.at > 0 {
            self.submit()?;
        }
        match self.connection.call(&Request::Flush { sync: false })?.0 {
            Reply::Done { .. } => self.refusals(),
            _ => Err(self.connection.strange()),
        }
    }

    /// Hands over what is filled, where the server can't see it.
    pub(crate) fn offer(&mut self) -> Result<(), Error> {
        if !self.shared && self.at > 0 { self.submit() } else { Ok(()) }
    }

    /// Returns when the server has taken all that was submitted.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        while self.away > 0 {
            let back = self.connection.back(self.writer, true);
            self.away = self.away.saturating_sub(*back.as_ref().unwrap_or(&1) as usize);
            back?;
        }
        self.refusals()
    }

    /// What the server said of earlier submissions.
    pub(crate) fn refusals(&mut self) -> Result<(), Error> {
        let back = self.connection.back(self.writer, false)?;
        self.away = self.away.saturating_sub(back as usize);
        Ok(())
    }

    /// Hands over what is filled and gives the buffers back.
    pub fn close(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let offered = self.offer();
        let closed = self.connection.call(&Request::CloseWriter { writer: self.writer });
        let refused = self.refusals();
        offered.and(refused).and(closed.map(|_| ()))
    }

    pub(crate) fn layout(&self) -> RingLayout {
        self.layout
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Which buffer is being filled.
    pub(crate) fn buffer(&self) -> usize {
        self.buffer
    }

    /// Others filled the present buffer so far.
    pub(crate) fn filled_by_others(&mut self, bytes: usize) {
        self.at = bytes;
    }
}

impl Drop for EntryWriter {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

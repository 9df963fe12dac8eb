//! The server's side of a writer: a ring of buffers that a client fills (docs/protocol.md, *Writing*).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use buffers_host::Region;
use memref::VirtAddr;

use super::resources::Resources;
use super::write::{SoleWriter, WriteTrace, WrittenStream};
use crate::{Error, RefusalReason};

/// Bytes of a buffer at least and at most, and buffers of a ring at most.
pub(crate) const MIN_BUFFER_BYTES: usize = 4 << 10;
pub(crate) const MAX_BUFFER_BYTES: usize = 4 << 20;
pub(crate) const MAX_BUFFERS: usize = 64;
/// The part of the free memory that a new ring may take.
const A_RING: usize = 256;

/// Where things lie in a ring's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLayout {
    pub(crate) buffers: usize,
    pub(crate) buffer_bytes: usize,
    pub(crate) entry_bytes: usize,
}

impl RingLayout {
    /// The nearest possible to what a client asks for.
    pub(crate) fn near(buffer_bytes: u32, buffers: u32, entry_bytes: usize) -> Self {
        let bytes = (buffer_bytes as usize).clamp(MIN_BUFFER_BYTES, MAX_BUFFER_BYTES);
        // Each begins at a multiple of a cache line.
        let buffer_bytes = bytes.max(entry_bytes).next_multiple_of(64);
        Self { buffers: (buffers as usize).clamp(2, MAX_BUFFERS), buffer_bytes, entry_bytes }
    }

    /// The next smaller one.
    pub(crate) fn smaller(self) -> Option<Self> {
        let half = (self.buffer_bytes / 2).next_multiple_of(64);
        if self.buffers > 2 {
            Some(Self { buffers: (self.buffers / 2).max(2), ..self })
        } else if half >= MIN_BUFFER_BYTES && half >= self.entry_bytes {
            Some(Self { buffer_bytes: half, ..self })
        } else {
            None
        }
    }

    /// Bytes of a full buffer.
    pub(crate) fn full(self) -> usize {
        self.buffer_bytes / self.entry_bytes * self.entry_bytes
    }

    fn buffers_at(self) -> usize {
        (64 * self.buffers).next_multiple_of(VirtAddr::PAGE_BYTES as usize)
    }

    /// Where a buffer begins.
    pub(crate) fn buffer(self, buffer: usize) -> usize {
        self.buffers_at() + buffer * self.buffer_bytes
    }

    /// The word that says how far a buffer is filled.
    pub(crate) fn filled(self, buffer: usize) -> usize {
        buffer * 8
    }

    /// Bytes of the memory.
    pub(crate) fn total(self) -> usize {
        (self.buffers_at() + self.buffers * self.buffer_bytes).next_multiple_of(VirtAddr::PAGE_BYTES as usize)
    }
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Ring {
    resources: Arc<Resources>,
    trace: Arc<WriteTrace>,
    stream: Arc<WrittenStream>,
    _sole: Option<SoleWriter>,
    layout: RingLayout,
    /// Where buffers are filled, if client and server share memory.
    region: Option<Arc<Region>>,
    /// The buffer whose turn it is, and how much of it was taken over already.
    turn: usize,
    taken: usize,
}

impl Ring {
    pub(crate) fn open(
        resources: &Arc<Resources>,
        trace: &Arc<WriteTrace>,
        stream: Arc<WrittenStream>,
        mut layout: RingLayout,
        shared: bool,
    ) -> Result<Self, Error> {
        let sole = SoleWriter::of(&stream)?;
        // The fuller, the smaller: a thousand clients still find room.
        let share = (resources.rings.limit() - resources.rings.used().min(resources.rings.limit())) / A_RING;
        while layout.total() > share
            && let Some(smaller) = layout.smaller()
        {
            layout = smaller;
        }
        while shared && !resources.rings.try_reserve(layout.total()) {
            layout = layout.smaller().ok_or_else(|| {
                let (used, limit) = (resources.rings.used() >> 20, resources.rings.limit() >> 20);
                let text = format!("no memory for more buffers: {used} of {limit} MiB are in use");
                Error::refused(RefusalReason::NoRoom, text)
            })?;
        }
        let mut ring = Self {
            resources: resources.clone(),
            trace: trace.clone(),
            stream,
            _sole: sole,
            layout,
            region: None,
            turn: 0,
            taken: 0,
        };
        if shared {
            let region = Region::create(layout.total()).map_err(|source| {
                resources.rings.release(layout.total());
                Error::refused(RefusalReason::NoRoom, format!("no shared memory: {source}"))
            })?;
            ring.region = Some(Arc::new(region));
        }
        Ok(ring)
    }

    pub(crate) fn layout(&self) -> RingLayout {
        self.layout
    }

    pub(crate) fn region(&self) -> Option<&Arc<Region>> {
        self.region.as_ref()
    }

    /// Takes a buffer that the client handed over. `entries` are its bytes where memory is not shared.
    pub(crate) fn submit(&mut self, buffer: u32, bytes: u32, entries: &[u8]) -> Result<(), Error> {
        let malformed =
            |what| Error::refused(RefusalReason::Malformed, format!("stream {}: {what}", self.stream.number));
        let bytes = bytes as usize;
        if buffer as usize != self.turn {
            return Err(malformed("a buffer was submitted out of turn"));
        }
        if bytes > self.layout.full() || !bytes.is_multiple_of(self.layout.entry_bytes) {
            return Err(malformed(
                "a buffer was submitted with bytes that are not whole entries, or too many",
            ));
        }
        match self.region.clone() {
            Some(region) => {
                if !entries.is_empty() || bytes < self.taken {
                    return Err(malformed("a buffer was submitted with fewer entries than it had"));
                }
                let result = self.take(&region, bytes);
                if let Some(word) = region.words().get(self.layout.filled(self.turn)) {
                    word.store(0, Ordering::Release);
                }
                self.turn = (self.turn + 1) % self.layout.buffers;
                self.taken = 0;
                result
            }
            None => {
                if entries.len() != bytes {
                    return Err(malformed("a buffer was submitted without its entries"));
                }
                self.turn = (self.turn + 1) % self.layout.buffers;
                self.trace.append(&self.stream, bytes, |out, at, len| {
                    out.extend_from_slice(entries.get(at..at + len).unwrap_or(&[]));
                })
            }
        }
    }

    /// Takes over the present buffer up to `bytes`.
    fn take(&mut self, region: &Region, bytes: usize) -> Result<(), Error> {
        let from = self.layout.buffer(self.turn) + self.taken;
        let more = bytes - self.taken;
        // Even where they can't be kept: they were offered, and are told as lost.
        self.taken = bytes;
        self.trace.append(&self.stream, more, |out, at, len| region.read(from + at, len, out))
    }

    /// Takes over what the client has filled but not submitted.
    pub(crate) fn peek(&mut self, trace: &Arc<WriteTrace>) -> Result<(), Error> {
        if !Arc::ptr_eq(trace, &self.trace) {
            return Ok(());
        }
        let Some(region) = self.region.clone() else { return Ok(()) };
        let word = region.words().get(self.layout.filled(self.turn));
        let filled = word.map_or(0, |word| word.load(Ordering::Acquire));
        let filled = usize::try_from(filled).unwrap_or(usize::MAX).min(self.layout.full());
        let whole = filled / self.layout.entry_bytes * self.layout.entry_bytes;
        if whole > self.taken { self.take(&region, whole) } else { Ok(()) }
    }

    /// The client is gone: its started buffer as far as it was filled.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let trace = self.trace.clone();
        self.peek(&trace)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.region.is_some() {
            self.resources.rings.release(self.layout.total());
        }
    }
}

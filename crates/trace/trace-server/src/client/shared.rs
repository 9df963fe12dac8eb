//! One stream written by several threads (Simutrace, section 2.4).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use buffers::Slots;
use buffers_host::Region;

use super::writer::EntryWriter;
use crate::engine::ring::RingLayout;
use crate::{Error, lock};

/// What threads agree on about one buffer.
#[derive(Debug)]
struct Turn {
    reserved: AtomicU64,
    active: AtomicU64,
    written: Vec<AtomicU64>,
}

#[derive(Debug)]
struct BufferTurns {
    writer: Mutex<EntryWriter>,
    region: Arc<Region>,
    layout: RingLayout,
    /// The buffer that is being filled. Written under the writer's lock.
    current: AtomicUsize,
    turns: Vec<Turn>,
}

/// Writes the entries of one stream for any number of threads; each has a clone. Entries of one thread keep their order;
/// those of different threads interleave. Streams of their own are faster: threads that write neighbouring entries fight
/// for cache lines.
#[derive(Clone, Debug)]
pub struct SharedWriter {
    inner: Arc<BufferTurns>,
}

impl SharedWriter {
    pub(crate) fn new(writer: EntryWriter) -> Self {
        let layout = writer.layout();
        let capacity = layout.full() / layout.entry_bytes;
        let turns = (0..layout.buffers)
            .map(|_| Turn {
                reserved: AtomicU64::new(0),
                active: AtomicU64::new(0),
                written: (0..capacity.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            })
            .collect();
        let (region, current) = (writer.region().clone(), AtomicUsize::new(writer.buffer()));
        Self { inner: Arc::new(BufferTurns { writer: Mutex::new(writer), region, layout, current, turns }) }
    }

    fn slots(&self, buffer: usize) -> Option<Slots<'_>> {
        let layout = &self.inner.layout;
        let turn = self.inner.turns.get(buffer)?;
        Some(Slots {
            reserved: &turn.reserved,
            active: &turn.active,
            written: &turn.written,
            filled: self.inner.region.words().get(layout.filled(buffer))?,
            capacity: (layout.full() / layout.entry_bytes) as u64,
            slot_bytes: layout.entry_bytes as u64,
        })
    }

    /// Writes one entry.
    pub fn push(&self, entry: &[u8]) -> Result<(), Error> {
        let layout = &self.inner.layout;
        if entry.len() != layout.entry_bytes {
            let (stream, what) = (0, "the entry has another length than the stream's type");
            return Err(Error::Usage { stream, what });
        }
        loop {
            let buffer = self.inner.current.load(Ordering::Acquire);
            let slots = self.slots(buffer).expect("the current buffer is one of the ring");
            if let Some(slot) = slots.reserve() {
                self.inner.region.write(layout.buffer(buffer) + slot as usize * entry.len(), entry);
                slots.commit(slot);
                return Ok(());
            }
            self.turn(buffer)?;
        }
    }

    /// Hands a full buffer over, unless another thread has done so.
    fn turn(&self, full: usize) -> Result<(), Error> {
        let mut writer = lock(&self.inner.writer);
        if self.inner.current.load(Ordering::Acquire) != full {
            return Ok(());
        }
        self.turn_over(&mut writer)
    }

    fn turn_over(&self, writer: &mut EntryWriter) -> Result<(), Error> {
        let buffer = writer.buffer();
        let slots = self.slots(buffer).expect("the writer's buffer is one of the ring");
        let given = slots.close();
        while !slots.is_settled() {
            // A thread is between reserving and committing.
            std::thread::yield_now();
        }
        writer.filled_by_others(given as usize * self.inner.layout.entry_bytes);
        let result = writer.submit();
        let next = writer.buffer();
        if let Some(slots) = self.slots(next) {
            slots.reset();
        }
        self.inner.current.store(next, Ordering::Release);
        result
    }

    /// Hands over what is filled, and waits until it is in the file.
    pub fn flush(&self) -> Result<(), Error> {
        let mut writer = lock(&self.inner.writer);
        self.turn_over(&mut writer)?;
        writer.flush()
    }

    /// Hands over what is filled. The buffers go back with the last clone.
    pub fn close(self) -> Result<(), Error> {
        self.turn_over(&mut lock(&self.inner.writer))
    }
}

impl Drop for BufferTurns {
    fn drop(&mut self) {
        // Nobody else has a clone: what is filled is settled.
        let writer = self.writer.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let word = self.region.words().get(self.layout.filled(writer.buffer()));
        let filled = word.map_or(0, |word| word.load(Ordering::Acquire));
        writer.filled_by_others(filled as usize);
    }
}

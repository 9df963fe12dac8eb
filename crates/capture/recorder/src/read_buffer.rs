//! Buffers of the pool as they were read, in memory that goes from one to the next.
//!
//! A buffer is copied out of the pool and given back at once, because its thread goes on best in memory that the processor still has
//! in its cache. The copy lives until the last run of executions in it is coded, by whichever thread that is.

use std::sync::{Arc, Mutex, PoisonError};

use buffers::BUFFER_BYTES;
use buffers::flow::EntryPlaces;

/// Buffers that are held, 80 kB each, before the reading thread codes what waits.
pub(crate) const MAX_IN_USE: usize = 1024;

/// What a buffer takes here.
#[derive(Debug)]
struct BufferMemory {
    bytes: [u8; BUFFER_BYTES],
    places: EntryPlaces,
}

/// Memory for buffers.
#[derive(Debug, Default)]
pub(crate) struct BufferStock {
    shared: Arc<Mutex<Stock>>,
}

#[derive(Debug, Default)]
struct Stock {
    spare: Vec<Box<BufferMemory>>,
    /// Buffers that somebody has.
    in_use: usize,
}

/// The bytes of one buffer, and where its entries are, once that was found out.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// There until it is dropped.
    memory: Option<Box<BufferMemory>>,
    filled: usize,
    home: Arc<Mutex<Stock>>,
}

impl BufferStock {
    /// A buffer with what `read` copies into it, which says how much that was.
    pub(crate) fn read(&self, read: impl FnOnce(&mut [u8; BUFFER_BYTES]) -> usize) -> ReadBuffer {
        let mut stock = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        stock.in_use += 1;
        let spare = stock.spare.pop();
        drop(stock);
        let mut memory = spare.unwrap_or_else(|| {
            Box::new(BufferMemory { bytes: [0; BUFFER_BYTES], places: EntryPlaces::new() })
        });
        let filled = read(&mut memory.bytes);
        ReadBuffer { memory: Some(memory), filled, home: self.shared.clone() }
    }

    /// How many buffers somebody has.
    pub(crate) fn in_use(&self) -> usize {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).in_use
    }
}

impl ReadBuffer {
    /// What was filled.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.as_ref().and_then(|memory| memory.bytes.get(..self.filled)).unwrap_or(&[])
    }

    /// As [`Self::bytes`], in words.
    pub(crate) fn words(&self) -> &[[u8; 8]] {
        self.bytes().as_chunks().0
    }

    /// Where its entries are.
    pub(crate) fn places(&self) -> Option<&EntryPlaces> {
        self.memory.as_ref().map(|memory| &memory.places)
    }

    /// To find its entries: its words, and where they are noted.
    pub(crate) fn parts(&mut self) -> Option<(&[[u8; 8]], &mut EntryPlaces)> {
        let memory = self.memory.as_mut()?;
        Some((memory.bytes.get(..self.filled)?.as_chunks().0, &mut memory.places))
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let mut stock = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        stock.in_use -= 1;
        stock.spare.extend(self.memory.take());
    }
}

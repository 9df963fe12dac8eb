//! Buffers that were copied out of the pool and wait to be read.

use buffers::{BUFFER_BYTES, Buffer};

use crate::clock::now_ns;

/// What a traced thread wrote into one buffer.
pub(super) struct HeldBuffer {
    bytes: Box<[u8; BUFFER_BYTES]>,
    filled: usize,
    /// When it was read, ns since the Unix epoch.
    pub(super) read_ns: u64,
    /// From when on what is in it could have been written: its thread had handed over the buffer before this one.
    pub(super) since_ns: u64,
}

impl HeldBuffer {
    /// Copies so many bytes of a buffer of the pool into that room.
    pub(super) fn read(buffer: Buffer, filled: usize, mut room: Box<[u8; BUFFER_BYTES]>) -> Self {
        let filled = buffer.read_first(filled, &mut room);
        let read_ns = now_ns();
        Self { bytes: room, filled, read_ns, since_ns: read_ns }
    }

    /// What was written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// The same as words, of a translated thread.
    pub(super) fn words(&self) -> &[[u8; 8]] {
        self.bytes().as_chunks().0
    }
}

/// Memory of buffers that were read, for the next ones: new pages cost more than the copy.
#[derive(Default)]
pub(super) struct SpareRooms {
    rooms: Vec<Box<[u8; BUFFER_BYTES]>>,
}

impl SpareRooms {
    /// Room for a buffer.
    pub(super) fn take(&mut self) -> Box<[u8; BUFFER_BYTES]> {
        self.rooms.pop().unwrap_or_else(|| Box::new([0; BUFFER_BYTES]))
    }

    /// Keeps the memory of a buffer that was read, unless there is enough.
    pub(super) fn give_back(&mut self, buffer: HeldBuffer, most: usize) {
        if self.rooms.len() < most {
            self.rooms.push(buffer.bytes);
        }
    }
}

#[cfg(test)]
impl HeldBuffer {
    /// One that has these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut room = Box::new([0; BUFFER_BYTES]);
        room[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: room, filled: bytes.len(), read_ns: 0, since_ns: 0 }
    }
}

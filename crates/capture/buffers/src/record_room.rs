//! Scratch space in which a record is assembled before it is copied into a buffer.

use core::mem::MaybeUninit;

use memref::VirtAddr;

use crate::record::{LOW_48, MAX_NAME_BYTES, MAX_RECORD_BYTES, SLOT_BYTES};

/// Room for any record. It is not filled with zeros first, which would cost more than most records.
pub struct RecordRoom([MaybeUninit<u8>; MAX_RECORD_BYTES]);

impl Default for RecordRoom {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordRoom {
    /// Room that nobody has written to.
    #[inline]
    pub fn new() -> Self {
        Self([MaybeUninit::uninit(); MAX_RECORD_BYTES])
    }
}

/// Writes words one after the other.
pub(crate) struct Out<'r> {
    room: &'r mut RecordRoom,
    /// So many bytes were written.
    len: usize,
}

impl<'r> Out<'r> {
    pub(crate) fn new(room: &'r mut RecordRoom) -> Self {
        Self { room, len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.room.0.get_mut(self.len..self.len + bytes.len()) {
            // SAFETY: as many bytes, in memory of our own.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_mut_ptr().cast(), bytes.len()) };
            self.len += bytes.len();
        }
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.put(&word.to_le_bytes());
    }

    pub(crate) fn head(&mut self, ip: VirtAddr, addr: VirtAddr, code: u8, tag: u8) {
        self.word(ip.0 & LOW_48);
        self.word(addr.0 & LOW_48 | u64::from(code) << 48 | u64::from(tag) << 56);
    }

    pub(crate) fn name(&mut self, name: &[u8]) {
        let name = name.get(..MAX_NAME_BYTES).unwrap_or(name);
        self.word(name.len() as u64);
        self.word(0);
        self.padded(name);
    }

    pub(crate) fn padded(&mut self, bytes: &[u8]) {
        let padding = bytes.len().next_multiple_of(SLOT_BYTES) - bytes.len();
        if self.len + bytes.len() + padding <= MAX_RECORD_BYTES {
            self.put(bytes);
            self.put([0; SLOT_BYTES].get(..padding).unwrap_or(&[]));
        }
    }

    /// What was written.
    pub(crate) fn written(self) -> &'r [u8] {
        // SAFETY: `put` wrote the first `len` bytes, one after the other.
        unsafe { core::slice::from_raw_parts(self.room.0.as_ptr().cast(), self.len) }
    }

    /// The same, with the number of slots in the first word.
    pub(crate) fn finish(self) -> &'r [u8] {
        let slots = (self.len / SLOT_BYTES) as u16;
        for (place, byte) in self.room.0.iter_mut().skip(6).zip(slots.to_le_bytes()) {
            place.write(byte);
        }
        self.written()
    }
}

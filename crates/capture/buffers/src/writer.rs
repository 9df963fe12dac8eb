//! A traced thread's side of the pool: fills the buffer that it owns.

use crate::layout::BUFFER_BYTES;
use crate::pool::{Buffer, Content, Pool};
use crate::record::{Record, SLOT_BYTES, access_words, encode};
use crate::record_room::RecordRoom;
use memref::{AccessKind, VirtAddr};

/// The buffer has no room for the record: submit it, take another one, and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Writes one thread's records. It belongs to that thread alone; a signal handler of the thread must not use it while
/// the code that it interrupted does.
#[derive(Debug)]
pub struct Writer {
    buffer: Option<Buffer>,
    len: usize,
    sequence: u32,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// A writer without a buffer: full.
    pub const fn new() -> Self {
        Self { buffer: None, len: BUFFER_BYTES, sequence: 0 }
    }

    /// Takes a free buffer, handing the present one over before. `false` when there is none just now. With `true` the
    /// caller wakes the recorder if [`Writer::submit`] did hand one over.
    pub fn refill(&mut self, pool: &Pool, process: u32, thread: u32, tid: u32) -> bool {
        self.submit(pool);
        let Some(buffer) = pool.take(process, thread, tid, self.sequence, Content::Records) else {
            return false;
        };
        self.buffer = Some(buffer);
        self.len = 0;
        self.sequence = self.sequence.wrapping_add(1);
        true
    }

    /// Hands the present buffer over, if there is one. Returns whether it did.
    pub fn submit(&mut self, pool: &Pool) -> bool {
        self.len = BUFFER_BYTES;
        match self.buffer.take() {
            Some(buffer) => {
                pool.submit(buffer);
                true
            }
            None => false,
        }
    }

    /// Forgets the buffer without handing it over: after a fork it is the parent's.
    pub fn forget(&mut self) {
        *self = Self::new();
    }

    /// The next buffer is that one of the thread's, where something else has filled those before.
    pub fn go_on(&mut self, sequence: u32) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Writes one access.
    #[inline]
    pub fn access(&mut self, ip: VirtAddr, addr: VirtAddr, size: u16, kind: AccessKind) -> Result<(), Full> {
        let Some(buffer) = self.buffer.filter(|_| self.len + SLOT_BYTES <= BUFFER_BYTES) else {
            return Err(Full);
        };
        let (first, second) = access_words(ip, addr, size, kind);
        // SAFETY: the slot lies inside the buffer by the check above and is aligned to 16 because `len` is a multiple of
        // it; this thread owns the buffer, so nobody else writes there and nobody reads beyond what is published.
        unsafe {
            let slot = buffer.start().add(self.len).cast::<u64>();
            slot.write(first.to_le());
            slot.add(1).write(second.to_le());
        }
        self.len += SLOT_BYTES;
        buffer.header().publish(self.len);
        Ok(())
    }

    /// Writes any record.
    pub fn record(&mut self, record: &Record<'_>) -> Result<(), Full> {
        let mut room = RecordRoom::new();
        let bytes = encode(record, &mut room);
        let Some(buffer) = self.buffer.filter(|_| self.len + bytes.len() <= BUFFER_BYTES) else {
            return Err(Full);
        };
        // SAFETY: this thread owns the buffer, and the bytes fit after those that it has by the check above.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.start().add(self.len), bytes.len()) };
        self.len += bytes.len();
        buffer.header().publish(self.len);
        Ok(())
    }
}

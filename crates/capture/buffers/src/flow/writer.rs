//! The tracer's writer for a translated thread's buffer: handlers use it to write between the entries that the thread's own code writes.

use super::{CUT, CUT_ALL, EMBED, ID_BITS, Live, PAD};
use crate::layout::{BUFFER_BYTES, PAGE_BYTES};
use crate::pool::{Buffer, Pool};
use crate::record::{Record, encode};
use crate::record_room::RecordRoom;
use crate::writer::Full;

/// Bytes of a buffer that a thread's own code can reach. After them it faults, and gets the next buffer; handlers go on
/// to the buffer's end, so that what belongs to the last entry finds room.
pub const FLOW_BYTES: usize = BUFFER_BYTES - PAGE_BYTES;
/// What a cut takes, and is left for it.
const CUT_BYTES: usize = 24;

impl Live {
    fn append(&self, pool: &Pool, payload: &[u8], header: u64, reserve: usize) -> Result<(), Full> {
        let filled = self.filled();
        let len = payload.len() + 16;
        let buffer = pool.buffer(self.buffer() as usize).filter(|_| filled + len + reserve <= BUFFER_BYTES);
        let Some(buffer) = buffer else { return Err(Full) };
        // SAFETY: the buffer is this thread's (`begin`), and header, payload and the empty header after them lie inside it
        // by the check above.
        unsafe {
            let at = buffer.start().add(filled);
            at.cast::<u64>().write_unaligned(header);
            core::ptr::copy_nonoverlapping(payload.as_ptr(), at.add(8), payload.len());
            at.add(8 + payload.len()).cast::<u64>().write_unaligned(PAD);
        }
        self.set_last(filled + 8 + payload.len());
        self.set_position(self.position() + len as u64);
        Ok(())
    }

    /// Writes a record.
    pub fn record(&self, pool: &Pool, record: &Record<'_>) -> Result<(), Full> {
        let mut room = RecordRoom::new();
        let payload = encode(record, &mut room);
        self.append(pool, payload, EMBED | (payload.len() as u64 / 8) << ID_BITS, CUT_BYTES)
    }

    /// Of the block that was written last, only that many instructions were executed; with `all`, all its accesses count.
    pub fn cut(&self, pool: &Pool, executed: u64, all: bool) -> Result<(), Full> {
        let word = executed | if all { CUT_ALL } else { 0 };
        self.append(pool, &word.to_le_bytes(), CUT, 0)
    }

    fn word(&self, pool: &Pool, at: usize) -> Option<*mut u64> {
        let buffer = pool.buffer(self.buffer() as usize).filter(|_| at <= BUFFER_BYTES - 8)?;
        // SAFETY: inside the buffer by the check above.
        Some(unsafe { buffer.start().add(at) }.cast())
    }

    /// Writes the header of the block whose `values` values stand after its place already.
    pub fn close_block(&self, pool: &Pool, id: u32, values: u8) {
        let at = self.filled();
        let end = at + 8 + usize::from(values) * 8;
        if let Some(place) = self.word(pool, at).filter(|_| end <= BUFFER_BYTES) {
            // SAFETY: a word of this thread's buffer.
            unsafe { place.write_unaligned(id.into()) };
            self.set_last(at);
            self.set_position(self.position() + (end - at) as u64);
        }
    }

    /// A value of the block that is being written: its header comes to stand at the position, its values after that.
    pub fn open_value(&self, pool: &Pool, index: u8) -> u64 {
        // SAFETY: a word of this thread's buffer.
        self.word(pool, self.filled() + 8 + usize::from(index) * 8)
            .map_or(0, |place| unsafe { place.read_unaligned() })
    }

    /// Sets a value of the block that is being written.
    pub fn set_open_value(&self, pool: &Pool, index: u8, value: u64) {
        if let Some(place) = self.word(pool, self.filled() + 8 + usize::from(index) * 8) {
            // SAFETY: a word of this thread's buffer.
            unsafe { place.write_unaligned(value) };
        }
    }

    /// Adds instructions (or takes some back) to the last header. `false` where there is none.
    pub fn add_instructions(&self, pool: &Pool, count: i64) -> bool {
        let Some(place) = self.last_at().and_then(|at| self.word(pool, at)) else { return false };
        // SAFETY: a word of this thread's buffer.
        unsafe {
            let header = place.read_unaligned();
            place.write_unaligned(header.wrapping_add((count as u64) << ID_BITS));
        }
        true
    }

    /// Begins to fill a buffer that is mapped at `base` for the thread's own code.
    pub fn begin_buffer(&self, buffer: Buffer, base: u64) {
        // SAFETY: the first word of a buffer that this thread has just taken.
        unsafe { buffer.start().cast::<u64>().write(PAD) };
        self.begin(buffer.index() as u32, base);
        self.begin_entries();
    }

    /// Copies the values of the block that is being written, which another buffer held after its position.
    pub fn carry(&self, pool: &Pool, words: &[u64]) {
        for (index, &word) in words.iter().enumerate() {
            self.set_open_value(pool, index as u8, word);
        }
    }

    /// Shows what the buffer holds: whole entries.
    pub fn look<R>(&self, pool: &Pool, act: impl FnOnce(&[[u8; 8]]) -> R) -> Option<R> {
        let buffer = pool.buffer(self.buffer() as usize)?;
        // SAFETY: what is filled of this thread's own buffer, which nobody writes meanwhile.
        Some(act(unsafe { core::slice::from_raw_parts(buffer.start().cast(), self.filled() / 8) }))
    }

    /// Hands the buffer over. Returns whether there was one. The thread has none then, and its position is `nowhere`.
    pub fn submit(&self, pool: &Pool, nowhere: u64) -> bool {
        let Some(buffer) = pool.buffer(self.buffer() as usize) else { return false };
        buffer.header().publish(self.filled());
        self.begin(u32::MAX, nowhere);
        pool.submit(buffer);
        true
    }

    /// Forgets the buffer: after a fork it is the parent's.
    pub fn forget(&self, nowhere: u64) {
        self.begin(u32::MAX, nowhere);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flow::{Entries, Entry, EntryHeader};
    use crate::layout::POOL_BYTES;
    use crate::pool::Content;
    use memref::VirtAddr;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::vec::Vec;

    #[test]
    fn handlers_write_between_the_threads_entries() {
        let layout = Layout::from_size_align(POOL_BYTES, PAGE_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        // SAFETY: fresh zeroed memory of the right size and alignment, freed after the last use.
        let pool = unsafe { Pool::new(base) };
        pool.control().init(0);
        let live = pool.take_live(3).unwrap();
        assert_eq!(live.owner(), Some(3));
        assert_eq!(live.record(&pool, &Record::ThreadEnd), Err(Full));
        assert!(!live.add_instructions(&pool, 1));
        let buffer = pool.take(3, 1, 2, 0, Content::Flow).unwrap();
        live.begin_buffer(buffer, buffer.start() as u64);
        assert!(live.add_instructions(&pool, 5));
        live.set_open_value(&pool, 0, 77);
        live.close_block(&pool, 20, 2);
        live.cut(&pool, 1, false).unwrap();
        assert!(live.add_instructions(&pool, 9));
        assert!(live.add_instructions(&pool, -2));
        live.record(&pool, &Record::ThreadBase { addr: VirtAddr(5) }).unwrap();
        let filled = live.filled();
        assert!(live.submit(&pool, 64));
        assert_eq!(live.filled(), 0);
        let mut bytes = std::boxed::Box::new([0; BUFFER_BYTES]);
        assert_eq!(buffer.read(&mut bytes), filled);
        let mut entries = Entries::new(bytes[..filled].as_chunks().0);
        let mut all = Vec::new();
        while let Some(entry) = entries.next_entry() {
            if let Entry::Block(_) = entry {
                assert!(entries.values(2).is_some_and(|values| values[0] == 77u64.to_le_bytes()));
                assert!(entries.is_cut());
            }
            all.push(entry);
        }
        assert!(!entries.are_broken());
        assert_eq!(all[..2], [Entry::Instructions(5), Entry::Block(EntryHeader { id: 20, after: 0 })]);
        assert_eq!(all[2..4], [Entry::Cut(1, false), Entry::Instructions(7)]);
        assert!(matches!(all[4], Entry::Record(_)));
        assert_eq!(all.len(), 6);
        live.release();
        assert_eq!(live.owner(), None);
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(base, layout) };
    }

    #[test]
    fn a_full_buffer_keeps_room_for_a_cut() {
        let layout = Layout::from_size_align(POOL_BYTES, PAGE_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        // SAFETY: fresh zeroed memory of the right size and alignment, freed after the last use.
        let pool = unsafe { Pool::new(base) };
        let live = pool.take_live(0).unwrap();
        let buffer = pool.take(0, 1, 2, 0, Content::Flow).unwrap();
        live.begin_buffer(buffer, PAGE_BYTES as u64);
        while live.record(&pool, &Record::ThreadEnd).is_ok() {}
        assert_eq!(live.cut(&pool, 0, true), Ok(()));
        assert!(live.filled() <= BUFFER_BYTES);
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(base, layout) };
    }
}

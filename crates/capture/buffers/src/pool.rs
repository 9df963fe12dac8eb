//! The pool: buffers and their owners.
//!
//! A buffer goes Free -> Owned (a traced thread fills it) -> Submitted (the recorder reads it) -> Free. The thread that moves
//! the state from Free to Owned by compare-and-swap becomes the owner. Only the owner leaves Owned, and only the recorder
//! leaves Submitted. When a process has died, the recorder may also take its Owned buffers, because nobody else can.

use crate::flow::Live;
use crate::layout::{
    BUFFER_BYTES, BUFFER_COUNT, BUFFERS_AT, Control, HEADERS_AT, LIVES_AT, MAX_WAITING, POOL_BYTES,
    PROCESS_COUNT, PROCESSES_AT, ProcessSlot,
};
use crate::sync::{AtomicU32, Ordering};

/// Who may touch a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BufferState {
    /// Nobody; any thread may take it.
    Free = 0,
    /// The traced thread that took it.
    Owned = 1,
    /// The recorder.
    Submitted = 2,
}

/// What stands about a buffer outside of it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct BufferHeader {
    state: AtomicU32,
    /// Bytes of complete records. Written by the owner, with release, after each record.
    filled: AtomicU32,
    /// Written by the owner when it takes the buffer.
    process: AtomicU32,
    /// The thread's number in the session. Written by the owner when it takes the buffer, last.
    thread: AtomicU32,
    /// The owner's thread id as the kernel counts.
    tid: AtomicU32,
    /// Position of this buffer in the sequence of its thread's buffers.
    sequence: AtomicU32,
    /// What is in it, a [`Content`]. Written by the owner when it takes the buffer.
    content: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<BufferHeader>() == crate::layout::HEADER_BYTES);

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Content {
    /// Records of a thread.
    Records = 0,
    /// Entries of a translated thread (module [`crate::flow`]).
    Flow = 1,
    /// Definitions of a process's blocks. It is read while it is being filled, and handed over when it is full.
    Definitions = 2,
}

impl BufferHeader {
    #[cfg(loom)]
    fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            process: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            sequence: AtomicU32::new(0),
            content: AtomicU32::new(0),
        }
    }

    /// Whose turn it is. A word that is no state (written by a runaway program) counts as owned: never read, never given out.
    pub fn state(&self) -> BufferState {
        match self.state.load(Ordering::Acquire) {
            0 => BufferState::Free,
            2 => BufferState::Submitted,
            _ => BufferState::Owned,
        }
    }

    /// Bytes of complete records.
    pub fn filled(&self) -> usize {
        (self.filled.load(Ordering::Acquire) as usize).min(BUFFER_BYTES)
    }

    /// The process that filled it.
    pub fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    /// The thread that filled it.
    pub fn thread(&self) -> u32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// The kernel's number of that thread.
    pub fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Position in the sequence of its thread's buffers.
    pub fn sequence(&self) -> u32 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// What it holds.
    pub fn content(&self) -> Content {
        match self.content.load(Ordering::Relaxed) {
            1 => Content::Flow,
            2 => Content::Definitions,
            _ => Content::Records,
        }
    }

    /// Free -> Owned. `false` where somebody else was faster.
    pub(crate) fn take(&self, process: u32, thread: u32, tid: u32, sequence: u32, content: Content) -> bool {
        if self
            .state
            .compare_exchange(
                BufferState::Free as u32,
                BufferState::Owned as u32,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_err()
        {
            return false;
        }
        self.filled.store(0, Ordering::Relaxed);
        self.process.store(process, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Relaxed);
        self.content.store(content as u32, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Relaxed);
        // Release: a recorder that takes the buffer of a dead process must not see the former owner beside the new state.
        self.thread.store(thread, Ordering::Release);
        true
    }

    /// The owner makes `filled` bytes visible.
    #[inline]
    pub(crate) fn publish(&self, filled: usize) {
        self.filled.store(filled as u32, Ordering::Release);
    }

    /// Owned -> Submitted.
    pub(crate) fn submit(&self) {
        self.state.store(BufferState::Submitted as u32, Ordering::Release);
    }

    /// Submitted (or Owned by a dead process) -> Free.
    pub(crate) fn free(&self) {
        self.filled.store(0, Ordering::Relaxed);
        self.state.store(BufferState::Free as u32, Ordering::Release);
    }
}

/// A mapped pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    base: *mut u8,
}

// SAFETY: the pool is shared memory; all its fields are atomics, and the bytes of a buffer are only touched by whom the
// buffer's state names.
unsafe impl Send for Pool {}
// SAFETY: all fields of the pool are atomics, and the bytes of a buffer are only touched by whom the buffer's state names.
unsafe impl Sync for Pool {}

/// One buffer of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pool: Pool,
    index: usize,
}

impl Pool {
    /// The pool that is mapped at `base`.
    ///
    /// # Safety
    /// `base` must be aligned to a page and the first of [`POOL_BYTES`] bytes of readable and writable memory that stay
    /// mapped as long as the pool or a buffer of it is used.
    pub const unsafe fn new(base: *mut u8) -> Self {
        Self { base }
    }

    /// Where it is mapped, and its length in bytes.
    pub fn span(&self) -> (*mut u8, usize) {
        (self.base, POOL_BYTES)
    }

    /// The control block.
    pub fn control(&self) -> &Control {
        // SAFETY: `new` promises the memory; any bytes are a valid `Control`, which consists of atomics.
        unsafe { &*self.base.cast::<Control>() }
    }

    /// The slot of a process; `None` beyond the table.
    pub fn process(&self, number: u32) -> Option<&ProcessSlot> {
        if number as usize >= PROCESS_COUNT {
            return None;
        }
        // SAFETY: inside the table by the check above; any bytes are a valid `ProcessSlot`.
        Some(unsafe { &*self.base.add(PROCESSES_AT).cast::<ProcessSlot>().add(number as usize) })
    }

    /// A translated thread's slot; `None` beyond the table.
    pub fn live(&self, number: usize) -> Option<&Live> {
        if number >= BUFFER_COUNT {
            return None;
        }
        // SAFETY: inside the table by the check above; any bytes are a valid `Live`, which consists of atomics.
        Some(unsafe { &*self.base.add(LIVES_AT).cast::<Live>().add(number) })
    }

    /// All slots of translated threads.
    pub fn lives(&self) -> impl Iterator<Item = &Live> {
        (0..BUFFER_COUNT).filter_map(|number| self.live(number))
    }

    /// Takes a free slot for a translated thread.
    pub fn take_live(&self, process: u32) -> Option<&Live> {
        (0..BUFFER_COUNT).filter_map(|number| self.live(number)).find(|live| live.take(process))
    }

    /// The buffer of that number; `None` beyond the last.
    pub fn buffer(&self, index: usize) -> Option<Buffer> {
        (index < BUFFER_COUNT).then_some(Buffer { pool: *self, index })
    }

    /// All buffers.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer> + use<> {
        let pool = *self;
        (0..BUFFER_COUNT).map(move |index| Buffer { pool, index })
    }

    /// Takes a free buffer for a thread, or `None` when there is none just now or too many wait for the recorder.
    pub fn take(
        &self,
        process: u32,
        thread: u32,
        tid: u32,
        sequence: u32,
        content: Content,
    ) -> Option<Buffer> {
        let mut waiting = 0;
        // Low buffers first: the fewer are in use, the more of them stay in the cache.
        for buffer in self.buffers() {
            let header = buffer.header();
            match header.state() {
                BufferState::Free if header.take(process, thread, tid, sequence, content) => {
                    return Some(buffer);
                }
                BufferState::Submitted => waiting += 1,
                BufferState::Free | BufferState::Owned => {}
            }
            if waiting == MAX_WAITING {
                return None;
            }
        }
        None
    }

    /// Hands a buffer over. The caller then wakes a waiter on [`Control::submitted_word`].
    pub fn submit(&self, buffer: Buffer) {
        buffer.header().submit();
        self.control().submitted.fetch_add(1, Ordering::Release);
    }

    /// Gives a buffer that was read back to the producers. The caller then wakes waiters on [`Control::freed_word`].
    pub fn free(&self, buffer: Buffer) {
        buffer.header().free();
        self.control().freed.fetch_add(1, Ordering::Release);
    }
}

impl Buffer {
    /// What stands about it.
    pub fn header(&self) -> &BufferHeader {
        // SAFETY: `index` is below BUFFER_COUNT (the only constructors check), so the header lies in the pool; any bytes
        // are a valid header.
        unsafe { &*self.pool.base.add(HEADERS_AT).cast::<BufferHeader>().add(self.index) }
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        // SAFETY: inside the pool, as in `header`.
        unsafe { self.pool.base.add(BUFFERS_AT + self.index * BUFFER_BYTES) }
    }

    /// Whether it is the buffer of a process that may be dead: owned, and by that process.
    pub fn is_owned_by(&self, process: u32) -> bool {
        self.header().state() == BufferState::Owned && self.header().process() == process
    }

    /// Copies its complete records to `into` and returns how many bytes they are. For the recorder, which may not trust
    /// that a traced program leaves shared memory alone while it reads.
    pub fn read(&self, into: &mut [u8; BUFFER_BYTES]) -> usize {
        self.read_first(self.header().filled(), into)
    }

    /// As [`Buffer::read`], but that many bytes.
    pub fn read_first(&self, filled: usize, into: &mut [u8; BUFFER_BYTES]) -> usize {
        let filled = filled.min(BUFFER_BYTES);
        // SAFETY: `filled` is at most BUFFER_BYTES, both ranges are that long, and they don't overlap because `into` is
        // exclusive memory of the caller.
        unsafe { core::ptr::copy_nonoverlapping(self.start(), into.as_mut_ptr(), filled) };
        filled
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn a_buffer_has_one_owner_and_the_recorder_sees_what_was_published() {
        loom::model(|| {
            let header = Arc::new(BufferHeader::new());
            let data = Arc::new(loom::sync::atomic::AtomicU32::new(0));
            let producers: std::vec::Vec<_> = (1..=2)
                .map(|thread| {
                    let (header, data) = (header.clone(), data.clone());
                    loom::thread::spawn(move || {
                        if !header.take(0, thread, thread, 0, Content::Records) {
                            return false;
                        }
                        data.store(thread, Ordering::Relaxed);
                        header.publish(16);
                        header.submit();
                        true
                    })
                })
                .collect();
            let mut read = 0;
            if header.state() == BufferState::Submitted {
                assert_eq!(header.filled(), 16);
                assert_eq!(header.thread(), data.load(Ordering::Relaxed));
                header.free();
                read += 1;
            }
            let taken =
                producers.into_iter().filter(|_| true).map(|p| p.join().unwrap()).filter(|&t| t).count();
            if header.state() == BufferState::Submitted {
                assert_eq!(header.thread(), data.load(Ordering::Relaxed));
                header.free();
                read += 1;
            }
            assert_eq!(read, taken);
            assert!(taken >= 1);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::PAGE_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn with_pool(test: impl FnOnce(Pool)) {
        let layout = Layout::from_size_align(POOL_BYTES, PAGE_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        // SAFETY: fresh zeroed memory of the right size and alignment, freed after the last use.
        let pool = unsafe { Pool::new(base) };
        pool.control().init(0);
        test(pool);
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(base, layout) };
    }

    #[test]
    fn buffers_run_out_and_come_back() {
        with_pool(|pool| {
            let all: std::vec::Vec<_> = (0..BUFFER_COUNT)
                .map(|n| pool.take(1, 2, 3, n as u32, Content::Records).expect("a free buffer"))
                .collect();
            assert!(pool.take(1, 2, 3, 0, Content::Records).is_none());
            assert_eq!(all[7].header().sequence(), 7);
            pool.submit(all[7]);
            assert!(pool.take(1, 2, 3, 0, Content::Records).is_none());
            assert_eq!(all[7].header().state(), BufferState::Submitted);
            pool.free(all[7]);
            assert_eq!(pool.take(4, 5, 6, 9, Content::Flow).expect("the freed one").index(), 7);
            assert_eq!(all[7].header().process(), 4);
        });
    }

    #[test]
    fn producers_wait_for_a_recorder_that_is_late() {
        with_pool(|pool| {
            let take = || pool.take(1, 2, 3, 0, Content::Flow);
            let held = take().expect("a free buffer");
            let all: std::vec::Vec<_> = (0..MAX_WAITING).map(|_| take().expect("a free buffer")).collect();
            for &buffer in &all {
                pool.submit(buffer);
            }
            assert!(take().is_none(), "although most buffers are free");
            pool.free(all[3]);
            assert_eq!(take().expect("the freed one").index(), all[3].index());
            pool.submit(held);
            assert!(take().is_none());
        });
    }

    #[test]
    fn tables_have_an_end() {
        with_pool(|pool| {
            for n in 0..PROCESS_COUNT as u32 {
                assert_eq!(pool.control().next_process(), Some(n));
            }
            assert_eq!(pool.control().next_process(), None);
            assert_eq!(pool.control().refused(), 1);
            assert!(pool.process(PROCESS_COUNT as u32).is_none());
            assert!(pool.buffer(BUFFER_COUNT).is_none());
        });
    }

    #[test]
    fn a_foreign_file_is_no_pool() {
        with_pool(|pool| {
            assert!(pool.control().is_valid());
            pool.control().next_order();
            assert_eq!(pool.control().current_order(), 1);
        });
    }
}

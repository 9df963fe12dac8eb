//! The layout of the pool.
//!
//! ```text
//! 0            Control                    one page
//! 4096         ProcessSlot  [65536]       64 bytes each
//! 4198400      BufferHeader [2048]        64 bytes each
//! 4329472      Live         [2048]        512 bytes each
//! 5378048      buffers      [2048]        64 KiB each
//! ```
//! It starts out all zeros, which is a valid, empty pool except for the fields that [`Control::init`] sets.

use core::mem::size_of;

use crate::arrival::{Arrival, Refusal};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Version of this layout. A tracer of another version must not touch the pool.
pub const VERSION: u32 = 8;
/// Bytes of one buffer. Small, because reused memory that stays in the cache is worth more than few hand-overs.
pub const BUFFER_BYTES: usize = 64 << 10;
/// Buffers of a pool, and so the threads that can be traced at the same time.
pub const BUFFER_COUNT: usize = 2048;
/// Handed over buffers that may wait for the recorder. A producer waits from there on, instead of taking one that is not in
/// the cache any more: the program's processor time fell by 15 to 40 percent, the recorder's by a sixth (docs/overhead.md).
pub(crate) const MAX_WAITING: usize = 64;
/// Processes that one session can hold, over its whole time; a program that another one executes counts as one more. Pages of
/// slots that nobody enters are never made.
pub const PROCESS_COUNT: usize = 1 << 16;

pub(crate) const PAGE_BYTES: usize = memref::VirtAddr::PAGE_BYTES as usize;
const MAGIC: u64 = u64::from_le_bytes(*b"memtap!\0");

/// Bytes of a [`crate::BufferHeader`], and of a [`crate::flow::Live`], which are larger where a model checker runs them.
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const LIVE_BYTES: usize = 512;

pub(crate) const PROCESSES_AT: usize = PAGE_BYTES;
pub(crate) const HEADERS_AT: usize = PROCESSES_AT + PROCESS_COUNT * size_of::<ProcessSlot>();
pub(crate) const LIVES_AT: usize = HEADERS_AT + BUFFER_COUNT * HEADER_BYTES;
pub(crate) const BUFFERS_AT: usize = LIVES_AT + BUFFER_COUNT * LIVE_BYTES;
/// Bytes of a pool.
pub const POOL_BYTES: usize = BUFFERS_AT + BUFFER_COUNT * BUFFER_BYTES;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Control>() <= PAGE_BYTES);
    assert!(size_of::<ProcessSlot>() == 64);
    assert!(BUFFERS_AT.is_multiple_of(PAGE_BYTES));
};

/// The first page of a pool.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Written once by the recorder, before anybody else sees the pool.
    magic: AtomicU64,
    /// [`VERSION`]; written once by the recorder, before `magic`.
    version: AtomicU32,
    /// Counts hand-overs; the recorder waits on it. Written by producers after a buffer's state.
    pub(crate) submitted: AtomicU32,
    /// Counts buffers given back; producers wait on it. Written by the recorder after a buffer's state.
    pub(crate) freed: AtomicU32,
    /// Not zero: the recorder is gone or wants no more. Written by the recorder.
    closed: AtomicU32,
    /// The last order given out. Any producer draws from it.
    order: AtomicU64,
    /// Threads numbered so far, over all processes.
    threads: AtomicU32,
    /// Processes numbered so far.
    processes: AtomicU32,
    /// Children that were forked, or are about to be, and are not numbered yet. Written by parents, and by their children.
    unborn: AtomicU32,
    /// Threads that got no number or buffer, because the tables were full.
    refused: AtomicU32,
    /// Not zero: the recorder waits on `submitted`, or is about to. Written by the recorder.
    waiting: AtomicU32,
    /// The recorder's process id, in its own name space; zero where it is not known. Written once by it, as the version.
    recorder: AtomicU32,
    /// Programs announced so far, beside the one that the recorder starts. Written by those who are about to call exec.
    announced: AtomicU32,
}

impl Control {
    /// Sets what zeros don't say. Called once by the recorder, with its process id, or zero where nobody may look for it.
    pub fn init(&self, recorder: u32) {
        self.recorder.store(recorder, Ordering::Relaxed);
        self.version.store(VERSION, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this is a pool of our version.
    pub fn is_valid(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC && self.version.load(Ordering::Relaxed) == VERSION
    }

    /// Draws the next order: a point in the session's one sequence of events that change what addresses mean.
    pub fn next_order(&self) -> u64 {
        // AcqRel: whoever later reads this order also sees what led to it.
        self.order.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Draws an order that nobody observes: [`Self::current_order`] is beyond it from here on, so that what came later can
    /// be told from what this order is for.
    pub fn next_own_order(&self) -> u64 {
        // AcqRel: whoever later reads this order also sees what led to it.
        self.order.fetch_add(2, Ordering::AcqRel) + 1
    }

    /// The address of the word with the last order: for code that draws one as [`Self::next_own_order`] does.
    pub fn order_word(&self) -> &AtomicU64 {
        &self.order
    }

    /// The last order given out.
    pub fn current_order(&self) -> u64 {
        self.order.load(Ordering::Acquire)
    }

    /// A number for a new thread.
    pub fn next_thread(&self) -> u32 {
        self.threads.fetch_add(1, Ordering::Relaxed)
    }

    /// Threads numbered so far.
    pub fn threads(&self) -> u32 {
        self.threads.load(Ordering::Relaxed)
    }

    /// A number for a new process, or `None` when the table is full.
    pub fn next_process(&self) -> Option<u32> {
        // Release: who sees the number of a child sees the slot of its parent.
        let next = self.processes.fetch_add(1, Ordering::AcqRel);
        if (next as usize) < PROCESS_COUNT {
            return Some(next);
        }
        self.processes.fetch_sub(1, Ordering::Relaxed);
        self.refuse();
        None
    }

    /// A number for a program that is about to be executed; that of the recorder's own is [`crate::FIRST_ANNOUNCEMENT`].
    pub fn next_announcement(&self) -> u32 {
        self.announced.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A process is about to fork: its child will be numbered, or it says [`Self::settle_child`] itself.
    pub fn expect_child(&self) {
        self.unborn.fetch_add(1, Ordering::AcqRel);
    }

    /// The child has its slot, or will never have one.
    pub fn settle_child(&self) {
        // Release: who sees that nobody is expected sees the slots of those that were.
        self.unborn.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there may be children that nobody knows yet. One that dies before it has its slot is expected for ever.
    pub fn expects_children(&self) -> bool {
        self.unborn.load(Ordering::Acquire) != 0
    }

    /// The recorder's process, as far as it is known.
    pub fn recorder(&self) -> Option<u32> {
        Some(self.recorder.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Processes numbered so far.
    pub fn processes(&self) -> u32 {
        self.processes.load(Ordering::Acquire).min(PROCESS_COUNT as u32)
    }

    /// Tells producers that nothing they write will be read.
    pub fn close(&self) {
        self.closed.store(1, Ordering::Release);
        self.freed.fetch_add(1, Ordering::Release);
    }

    /// Whether [`Control::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) != 0
    }

    /// Counts a thread or process that could not be recorded for want of room.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How often [`Control::refuse`] was called.
    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The word that changes with each hand-over, for a futex.
    pub fn submitted_word(&self) -> &AtomicU32 {
        &self.submitted
    }

    /// There is something to read in a buffer that was not handed over. Whether the recorder has to be woken for it.
    pub fn announce(&self) -> bool {
        // SeqCst, here and in `set_waiting`: either the recorder finds the new number, or we find that it waits.
        self.submitted.fetch_add(1, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// The recorder is about to wait on [`Control::submitted_word`], or has waited.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting.into(), Ordering::SeqCst);
    }

    /// The word that changes with each buffer that becomes free, for a futex.
    pub fn freed_word(&self) -> &AtomicU32 {
        &self.freed
    }
}

/// What the recorder knows of a process before its records arrive, so that it can watch for its death.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ProcessSlot {
    /// A [`ProcessState`]; written by the process, last, with release.
    state: AtomicU32,
    /// Its process id in the recorder's name space, or zero where it does not know that; written by the process.
    pid: AtomicU32,
    /// The number of the process that made it, or all ones.
    parent: AtomicU32,
    /// How often it was continued after a stop of its own; written by the process.
    resumes: AtomicU32,
    /// When, in nanoseconds of CLOCK_REALTIME.
    start_ns: AtomicU64,
    /// Its process id in its own name space; written by the process.
    own_pid: AtomicU32,
    /// One more than the number under which its program was announced, or zero; written by the process.
    announcement: AtomicU32,
    /// Why it runs on untraced ([`Refusal`]), or zero; written by the process.
    refusal: AtomicU32,
}

/// Life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessState {
    /// No process yet.
    Empty = 0,
    /// It runs, or died without saying so.
    Live = 1,
    /// It handed over everything; its pid may be another program's by now.
    Ended = 2,
}

impl ProcessSlot {
    /// Enters a process.
    pub fn enter(&self, arrival: &Arrival) {
        self.pid.store(arrival.pid, Ordering::Relaxed);
        self.own_pid.store(arrival.own_pid, Ordering::Relaxed);
        self.parent.store(arrival.parent.unwrap_or(u32::MAX), Ordering::Relaxed);
        self.announcement.store(arrival.announcement.map_or(0, |number| number + 1), Ordering::Relaxed);
        self.refusal.store(0, Ordering::Relaxed);
        self.start_ns.store(arrival.start_ns, Ordering::Relaxed);
        self.resumes.store(0, Ordering::Relaxed);
        self.state.store(ProcessState::Live as u32, Ordering::Release);
    }

    /// Notes that the process can't be traced: it runs on without a tracer, and has no more to say.
    pub fn refuse(&self, refusal: Refusal) {
        self.refusal.store(refusal as u32, Ordering::Relaxed);
        self.end();
    }

    /// Notes that the tracer failed in it, which ends it.
    pub fn fail(&self) {
        self.refusal.store(Refusal::Bug as u32, Ordering::Relaxed);
    }

    /// Why it runs untraced, where it does, or what became of it. To be asked once it has ended.
    pub fn refusal(&self) -> Option<Refusal> {
        Refusal::from_code(self.refusal.load(Ordering::Relaxed))
    }

    /// Notes that the process has no more to say (it ended, or another program takes its pid by exec).
    pub fn end(&self) {
        self.state.store(ProcessState::Ended as u32, Ordering::Release);
    }

    /// Its state. Words that are no state count as empty: a foreign process may have written them.
    pub fn state(&self) -> ProcessState {
        match self.state.load(Ordering::Acquire) {
            1 => ProcessState::Live,
            2 => ProcessState::Ended,
            _ => ProcessState::Empty,
        }
    }

    /// Its process id in the recorder's name space; zero where it did not know that.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Its process id in its own name space.
    pub fn own_pid(&self) -> u32 {
        self.own_pid.load(Ordering::Relaxed)
    }

    /// Under which number its program was announced, where it was.
    pub fn announcement(&self) -> Option<u32> {
        self.announcement.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The process that made it, if that is of this session.
    pub fn parent(&self) -> Option<u32> {
        Some(self.parent.load(Ordering::Relaxed)).filter(|&p| p != u32::MAX)
    }

    /// It had stopped itself at a watchpoint, and was continued.
    pub fn resume(&self) {
        self.resumes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often [`ProcessSlot::resume`] was called.
    pub fn resumes(&self) -> u32 {
        self.resumes.load(Ordering::Relaxed)
    }

    /// When it appeared, nanoseconds since 1970.
    pub fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Relaxed)
    }
}

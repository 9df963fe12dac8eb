//! The buffers that a thread's own code writes: mapped one after the other, each followed by memory that can't be written, so that
//! the end of a buffer is a fault.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use buffers::flow::Live;
use buffers::{BUFFER_BYTES, BUFFER_COUNT, Content, FLOW_BYTES, Pool, Record};
use code_cache::Mode;
use tracee::sys;

use crate::emit::recorder;
use crate::emit::work::Work;
use crate::memory::pages::PAGE_BYTES;
use crate::state::process::PROCESS;
use crate::state::thread::TracedThread;

/// Where buffers are mapped for the program's own recording: one every 128 KiB, so that what follows each can't be
/// written.
pub(crate) const WINDOW_STRIDE: u64 = 2 * BUFFER_BYTES as u64;
pub(crate) static WINDOWS: AtomicU64 = AtomicU64::new(0);
pub(crate) static MAPPED: [AtomicBool; BUFFER_COUNT] = [const { AtomicBool::new(false) }; BUFFER_COUNT];

/// Where a thread without a buffer writes: it faults there, and gets one.
pub(crate) fn nowhere() -> u64 {
    WINDOWS.load(Ordering::Relaxed) + BUFFER_BYTES as u64 + PAGE_BYTES
}

/// The address at which the program's own code reaches a buffer.
fn window(index: usize, start: u64) -> u64 {
    let at = WINDOWS.load(Ordering::Relaxed) + index as u64 * WINDOW_STRIDE;
    if let Some(mapped) = MAPPED.get(index)
        && !mapped.swap(true, Ordering::AcqRel)
    {
        let flags = sys::MREMAP_MAYMOVE | sys::MREMAP_FIXED;
        // SAFETY: an old length of zero makes a second mapping of the buffer's shared pages, at a place that is reserved
        // for it. Touching its pages now is only a matter of speed.
        unsafe {
            sys::mremap(start, 0, FLOW_BYTES as u64, flags, at);
            sys::populate(at, FLOW_BYTES as u64);
        }
    }
    at
}

impl TracedThread {
    /// Its words in shared memory where it writes by them: what hits of watchpoints is written as native threads do.
    pub(crate) fn filled_live(&self) -> Option<&'static Live> {
        self.translation.live().filter(|_| !PROCESS.settings().watches)
    }

    /// Writes a record between the entries of the thread's own code.
    pub(crate) fn write_flow(&mut self, live: &Live, pool: &Pool, record: &Record<'_>) {
        while live.record(pool, record).is_err() {
            if !self.refill_flow(live, pool) {
                return;
            }
        }
    }

    /// The next buffer, mapped for the thread's own code; waits for the recorder where none is free. `false` when it is
    /// gone: the thread then writes into a buffer that nobody reads.
    pub(crate) fn refill_flow(&mut self, live: &Live, pool: &Pool) -> bool {
        self.submit();
        let control = pool.control();
        let process = self.process;
        loop {
            if control.is_closed() {
                PROCESS.recording.store(false, Ordering::Release);
                return false;
            }
            let freed = control.freed_word().load(Ordering::Acquire);
            if let Some(buffer) =
                pool.take(process, self.number, self.tid, self.translation.sequence, Content::Flow)
            {
                self.translation.sequence = self.translation.sequence.wrapping_add(1);
                let base = window(buffer.index(), buffer.start() as u64);
                live.begin_buffer(buffer, base);
                Work::Buffers.add(1);
                return true;
            }
            let start = sys::realtime_ns();
            recorder::wait_for_free(control, freed);
            Work::WaitNs.add(sys::realtime_ns().saturating_sub(start));
        }
    }

    /// Hands over what a translated thread wrote.
    pub(crate) fn submit_flow(&mut self, live: &Live, pool: &Pool) -> bool {
        live.submit(pool, nowhere())
    }

    /// What the code that it runs does.
    pub(crate) fn mode(&self) -> Mode {
        if !PROCESS.is_recording() {
            Mode::Quiet
        } else if self.calls.silent > 0 {
            Mode::Silent
        } else {
            Mode::Record
        }
    }

    /// Counts instructions that no entry of the thread's own code tells of.
    pub(crate) fn count(&mut self, count: u64) {
        if PROCESS.settings().watches {
            return;
        }
        let (Some(live), Some(pool)) = (self.translation.live(), PROCESS.pool()) else { return };
        while count > 0 && !live.add_instructions(&pool, count as i64) {
            if !self.refill_flow(live, &pool) {
                return;
            }
        }
    }
}

/// Counts what was executed without being recorded.
pub(crate) fn settle(thread: &mut TracedThread) {
    if let Some(live) = thread.translation.live() {
        let count = live.take_quiet();
        if PROCESS.is_recording() {
            thread.count(count);
        }
    }
}

/// Recording begins: what was executed before does not count.
pub(crate) fn forget_quiet(thread: &TracedThread) {
    if let Some(live) = thread.translation.live() {
        live.take_quiet();
    }
}

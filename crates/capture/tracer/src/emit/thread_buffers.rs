//! The buffers that a thread's own code writes. They are mapped one after the other, each
//! followed by memory that can't be written, so that reaching the end of a buffer faults.

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

#[cfg(test)]
mod tests {
    use buffers::flow::QUIET_AT;
    use memref::VirtAddr;
    use tracee::maps;

    use super::*;
    use crate::testing;

    /// The rights to memory.
    fn rights(addr: u64) -> Option<i32> {
        let mut found = None;
        let is_read = maps::each(|mapping| {
            if (mapping.start..mapping.end).contains(&addr) {
                found = Some(mapping.prot);
            }
        });
        assert!(is_read);
        found
    }

    #[test]
    fn a_buffer_is_reached_through_its_window_alone() {
        if !testing::is_alone(a_buffer_is_reached_through_its_window_alone) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        let live = thread.translation.live().expect("it is translated");
        // Without a buffer the first store faults, and so does the store of a header before it.
        let check_nowhere = || {
            assert_eq!(live.position(), nowhere());
            assert_eq!([nowhere() - 8, nowhere()].map(rights), [Some(sys::PROT_NONE); 2]);
        };
        check_nowhere();
        let mut windows = Vec::new();
        for number in 0..3u64 {
            thread.emit(&Record::ThreadBase { addr: VirtAddr(number) });
            let buffer = pool.buffer(live.buffer() as usize).expect("it has one");
            assert_eq!(buffer.header().sequence(), number as u32);
            let filled = live.filled() as u64;
            let base = live.position() - filled;
            // SAFETY: both show the buffer.
            let [own, shown] = [buffer.start() as u64, base]
                .map(|at| unsafe { core::slice::from_raw_parts(at as *const u8, filled as usize) });
            assert_eq!(own, shown);
            assert!(filled > 8);
            // Its end is one for the thread's own code.
            let rw = sys::PROT_READ | sys::PROT_WRITE;
            assert_eq!(rights(base + FLOW_BYTES as u64 - 1), Some(rw));
            assert_eq!(rights(base + FLOW_BYTES as u64), Some(sys::PROT_NONE));
            windows.push(base);
            thread.submit();
            check_nowhere();
            // The recorder gives back the second one, which is reached where it was.
            if number == 1 {
                pool.free(buffer);
            }
        }
        assert_ne!(windows[0], windows[1]);
        assert_eq!(windows[1], windows[2]);
    }

    /// Instructions that the thread has told of in its buffer.
    fn told(thread: &TracedThread, pool: &Pool) -> u64 {
        let words = testing::written(thread, pool);
        words.iter().map(|word| u64::from_le_bytes(*word) >> buffers::flow::ID_BITS).sum()
    }

    #[test]
    fn what_was_not_recorded_is_counted_once_and_only_while_it_is_recorded() {
        if !testing::is_alone(what_was_not_recorded_is_counted_once_and_only_while_it_is_recorded) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        let live = thread.translation.live().expect("it is translated");
        let execute = |count| testing::set_word(live, QUIET_AT, count);
        execute(5);
        settle(thread);
        assert_eq!(told(thread, &pool), 5);
        settle(thread);
        assert_eq!(told(thread, &pool), 5);
        execute(7);
        forget_quiet(thread);
        settle(thread);
        assert_eq!(told(thread, &pool), 5);
        PROCESS.recording.store(false, Ordering::Relaxed);
        execute(11);
        settle(thread);
        PROCESS.recording.store(true, Ordering::Relaxed);
        settle(thread);
        assert_eq!(told(thread, &pool), 5);
        thread.count(2);
        assert_eq!(told(thread, &pool), 7);
    }

    #[test]
    fn recording_ends_where_the_recorder_is_gone() {
        if !testing::is_alone(recording_ends_where_the_recorder_is_gone) {
            return;
        }
        let (thread, pool) = testing::recorded(testing::TRANSLATED);
        assert_eq!(thread.mode(), Mode::Record);
        // In a function that is one event.
        thread.calls.silent = 1;
        assert_eq!(thread.mode(), Mode::Silent);
        thread.emit(&Record::ThreadBase { addr: VirtAddr(0) });
        pool.control().close();
        // What was begun can be ended.
        thread.emit(&Record::ThreadEnd);
        assert!(PROCESS.is_recording());
        thread.submit();
        thread.emit(&Record::ThreadEnd);
        assert_eq!((PROCESS.is_recording(), thread.mode()), (false, Mode::Quiet));
    }
}

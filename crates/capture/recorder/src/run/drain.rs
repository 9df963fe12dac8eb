//! Reads buffers until no process is left that could fill one. This module decides when and in which order; what is read goes to the sink.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use buffers::{BufferState, ProcessState};
use buffers_host::OwnedPool;

use crate::flushes::Flushes;
use crate::plan::Plan;
use crate::run::waiter::Waiter;
use crate::sink::Sink;
use crate::target::live_processes::LiveProcesses;
use crate::target::pid_namespaces;
use crate::{Error, Notice};

/// How long the recorder waits for programs that were announced, and for children that were forked, where nobody else is left.
const ARRIVAL: Duration = Duration::from_secs(2);
/// Where workers code, reading takes far less time than writing: whoever reads each buffer at once is woken for each. So it pauses after
/// a look that found few; much fewer than may wait for it come in that time.
const PAUSE: Duration = Duration::from_micros(200);
/// So many buffers at one look are more than whoever reads can code while the next ones come; at 64 programs wait.
const FEW_BUFFERS: usize = 48;
/// How often the recorder looks at what nobody wakes it for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The pool that is read, and the sink that gets what is in it.
pub(crate) struct Drain<'a, 's> {
    pool: &'a OwnedPool,
    sink: &'a mut Sink<'s>,
    living: LiveProcesses,
    /// The processes of lower numbers were given to the sink, but for `unentered`.
    known: u32,
    /// Those that have drawn a number and not entered their slots.
    unentered: BTreeSet<u32>,
    /// The process ids of all who were given to the sink.
    pids: BTreeSet<u32>,
    /// Whether the last look found few buffers, and workers code.
    is_early: bool,
}

impl<'a, 's> Drain<'a, 's> {
    pub(crate) fn new(pool: &'a OwnedPool, sink: &'a mut Sink<'s>) -> Self {
        let living = LiveProcesses::default();
        let (unentered, pids) = (BTreeSet::new(), BTreeSet::new());
        Self { pool, sink, living, known: 0, unentered, pids, is_early: false }
    }

    /// Reads until the program has ended and all has been read, and waits as long as the plan says for those who outlive it; no longer than until it
    /// is told to leave. After an error nothing more can be kept: the program goes on, unrecorded.
    pub(crate) fn run(
        &mut self,
        program: &Waiter,
        plan: &Plan,
        tell: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Error> {
        let mut flushes = Flushes::from(Instant::now());
        let mut looked = Instant::now();
        let mut nobody_since = None;
        let mut over_since = None;
        loop {
            let seen = self.pool.submissions();
            let over = program.is_over();
            program.pass_on(tell);
            if over && program.is_vain() {
                return Ok(());
            }
            self.add_processes()?;
            let some = self.read_submitted()?;
            self.sink.enter_coded()?;
            let waiting = self.sink.looked(self.pool.pool())?;
            if over || looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.leave_ended()?;
                tell(Notice::Progress { totals: self.sink.totals(), output: &plan.trace.output });
            }
            if plan.leave.load(Ordering::Relaxed) {
                break;
            }
            if over && !self.living.is_empty() {
                let since = *over_since.get_or_insert_with(Instant::now);
                // Children that were just forked get the time to say who they are.
                let wait =
                    plan.wait.map(|wait| if self.expects_children() { wait.max(ARRIVAL) } else { wait });
                if wait.is_some_and(|wait| since.elapsed() >= wait) {
                    break;
                }
                tell(Notice::Outlived { processes: self.living.len() });
            }
            if flushes.is_due(Instant::now(), self.sink.accesses_read()) {
                self.sink.flush()?;
            }
            if over && self.living.is_empty() && !some && self.all_known() {
                // A program whose parent does not wait for it may be about to arrive, or a child whose parent has ended.
                let waits = *nobody_since.get_or_insert_with(Instant::now);
                let awaited = self.sink.awaits_programs(self.pool.pool()) || !self.unborn().is_empty();
                // One that came while we looked may be on its way out: it has no memory any more, and is not dead yet.
                if self.all_known() && (!awaited || waits.elapsed() >= ARRIVAL) {
                    break;
                }
            } else {
                nobody_since = None;
            }
            if !some && !waiting {
                self.pool.wait(seen, LOOK_EVERY);
            } else if some && self.is_early {
                std::thread::sleep(PAUSE);
            }
        }
        self.leave_outliving()?;
        while self.sink.looked(self.pool.pool())? {}
        self.sink.refused(self.pool.pool().control().refused())?;
        self.sink.tell_lost()?;
        Ok(())
    }

    /// Gives the processes that are new to the sink, parents before their children: a parent has entered its slot before its
    /// child draws a number, so whoever has a lower number than one that was seen here is seen here, too.
    fn add_processes(&mut self) -> Result<(), Error> {
        let pool = self.pool.pool();
        let drawn = pool.control().processes();
        self.unentered.extend(self.known..drawn);
        self.known = drawn;
        for number in self.unentered.clone() {
            let Some(slot) = pool.process(number) else { continue };
            if slot.state() == ProcessState::Empty {
                continue;
            }
            self.unentered.remove(&number);
            // One that is nowhere was dead before anybody could look.
            let pid = pid_namespaces::pid_of(slot, self.pool).unwrap_or(0);
            let shown = if pid == 0 { slot.own_pid() } else { pid };
            self.sink.add_process(number, shown, slot.parent(), slot.start_ns())?;
            self.sink.arrive(slot);
            self.pids.insert(pid);
            if let Some(former) = self.living.add(number, pid) {
                self.leave(former)?;
            }
        }
        Ok(())
    }

    /// Whether there may be processes that nobody knows yet. One that was killed before it entered its slot is expected for ever.
    fn expects_children(&self) -> bool {
        let control = self.pool.pool().control();
        // In this order: a child is numbered before it is expected no more.
        control.expects_children() || !self.unentered.is_empty() || !self.all_known()
    }

    /// Whether all processes that drew a number were seen.
    fn all_known(&self) -> bool {
        self.known == self.pool.pool().control().processes()
    }

    /// The process ids of those who were forked, live, and are not known.
    fn unborn(&self) -> Vec<u32> {
        if !self.expects_children() {
            return Vec::new();
        }
        pid_namespaces::holders(self.pool).into_iter().filter(|pid| !self.pids.contains(pid)).collect()
    }

    /// Reads what was handed over. Whether there was anything. Buffers of a process that appeared since the sink was last told
    /// of new ones wait for the next look.
    fn read_submitted(&mut self) -> Result<bool, Error> {
        let pool = self.pool.pool();
        self.sink.begin_look();
        let threads = pool.control().threads();
        self.sink.announce(pool, threads)?;
        // What is handed over from here on is read next time: what its blocks are may come after this look.
        let submitted: Vec<_> =
            pool.buffers().filter(|buffer| buffer.header().state() == BufferState::Submitted).collect();
        let are_few = submitted.len() < FEW_BUFFERS;
        self.sink.fall_behind(!are_few);
        let mut some = !submitted.is_empty();
        if some {
            self.sink.read_definitions(pool)?;
        }
        for buffer in submitted {
            let process = buffer.header().process();
            let is_new = !self.sink.knows(process)
                && pool.process(process).is_some_and(|slot| slot.state() != ProcessState::Empty);
            if !is_new {
                self.sink.read(buffer)?;
                if self.sink.mapped_buffers().is_some_and(|most| buffer.index() >= most) {
                    self.pool.unmap(buffer);
                }
                pool.free(buffer);
            }
        }
        if some {
            self.pool.wake_producers();
        }
        self.is_early = are_few && self.sink.awaits_pieces();
        some |= self.sink.read_filling(pool)?;
        Ok(some)
    }

    /// Leaves the processes that have no more to say.
    fn leave_ended(&mut self) -> Result<(), Error> {
        let pool = self.pool.pool();
        let has_ended = |number| pool.process(number).is_some_and(|slot| slot.state() == ProcessState::Ended);
        let dead = self.living.dead();
        let gone = self.living.gone(has_ended);
        for number in dead.into_iter().chain(gone) {
            self.leave(number)?;
        }
        // After the ends that were seen: a child is expected before its parent can end.
        if !self.expects_children() {
            self.sink.forget_ended();
        }
        Ok(())
    }

    /// Whoever goes on is not waited for any longer, and records nothing from here on.
    fn leave_outliving(&mut self) -> Result<(), Error> {
        self.pool.pool().control().close();
        self.pool.wake_producers();
        self.add_processes()?;
        self.leave_ended()?;
        for number in self.living.gone(|_| true) {
            self.leave(number)?;
            self.sink.note_outliving(number);
        }
        for pid in self.unborn() {
            self.sink.note_unborn(pid);
        }
        Ok(())
    }

    /// A process is gone: what it handed over, then what it had begun.
    fn leave(&mut self, number: u32) -> Result<(), Error> {
        self.read_submitted()?;
        let pool = self.pool.pool();
        self.sink.read_definitions(pool)?;
        for buffer in pool.buffers().filter(|buffer| buffer.is_owned_by(number)) {
            let live = pool
                .lives()
                .find(|live| live.owner() == Some(number) && live.buffer() as usize == buffer.index());
            let filled = live.map_or(buffer.header().filled(), buffers::flow::Live::filled);
            self.sink.read_filled(buffer, filled)?;
            pool.free(buffer);
        }
        for live in pool.lives().filter(|live| live.owner() == Some(number)) {
            live.release();
        }
        self.sink.settle(number)?;
        self.sink.end_process(number)?;
        if let Some(slot) = pool.process(number) {
            self.sink.note_refusal(number, slot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use buffers::{Arrival, Buffer, Content, ProcessSlot};
    use trace_format::{CreateOptions, TraceWriter};

    use crate::sink::Contents;
    use crate::store::memory_plan::MemoryPlan;

    /// Has a pool read whose processes all are this one.
    fn with_drain(test: impl FnOnce(&mut Drain<'_, '_>)) {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = TraceWriter::create(folder.path().join("t.memtap"), CreateOptions::default());
        let pool = OwnedPool::create().expect("memory");
        let contents = Contents { regions: u32::MAX, data: false, flow: false, verify: false };
        let mut sink = Sink::new(trace.expect("a trace"), contents, None, MemoryPlan::new(None, 1), None);
        test(&mut Drain::new(&pool, &mut sink));
    }

    fn slot(pool: &OwnedPool, number: u32) -> &ProcessSlot {
        pool.pool().process(number).expect("the table is not full")
    }

    fn enter(pool: &OwnedPool, number: u32) {
        let pid = std::process::id();
        let arrival = Arrival { pid, own_pid: pid, parent: None, announcement: None, start_ns: 0 };
        slot(pool, number).enter(&arrival);
    }

    /// A process that nobody has looked at, and a buffer that it fills.
    fn enter_with_buffer(pool: &OwnedPool) -> (u32, Buffer) {
        let control = pool.pool().control();
        let number = control.next_process().expect("the table is empty");
        enter(pool, number);
        let buffer = pool.pool().take(number, control.next_thread(), 1, 0, Content::Records);
        (number, buffer.expect("all are free"))
    }

    #[test]
    fn a_process_that_drew_a_number_is_expected_until_it_enters_its_slot() {
        with_drain(|drain| {
            let number = drain.pool.pool().control().next_process().expect("the table is empty");
            assert!(!drain.all_known() && drain.expects_children());
            drain.add_processes().expect("a trace that can be written");
            assert!(drain.all_known() && drain.expects_children());
            assert!(!drain.sink.knows(number) && drain.living.is_empty());
            enter(drain.pool, number);
            drain.add_processes().expect("a trace that can be written");
            assert!(drain.sink.knows(number) && !drain.expects_children());
            assert_eq!(drain.living.len(), 1);
        });
    }

    #[test]
    fn a_buffer_of_a_process_that_is_new_waits_until_it_is_known() {
        with_drain(|drain| {
            let (_, buffer) = enter_with_buffer(drain.pool);
            drain.pool.pool().submit(buffer);
            assert!(drain.read_submitted().expect("a trace that can be written"));
            assert_eq!(buffer.header().state(), BufferState::Submitted);
            drain.add_processes().expect("a trace that can be written");
            assert!(drain.read_submitted().expect("a trace that can be written"));
            assert_eq!(buffer.header().state(), BufferState::Free);
            assert!(!drain.read_submitted().expect("a trace that can be written"));
        });
    }

    #[test]
    fn what_a_process_had_begun_is_given_back_when_it_has_ended_and_no_sooner() {
        with_drain(|drain| {
            let (number, buffer) = enter_with_buffer(drain.pool);
            drain.add_processes().expect("a trace that can be written");
            drain.leave_ended().expect("a trace that can be written");
            assert_eq!((buffer.header().state(), drain.living.len()), (BufferState::Owned, 1));
            // Its pid lives on, as after an exec.
            slot(drain.pool, number).end();
            drain.leave_ended().expect("a trace that can be written");
            assert_eq!((buffer.header().state(), drain.living.len()), (BufferState::Free, 0));
        });
    }
}

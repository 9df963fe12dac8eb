//! Programs that ran without a tracer, and events for which there was no room: gaps that no traced
//! thread can report. Each gap is recorded in a thread of its own, which has no other events.

use buffers::{Pool, ProcessSlot};
use memref::{Event, Gap, GapReason, ProcessId, VirtAddr};
use trace_format::{COUNTER_UNTRACED_PROGRAM, CounterRecord, Error, ProcessRecord, ThreadRecord};

use super::thread::TracedThread;
use super::{Sink, TracedProcess};
use crate::clock::now_ns;
use crate::feedback::totals::add_missing;
use crate::sink::announcements::{AnnouncedProgram, LostProgram};
use crate::target::pid_namespaces;

impl Sink<'_> {
    /// The recorder is about to start that program, under the first number.
    pub(crate) fn announce_program(&mut self, number: u32, name: &str) {
        let name = name.to_owned();
        self.announced.announce(number, AnnouncedProgram { name, parent: None, own_pid: None });
    }

    /// A thread's process is about to execute a program.
    pub(super) fn exec(&mut self, thread: &TracedThread, number: u32, own_pid: u32, name: &[u8]) {
        let name = String::from_utf8_lossy(name).into_owned();
        let program = AnnouncedProgram { name, parent: Some(thread.process), own_pid: Some(own_pid) };
        self.announced.announce(number, program);
    }

    /// The program of a process has come with the tracer in it.
    pub(crate) fn arrive(&mut self, slot: &ProcessSlot) {
        if let Some(number) = slot.announcement() {
            self.announced.arrive(number, slot.own_pid());
        }
    }

    /// Whether a program may still arrive when all processes of the session are gone.
    pub(crate) fn awaits_programs(&self, pool: &Pool) -> bool {
        self.announced.awaits(|number| pool.process(number).map(ProcessSlot::own_pid))
    }

    /// A process has no more to say; it may have been refused.
    pub(crate) fn note_refusal(&mut self, number: u32, slot: &ProcessSlot) {
        if let Some(refusal) = slot.refusal() {
            let name = self.processes.get(&number).map_or("", |process| process.record.exe.as_str());
            self.announced.refuse(name, slot, refusal);
        }
    }

    /// A process goes on, and is not recorded any more.
    pub(crate) fn note_outliving(&mut self, number: u32) {
        if let Some(process) = self.processes.get(&number) {
            self.announced.outlive(&process.record.exe, Some(number), process.record.pid);
        }
    }

    /// A child that was forked has not said who it is, and goes on.
    pub(crate) fn note_unborn(&mut self, pid: u32) {
        self.announced.outlive(&pid_namespaces::executable(pid), None, pid);
    }

    /// Nobody comes any more: tells who ran untraced.
    pub(crate) fn tell_lost(&mut self) -> Result<(), Error> {
        for LostProgram { words, parent, pid } in self.announced.finish() {
            let parent = parent.map(|parent| self.process_id(parent));
            let record = ProcessRecord { pid, parent, start_ns: now_ns(), ..Default::default() };
            let process = self.trace.add_process(&record)?;
            self.trace.add_counter(&CounterRecord {
                process,
                thread: None,
                ip: VirtAddr(0),
                code: COUNTER_UNTRACED_PROGRAM,
                count: 1,
                name: words.clone(),
            })?;
            self.lone_gap(process, GapReason::UntracedProgram, 1, &words)?;
            self.trace.end_process(process, now_ns(), None)?;
            self.untraced.insert(words);
        }
        Ok(())
    }

    /// Notes that threads or processes found no room in the pool.
    pub(crate) fn refused(&mut self, count: u32) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let process = self.trace.add_process(&ProcessRecord::default())?;
        let cause = "more threads or processes than a recording has room for";
        self.lone_gap(process, GapReason::TooManyThreads, count.into(), cause)?;
        self.trace.end_process(process, now_ns(), None)
    }

    /// Processes in which recording was to begin with main, and which never came there: their start-up code is not the C library's, as
    /// that of Go's dynamic programs, or they ended before.
    pub(crate) fn never_begun(&mut self) -> Result<(), Error> {
        let is_one = |process: &&TracedProcess| !process.has_begun && !process.arguments.is_empty();
        let unbegun = self.processes.values().filter(is_one);
        let mut unbegun: Vec<(ProcessId, String)> =
            unbegun.map(|process| (process.id, process.record.exe.clone())).collect();
        unbegun.sort_unstable_by_key(|(process, _)| *process);
        for (process, exe) in unbegun {
            let cause = format!(
                "{exe}: it never came to a main that the C library calls, so nothing of it is recorded"
            );
            self.lone_gap(process, GapReason::UntracedProgram, 1, &cause)?;
        }
        Ok(())
    }

    /// A gap of a process that no thread of it can tell.
    pub(super) fn lone_gap(
        &mut self,
        process: ProcessId,
        reason: GapReason,
        count: u64,
        cause: &str,
    ) -> Result<(), Error> {
        self.totals.gaps += count;
        add_missing(&mut self.missing, reason, count);
        self.causes.add(&mut self.trace, process, (reason, cause), count)?;
        let record = ThreadRecord { process, start_ns: now_ns(), ..Default::default() };
        let thread = self.trace.add_thread(&record)?;
        let mut shard = self.trace.shard(thread)?;
        shard.push(&Event::Gap(Gap { process, thread, cycle: 0, count, reason, addr: VirtAddr(0) }))?;
        shard.end()
    }
}

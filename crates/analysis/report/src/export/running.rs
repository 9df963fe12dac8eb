//! The processes and threads of a session, as timelines name them.

use std::collections::BTreeMap;

use analysis::{HeapSample, Session, Timeline};
use memref::{ProcessId, ThreadId};

/// A process.
pub(super) struct RunningProcess {
    pub(super) number: ProcessId,
    pub(super) pid: u32,
    /// The file name of its program.
    pub(super) name: String,
}

/// A thread of one.
pub(super) struct NamedThread {
    pub(super) number: ThreadId,
    pub(super) process: ProcessId,
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// `thread 2`; of the first one of its process the program's name.
    pub(super) name: String,
    pub(super) is_first: bool,
}

/// All of them.
pub(super) struct Running {
    pub(super) processes: Vec<RunningProcess>,
    pub(super) threads: Vec<NamedThread>,
}

impl Running {
    pub(super) fn of(session: &Session) -> Self {
        let processes = session.trace().processes().iter().map(|record| {
            let called = record.args.split(' ').next().filter(|name| !name.is_empty()).unwrap_or(&record.exe);
            let name = called.rsplit('/').next().unwrap_or(called).to_owned();
            RunningProcess { number: record.process, pid: record.pid, name }
        });
        let processes: Vec<RunningProcess> = processes.collect();
        let mut threads: Vec<NamedThread> = Vec::new();
        for record in session.trace().threads() {
            let process = processes.iter().find(|process| process.number == record.process);
            let is_first = !threads.iter().any(|thread| thread.process == record.process);
            threads.push(NamedThread {
                number: record.thread,
                process: record.process,
                pid: process.map_or(0, |process| process.pid),
                tid: record.tid,
                name: match process.filter(|_| is_first) {
                    Some(process) => process.name.clone(),
                    None => format!("thread {}", record.thread.0),
                },
                is_first,
            });
        }
        Self { processes, threads }
    }

    /// The heap of each process with times that never go back, though its threads' clocks differ.
    pub(super) fn heap(&self, timeline: &Timeline) -> Vec<HeapSample> {
        let mut last: BTreeMap<ProcessId, u64> = BTreeMap::new();
        let samples = timeline.heap_samples().iter().map(|sample| {
            let time = last.entry(sample.process).or_default();
            *time = sample.cycle.max(*time);
            HeapSample { cycle: *time, ..*sample }
        });
        samples.collect()
    }
}

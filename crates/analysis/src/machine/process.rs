//! Who executed: the guest's processes, by cycle.

use std::collections::BTreeMap;

use memref::ThreadId;
use trace_format::machine::{TASKS, TaskEntry};
use trace_format::{Filter, Trace};

use crate::{Count, Error};

const CHANGE_CREATE: u8 = 1;
const CHANGE_EXIT: u8 = 3;

/// Whose accesses: a process of the guest, in one mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its process id; `None` before the kernel was found.
    pub process: Option<u32>,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Whether the kernel executed for it.
    pub kernel: bool,
}

/// What the guest's tasks did on a vCPU.
///
/// # Errors
/// Where the trace can't be read.
pub fn tasks(trace: &Trace, thread: ThreadId) -> Result<Vec<TaskEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(TASKS, Some(thread)) {
        while let Some(frame) = cursor.next_frame()? {
            all.extend(frame.bytes.chunks_exact(48).map(TaskEntry::from_bytes));
        }
    }
    Ok(all)
}

/// Counts accesses by process and mode.
///
/// # Errors
/// Where the trace can't be read.
pub fn by_process(trace: &Trace) -> Result<BTreeMap<Owner, Count>, Error> {
    let mut counts: BTreeMap<Owner, Count> = BTreeMap::new();
    for record in trace.threads() {
        let tasks = tasks(trace, record.thread)?;
        // Of creations and ends nobody else executes.
        let mut tasks =
            tasks.into_iter().filter(|task| task.change != CHANGE_CREATE && task.change != CHANGE_EXIT);
        let mut next = tasks.next();
        let mut owner = Owner { process: None, name: "before the first process".into(), kernel: false };
        let mut two = [Count::default(); 2];
        let mut cursor = trace.shard(record.thread).accesses(&Filter::default());
        while let Some(accesses) = cursor.next_block()? {
            for access in accesses {
                while let Some(task) = next.as_ref().filter(|task| task.cycle <= access.cycle) {
                    settle(&mut counts, &owner, &mut two);
                    owner = Owner { process: Some(task.process), name: task.name(), kernel: false };
                    next = tasks.next();
                }
                two[usize::from(access.ip.0 >> 63 != 0)].add(access);
            }
        }
        settle(&mut counts, &owner, &mut two);
    }
    Ok(counts)
}

fn settle(counts: &mut BTreeMap<Owner, Count>, owner: &Owner, two: &mut [Count; 2]) {
    for (kernel, count) in [false, true].into_iter().zip(two) {
        if count.accesses() > 0 {
            *counts.entry(Owner { kernel, ..owner.clone() }).or_default() += std::mem::take(count);
        }
    }
}

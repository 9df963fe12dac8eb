//! Who executed: the guest's processes, by cycle.

use std::collections::BTreeMap;

use memref::{Access, ThreadId, VirtAddr};
use trace_format::machine::TaskEntry;
use trace_format::{Filter, StreamKind, Trace};

use crate::{Count, Error};

const CHANGE_CREATE: u8 = 1;
const CHANGE_EXIT: u8 = 3;

/// In which mode the processor was, as the address of the instruction tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuestMode {
    /// Firmware and boot loader: before a vCPU came to the kernel.
    Boot,
    /// A program.
    User,
    /// The kernel.
    Kernel,
}

impl GuestMode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }

    fn of(ip: VirtAddr, seen_kernel: &mut bool) -> Self {
        let kernel = ip.is_of_kernel();
        *seen_kernel |= kernel;
        match (kernel, *seen_kernel) {
            (true, _) => Self::Kernel,
            (false, true) => Self::User,
            (false, false) => Self::Boot,
        }
    }
}

/// Whose accesses: a process of the guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its process id; `None` before the kernel was found.
    pub process: Option<u32>,
    /// Its name, as the kernel has it.
    pub name: String,
}

/// What the guest's tasks did on a vCPU.
///
/// # Errors
/// Where the trace can't be read.
pub fn tasks(trace: &Trace, thread: ThreadId) -> Result<Vec<TaskEntry>, Error> {
    let mut all = Vec::new();
    if let Some(mut cursor) = trace.typed(StreamKind::Tasks, Some(thread)) {
        while let Some(frame) = cursor.next_frame()? {
            all.extend(frame.bytes.chunks_exact(48).map(TaskEntry::from_bytes));
        }
    }
    Ok(all)
}

/// The cycle at which a vCPU made its first access from the kernel: low addresses before it are boot code.
///
/// # Errors
/// Where the trace can't be read.
pub fn kernel_since(trace: &Trace, thread: ThreadId) -> Result<u64, Error> {
    let mut cursor = trace.shard(thread).accesses(&Filter::default());
    while let Some(accesses) = cursor.next_block()? {
        if let Some(access) = accesses.iter().find(|access| access.ip.is_of_kernel()) {
            return Ok(access.cycle);
        }
    }
    Ok(u64::MAX)
}

/// Gives all accesses of a vCPU, in order, with whose they are, to `each`. An owner's number grows with each change.
///
/// # Errors
/// Where the trace can't be read.
pub(crate) fn walk_owned(
    trace: &Trace,
    thread: ThreadId,
    mut each: impl FnMut(usize, &Owner, GuestMode, &Access),
) -> Result<(), Error> {
    // Of creations and ends nobody else executes.
    let tasks = tasks(trace, thread)?;
    let mut tasks =
        tasks.into_iter().filter(|task| task.change != CHANGE_CREATE && task.change != CHANGE_EXIT);
    let mut next = tasks.next();
    let mut owner = Owner { process: None, name: "before the first process".into() };
    let (mut number, mut seen_kernel) = (0, false);
    let mut cursor = trace.shard(thread).accesses(&Filter::default());
    while let Some(accesses) = cursor.next_block()? {
        for access in accesses {
            while let Some(task) = next.as_ref().filter(|task| task.cycle <= access.cycle) {
                owner = Owner { process: Some(task.process), name: task.name() };
                number += 1;
                next = tasks.next();
            }
            each(number, &owner, GuestMode::of(access.ip, &mut seen_kernel), access);
        }
    }
    Ok(())
}

/// Counts accesses by process and mode.
///
/// # Errors
/// Where the trace can't be read.
pub fn by_process(trace: &Trace) -> Result<BTreeMap<(Owner, GuestMode), Count>, Error> {
    let mut counts: BTreeMap<(Owner, GuestMode), Count> = BTreeMap::new();
    for record in trace.threads() {
        let mut present: Option<(usize, Owner)> = None;
        let mut modes = [Count::default(); 3];
        walk_owned(trace, record.thread, |number, owner, mode, access| {
            if present.as_ref().is_none_or(|(before, _)| *before != number)
                && let Some((_, owner)) = present.replace((number, owner.clone()))
            {
                settle(&mut counts, &owner, &mut modes);
            }
            modes[mode as usize].add(access);
        })?;
        if let Some((_, owner)) = present {
            settle(&mut counts, &owner, &mut modes);
        }
    }
    Ok(counts)
}

fn settle(counts: &mut BTreeMap<(Owner, GuestMode), Count>, owner: &Owner, modes: &mut [Count; 3]) {
    for (mode, count) in [GuestMode::Boot, GuestMode::User, GuestMode::Kernel].into_iter().zip(modes) {
        if count.accesses() > 0 {
            *counts.entry((owner.clone(), mode)).or_default() += std::mem::take(count);
        }
    }
}

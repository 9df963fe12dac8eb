//! The Firefox Profiler's processed profile: samples of each thread with
//! their stacks, weighted by accesses, and the heap of each process.
//!
//! The format is that of the crate `fxprof-processed-profile`. One nanosecond stands for one instruction of the thread.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use analysis::stack::{CalledFunction, StackNames};
use analysis::{Session, Timeline};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use memref::ThreadId;

use super::running::Running;
use super::tree::TreeFunction;

/// The kinds of functions, by colours.
struct Categories {
    program: CategoryHandle,
    library: CategoryHandle,
}

impl Categories {
    fn of(&self, function: &CalledFunction) -> CategoryHandle {
        let (name, module) = (function.function.clone(), function.module.clone());
        match module.is_some() {
            false => CategoryHandle::OTHER,
            true if (TreeFunction { name, module, file: 0 }).is_library() => self.library,
            true => self.program,
        }
    }
}

fn time(cycle: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(cycle)
}

/// Writes what a timeline has of a session.
///
/// # Errors
/// Where the output can't be written.
pub fn firefox(session: &Session, timeline: &Timeline, out: &mut dyn Write) -> io::Result<()> {
    let running = Running::of(session);
    let start = session.trace().processes().first().map_or(0, |record| record.start_ns);
    let start = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(start));
    let mut profile = Profile::new(crate::title(session), start, SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    let categories = Categories {
        program: profile.add_category("program", CategoryColor::Orange),
        library: profile.add_category("libraries", CategoryColor::Blue),
    };
    let mut processes = BTreeMap::new();
    for process in &running.processes {
        processes.insert(process.number, profile.add_process(&process.name, process.pid, time(0)));
    }
    let mut threads: BTreeMap<ThreadId, ThreadHandle> = BTreeMap::new();
    for thread in &running.threads {
        let Some(process) = processes.get(&thread.process) else { continue };
        let handle = profile.add_thread(*process, thread.tid, time(0), thread.is_first);
        profile.set_thread_name(handle, &thread.name);
        threads.insert(thread.number, handle);
    }
    let names = StackNames::new(session.names(), timeline.contexts());
    for sample in timeline.samples() {
        let Some(&thread) = threads.get(&sample.thread) else { continue };
        let mut stack: Option<StackHandle> = None;
        for function in names.stack(sample.place) {
            let frame = Frame::Label(profile.intern_string(&function.function));
            let category_pair = categories.of(&function).into();
            let frame =
                profile.intern_frame(thread, FrameInfo { frame, category_pair, flags: FrameFlags::empty() });
            stack = Some(profile.intern_stack(thread, stack, frame));
        }
        let weight = i32::try_from(sample.count.accesses()).unwrap_or(i32::MAX);
        profile.add_sample(thread, time(sample.cycle), stack, CpuDelta::ZERO, weight);
    }
    let mut counters = BTreeMap::new();
    for sample in running.heap(timeline) {
        let Some(process) = processes.get(&sample.process) else { continue };
        let (counter, last) = counters.entry(sample.process).or_insert_with(|| {
            let counter = profile.add_counter(*process, "malloc", "Memory", "Bytes of live heap blocks");
            (counter, 0.0)
        });
        let now = sample.most as f64;
        profile.add_counter_sample(*counter, time(sample.cycle), now - *last, 1);
        *last = now;
    }
    serde_json::to_writer(&mut *out, &profile)?;
    out.write_all(b"\n")
}

//! The streams of the session itself: properties, processes, threads, regions, modules, counters and names.

use std::collections::HashMap;

use memref::{ProcessId, RegionEvent, ThreadId};

use super::{names::NameTable, options::CreateOptions, segment::PendingSegment, sink::SegmentSink};
use crate::{
    CounterRecord, Error, MAX_THREADS, ModuleRecord, ProcessRecord, StreamKind, ThreadRecord, Trace,
    entry::{CounterEntry, ModuleEntry, ProcessEntry, PropertyEntry, RegionEntry, StreamEntry},
};

const NONE_32: u32 = u32::MAX;
const NONE_64: u64 = u64::MAX;
/// Entries of a session's stream that are buffered at most.
const SEGMENT_ENTRIES: usize = 1 << 16;

/// What the session's streams buffer, and what is needed to write later versions of an entry.
#[derive(Debug, Default)]
pub(crate) struct SessionTables {
    clock: Option<fn() -> u64>,
    names: NameTable,
    segments: HashMap<StreamKind, PendingSegment>,
    processes: Vec<ProcessEntry>,
    threads: Vec<ThreadRecord>,
}

impl SessionTables {
    pub(crate) fn new(clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// Goes on with the session of a trace. NameTable are written anew.
    pub(crate) fn resume(clock: fn() -> u64, trace: &Trace) -> Result<Self, Error> {
        let mut session = Self::new(clock);
        session.names.segment = PendingSegment::resume(StreamKind::Names, None, trace);
        for &kind in StreamKind::ALL.iter().filter(|kind| kind.is_table() && !kind.variable()) {
            session.segments.insert(kind, PendingSegment::resume(kind, None, trace));
        }
        for entry in crate::reader::all::<ProcessEntry>(trace.inner(), &mut Vec::new())? {
            match session.processes.get_mut(entry.process as usize) {
                Some(known) => *known = entry,
                None => session.processes.push(entry),
            }
        }
        session.threads = trace.threads().to_vec();
        Ok(session)
    }

    fn clock(&self) -> fn() -> u64 {
        self.clock.unwrap_or(|| 0)
    }

    /// The reference of a name, for an entry of any stream.
    pub(crate) fn name(&mut self, name: &str) -> u64 {
        self.names.reference(name, self.clock())
    }

    fn push<E: StreamEntry>(&mut self, entry: &E) {
        let clock = self.clock();
        self.segments.entry(E::KIND).or_insert_with(|| PendingSegment::new(E::KIND, None)).push(entry, clock);
    }

    pub(crate) fn set_property(&mut self, key: &str, value: &str) {
        let entry = PropertyEntry { key: self.name(key), value: self.name(value) };
        self.push(&entry);
    }

    fn process_entry(&mut self, process: u32, record: &ProcessRecord) -> ProcessEntry {
        ProcessEntry {
            process,
            pid: record.pid,
            parent: record.parent.map_or(NONE_32, |parent| parent.0),
            exit_status: record.exit_status.unwrap_or(0),
            start_ns: record.start_ns,
            end_ns: record.end_ns.unwrap_or(NONE_64),
            exe: self.name(&record.exe),
            args: self.name(&record.args),
            flags: record.exit_status.is_some().into(),
        }
    }

    pub(crate) fn add_process(&mut self, record: &ProcessRecord) -> Option<ProcessId> {
        let process = u32::try_from(self.processes.len()).ok().filter(|&id| id != NONE_32)?;
        let entry = self.process_entry(process, record);
        self.push(&entry);
        self.processes.push(entry);
        Some(ProcessId(process))
    }

    pub(crate) fn update_process(&mut self, record: &ProcessRecord) {
        let process = record.process.0;
        if (process as usize) < self.processes.len() {
            let entry = self.process_entry(process, record);
            self.push(&entry);
            self.processes[process as usize] = entry;
        }
    }

    pub(crate) fn end_process(&mut self, process: ProcessId, end_ns: u64, exit_status: Option<i32>) {
        let Some(entry) = self.processes.get_mut(process.0 as usize) else { return };
        entry.end_ns = end_ns;
        entry.exit_status = exit_status.unwrap_or(0);
        entry.flags = exit_status.is_some().into();
        let entry = entry.clone();
        self.push(&entry);
    }

    pub(crate) fn add_thread(&mut self, record: &ThreadRecord) -> Option<ThreadId> {
        let thread = u32::try_from(self.threads.len()).ok().filter(|&id| id < MAX_THREADS).map(ThreadId)?;
        let record = ThreadRecord { thread, ..record.clone() };
        self.push(&record);
        self.threads.push(record);
        Some(thread)
    }

    pub(crate) fn end_thread(&mut self, thread: ThreadId, end_ns: u64) {
        let Some(record) = self.threads.get_mut(thread.0 as usize) else { return };
        record.end_ns = Some(end_ns);
        let record = record.clone();
        self.push(&record);
    }

    pub(crate) fn process_of(&self, thread: ThreadId) -> Option<ProcessId> {
        self.threads.get(thread.0 as usize).map(|record| record.process)
    }

    pub(crate) fn add_region(&mut self, event: &RegionEvent<impl AsRef<str>>) {
        let entry = RegionEntry {
            order: event.order,
            process: event.process.0,
            change: event.change,
            kind: event.kind,
            rights: event.rights,
            traced: event.traced,
            start: event.start,
            len: event.len,
            file_offset: event.file_offset,
            name: self.name(event.name.as_ref()),
        };
        self.push(&entry);
    }

    pub(crate) fn add_module(&mut self, record: &ModuleRecord) {
        let entry = ModuleEntry {
            process: record.process.0,
            order: record.order,
            base: record.base,
            len: record.len,
            path: self.name(&record.path),
            build_id: self.name(&record.build_id),
        };
        self.push(&entry);
    }

    pub(crate) fn add_counter(&mut self, record: &CounterRecord) {
        let entry = CounterEntry {
            process: record.process.0,
            thread: record.thread.map_or(NONE_32, |thread| thread.0),
            ip: record.ip,
            count: record.count,
            name: self.name(&record.name),
            code: record.code,
        };
        self.push(&entry);
    }

    /// Writes all that is buffered: names first, since the others refer to them. What fails is kept for the next try.
    pub(crate) fn flush(&mut self, sink: &dyn SegmentSink, options: &CreateOptions) -> Result<(), Error> {
        self.names.segment.write(sink, options, true)?;
        // In the order of the kinds, so that the same calls give the same file, and processes precede threads.
        for kind in StreamKind::ALL {
            if let Some(segment) = self.segments.get_mut(kind) {
                segment.write(sink, options, true)?;
            }
        }
        Ok(())
    }

    /// Flushes if a segment is full.
    pub(crate) fn flush_if_full(
        &mut self,
        sink: &dyn SegmentSink,
        options: &CreateOptions,
    ) -> Result<(), Error> {
        let full = |segment: &PendingSegment| segment.len() >= SEGMENT_ENTRIES;
        let full = full(&self.names.segment) || self.segments.values().any(full);
        if full { self.flush(sink, options) } else { Ok(()) }
    }
}

//! The session's tables: properties, processes, threads, regions, modules, counters.

use std::{collections::BTreeMap, sync::Arc};

use memref::{ProcessId, RegionEvent, ThreadId, VirtAddr};

use super::{
    damage::Damage,
    file::FrameError,
    stream::VarReader,
    trace::{Trace, TraceData},
};
use crate::{
    CounterRecord, Error, MAX_THREADS, ModuleRecord, ProcessRecord, StreamKind, ThreadRecord,
    entry::{CounterEntry, ModuleEntry, ProcessEntry, PropertyEntry, RegionEntry, StreamEntry},
};

/// The name that stands for one that was lost.
pub(crate) const LOST_NAME: &str = "<name lost>";

const NONE_32: u32 = u32::MAX;
const NONE_64: u64 = u64::MAX;

/// Resolves references into the stream of names. Each user has its own.
#[derive(Debug)]
pub(crate) struct NameReader {
    reader: VarReader,
}

impl NameReader {
    pub(crate) fn new(inner: &TraceData) -> Self {
        Self { reader: VarReader::new(inner.stream(StreamKind::Names, None)) }
    }

    /// The name, or `None` where it is lost.
    pub(crate) fn find(&mut self, inner: &TraceData, reference: u64) -> Result<Option<String>, Error> {
        if reference == NONE_64 {
            return Ok(Some(String::new()));
        }
        let bytes = self.reader.get(&inner.file, &inner.encoders, reference)?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// The name, or what stands for a lost one.
    pub(crate) fn get(&mut self, inner: &TraceData, reference: u64) -> Result<String, Error> {
        Ok(self.find(inner, reference)?.unwrap_or_else(|| LOST_NAME.into()))
    }
}

/// All readable entries of a session's stream.
pub(crate) fn all<E: StreamEntry>(inner: &TraceData, damage: &mut Vec<Damage>) -> Result<Vec<E>, Error> {
    let mut all = Vec::new();
    let Some(stream) = inner.stream(E::KIND, None) else { return Ok(all) };
    let mut block = Vec::new();
    for frame in &stream.frames {
        match stream.decode_entries(&inner.file, &inner.encoders, frame, &mut block) {
            Ok(()) => all.append(&mut block),
            Err(FrameError::Damaged(what)) => {
                let (offset, entries) = (frame.offset, frame.header.entries);
                damage.push(Damage::Frame { offset, stream: stream.number, entries, what });
            }
            Err(FrameError::Failed(error)) => return Err(error),
        }
    }
    Ok(all)
}

/// What is read when a trace is opened.
pub(crate) struct Tables {
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) processes: Vec<ProcessRecord>,
    pub(crate) threads: Vec<ThreadRecord>,
}

pub(crate) fn tables(inner: &Arc<TraceData>, damage: &mut Vec<Damage>) -> Result<Tables, Error> {
    let mut names = NameReader::new(inner);
    let mut properties = BTreeMap::new();
    for entry in all::<PropertyEntry>(inner, damage)? {
        // A key that is lost says nothing.
        if let Some(key) = names.find(inner, entry.key)? {
            properties.insert(key, names.get(inner, entry.value)?);
        }
    }
    let mut processes = BTreeMap::new();
    for entry in all::<ProcessEntry>(inner, damage)? {
        let process = ProcessId(entry.process);
        let record = ProcessRecord {
            process,
            pid: entry.pid,
            parent: (entry.parent != NONE_32).then_some(ProcessId(entry.parent)),
            start_ns: entry.start_ns,
            end_ns: (entry.end_ns != NONE_64).then_some(entry.end_ns),
            exit_status: (entry.flags & 1 != 0).then_some(entry.exit_status),
            exe: names.get(inner, entry.exe)?,
            args: names.get(inner, entry.args)?,
        };
        processes.insert(process, record);
    }
    let mut threads = BTreeMap::new();
    for record in
        all::<ThreadRecord>(inner, damage)?.into_iter().filter(|record| record.thread.0 < MAX_THREADS)
    {
        threads.insert(record.thread, record);
    }
    // Threads whose entry was lost but whose events are there.
    for stream in inner.streams.values() {
        if let (Some(thread), Some(process)) = (stream.description.thread, stream.description.process) {
            threads.entry(thread).or_insert_with(|| ThreadRecord { thread, process, ..Default::default() });
        }
    }
    for record in threads.values() {
        let process = record.process;
        processes.entry(process).or_insert_with(|| ProcessRecord { process, ..Default::default() });
    }
    let (processes, threads) = (processes.into_values().collect(), threads.into_values().collect());
    Ok(Tables { properties, processes, threads })
}

/// Counts of the same are summed up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CounterKey {
    process: u32,
    thread: u32,
    ip: VirtAddr,
    code: u32,
    name: u64,
}

impl Trace {
    /// The changes of the processes' mappings, ordered by `order`. Those in damaged frames are left out;
    /// [`Trace::damage_met`] names them then.
    pub fn regions(&self) -> Result<Vec<RegionEvent<String>>, Error> {
        let inner = &*self.inner;
        let mut names = NameReader::new(inner);
        let mut entries: Vec<RegionEntry> = all(inner, &mut Vec::new())?;
        entries.sort_by_key(|entry| entry.order);
        entries
            .into_iter()
            .map(|entry| {
                Ok(RegionEvent {
                    order: entry.order,
                    process: ProcessId(entry.process),
                    change: entry.change,
                    kind: entry.kind,
                    rights: entry.rights,
                    traced: entry.traced,
                    start: entry.start,
                    len: entry.len,
                    file_offset: entry.file_offset,
                    name: names.get(inner, entry.name)?,
                })
            })
            .collect()
    }

    /// The programs and libraries that processes loaded, ordered by `order`.
    pub fn modules(&self) -> Result<Vec<ModuleRecord>, Error> {
        let inner = &*self.inner;
        let mut names = NameReader::new(inner);
        let mut entries: Vec<ModuleEntry> = all(inner, &mut Vec::new())?;
        entries.sort_by_key(|entry| entry.order);
        entries
            .into_iter()
            .map(|entry| {
                Ok(ModuleRecord {
                    process: ProcessId(entry.process),
                    order: entry.order,
                    base: entry.base,
                    len: entry.len,
                    path: names.get(inner, entry.path)?,
                    build_id: names.get(inner, entry.build_id)?,
                })
            })
            .collect()
    }

    /// Counts by instruction, summed up, ordered by process, thread, instruction and code.
    pub fn counters(&self) -> Result<Vec<CounterRecord>, Error> {
        let inner = &*self.inner;
        let mut names = NameReader::new(inner);
        let mut sums: BTreeMap<CounterKey, u64> = BTreeMap::new();
        for entry in all::<CounterEntry>(inner, &mut Vec::new())? {
            let CounterEntry { process, thread, ip, code, name, .. } = entry;
            let key = CounterKey { process, thread, ip, code, name };
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(entry.count);
        }
        sums.into_iter()
            .map(|(CounterKey { process, thread, ip, code, name }, count)| {
                Ok(CounterRecord {
                    process: ProcessId(process),
                    thread: (thread != NONE_32).then_some(ThreadId(thread)),
                    ip,
                    code,
                    count,
                    name: names.get(inner, name)?,
                })
            })
            .collect()
    }
}

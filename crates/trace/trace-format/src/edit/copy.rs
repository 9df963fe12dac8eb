//! Copies a trace or a part of it, encoding it anew. Damaged parts are left out; what a thread loses by that becomes a gap in it.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use memref::{Access, Gap, GapReason, ProcessId, ThreadId, VirtAddr};

use super::output::CopiedStream;
use crate::{
    DataAccess, EntryFilter, Error, Filter, Interval, Level, SegmentSink, StreamDescription, StreamKind,
    Trace,
    entry::{REFERENCE, StreamEntry, VALUE_NONE, ValueEntry},
    reader::{FrameError, Stream, TraceData},
};

/// What to copy, and how.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Only events of these cycles.
    pub cycles: Option<Range<u64>>,
    /// Only events of segments that were recorded in this time, at least in part (ns since the Unix epoch).
    pub wall_ns: Option<Range<u64>>,
    /// Streams with these names are left out; names of earlier versions of the format stand for those of this one.
    pub drop: Vec<String>,
    /// Entries of a full segment.
    pub segment_entries: usize,
    /// How much time to spend on how many bytes.
    pub level: Level,
    /// The number of the encoder of accesses, if it is not to follow from `level`.
    pub encoder: Option<u32>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            cycles: None,
            wall_ns: None,
            drop: Vec::new(),
            segment_entries: 1 << 21,
            level: Level::Standard,
            encoder: None,
        }
    }
}

/// What a copy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Entries that were copied, of all streams.
    pub entries: u64,
    /// Entries that were damaged or missing, of all streams.
    pub lost: u64,
}

/// The streams of a thread or of the session, in the order in which they are written: what others refer to comes first.
fn rank(kind: Option<StreamKind>) -> usize {
    const FIRST: [StreamKind; 4] =
        [StreamKind::Names, StreamKind::ValuesData, StreamKind::Processes, StreamKind::Threads];
    let place = kind.and_then(|kind| FIRST.iter().position(|&first| first == kind));
    match kind {
        // Gaps are known when all others of a thread were read.
        Some(StreamKind::Gaps) => usize::MAX,
        _ => place.unwrap_or(FIRST.len()),
    }
}

/// Entries that are lost, the cycle at which they were, and why.
struct LostEntries {
    cycle: u64,
    count: u64,
    reason: GapReason,
}

struct Copy<'c> {
    inner: &'c TraceData,
    sink: &'c dyn SegmentSink,
    options: &'c CopyOptions,
    report: CopyReport,
    /// What each thread lost.
    losses: BTreeMap<ThreadId, Vec<LostEntries>>,
}

/// Copies a trace into a sink that has no stream yet, and does not close it.
pub fn copy(trace: &Trace, sink: &dyn SegmentSink, options: &CopyOptions) -> Result<CopyReport, Error> {
    let inner = trace.inner();
    let mut streams: Vec<&Arc<Stream>> = inner.streams.values().collect();
    streams.sort_by_key(|stream| (stream.description.thread, rank(stream.kind), stream.number));
    let dropped: Vec<&str> = options.drop.iter().map(|name| StreamKind::current_name(name)).collect();
    let mut copy = Copy { inner, sink, options, report: CopyReport::default(), losses: BTreeMap::new() };
    copy.lose_ends();
    for stream in streams {
        // Values go with their accesses; accesses are encoded anew, and need no definitions.
        let converted = matches!(stream.kind, Some(StreamKind::Values | StreamKind::BlockDefinitions));
        if converted || dropped.contains(&&*stream.description.name) {
            continue;
        }
        copy.stream(stream)?;
    }
    copy.remaining_losses(trace)?;
    Ok(copy.report)
}

impl Copy<'_> {
    fn description(&self, stream: &Stream) -> StreamDescription {
        let encoder = match stream.kind {
            Some(kind) => kind.encoder_for(self.options.level, self.options.encoder),
            None => stream.description.encoder,
        };
        StreamDescription { encoder, ..stream.description.clone() }
    }

    fn stream(&mut self, stream: &Stream) -> Result<(), Error> {
        let thread = stream.description.thread;
        let values = self.inner.stream(StreamKind::Values, thread);
        if stream.kind == Some(StreamKind::Accesses)
            && let Some(values) = values.filter(|_| thread.is_some())
        {
            return self.with_values(stream, &values);
        }
        let description = self.description(stream);
        let width = description.entry_type.entry_bytes as usize;
        let of_thread = thread.is_some() && !description.variable;
        let filter = Filter { cycles: self.options.cycles.clone(), ..Filter::default() };
        let filter = EntryFilter::new(&filter, &description.entry_type);
        let mut output = CopiedStream::new(self.sink, description, self.options.segment_entries);
        let (mut bytes, mut chosen) = (Vec::new(), Vec::new());
        if stream.kind == Some(StreamKind::Gaps) {
            return self.gaps(stream, output);
        }
        for place in 0..stream.frames.len() {
            let frame = &stream.frames[place];
            self.lose(stream, place, stream.missing_before(place));
            if stream.description.variable {
                output.fill_to(frame.header.first_index)?;
            }
            if of_thread && self.outside(frame.header.bounds.wall_ns) {
                continue;
            }
            match stream.decode(&self.inner.file, &self.inner.encoders, frame, &mut bytes) {
                Ok(()) => {}
                Err(FrameError::Damaged(_)) => {
                    self.lose(stream, place, frame.header.entries);
                    continue;
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
            let entries = if of_thread && !filter.takes_all() {
                chosen.clear();
                for entry in bytes.chunks_exact(width).filter(|entry| filter.matches(entry)) {
                    chosen.extend_from_slice(entry);
                }
                &chosen
            } else {
                &bytes
            };
            self.report.entries += (entries.len() / width) as u64;
            output.push(entries, frame.header.bounds.wall_ns)?;
        }
        output.finish(true)
    }

    fn outside(&self, wall_ns: Interval) -> bool {
        self.options.wall_ns.as_ref().is_some_and(|range| !wall_ns.meets(range))
    }

    /// Threads that had not ended when the trace ended early lack something, which nobody can count: a gap of one event at least.
    fn lose_ends(&mut self) {
        let cycles = self.options.cycles.clone().unwrap_or(0..u64::MAX);
        for (&thread, &cycle) in self.inner.cut_off.iter().filter(|(_, cycle)| cycles.contains(cycle)) {
            let lost = LostEntries { cycle, count: 1, reason: GapReason::Killed };
            self.losses.entry(thread).or_default().push(lost);
        }
    }

    /// Remembers entries that are lost at a frame.
    fn lose(&mut self, stream: &Stream, place: usize, count: u64) {
        if count == 0 {
            return;
        }
        self.report.lost = self.report.lost.saturating_add(count);
        let events = stream.kind.is_some_and(StreamKind::is_event);
        if let Some(thread) = stream.description.thread.filter(|_| events) {
            let cycle = stream.frames[place].header.bounds.cycles.min;
            let cycles = self.options.cycles.clone().unwrap_or(0..u64::MAX);
            if cycles.contains(&cycle) {
                self.losses.entry(thread).or_default().push(LostEntries {
                    cycle,
                    count,
                    reason: GapReason::DamagedFrame,
                });
            }
        }
    }

    /// Accesses whose values version 1 kept in a stream of their own.
    fn with_values(&mut self, stream: &Stream, values: &Stream) -> Result<(), Error> {
        let mut description = self.description(stream);
        description.entry_type = StreamKind::DataAccesses.entry_type();
        let mut output = CopiedStream::new(self.sink, description, self.options.segment_entries);
        let mut known: BTreeMap<u64, ValueEntry> = BTreeMap::new();
        let mut next = 0;
        let (mut block, mut value_block): (Vec<Access>, Vec<ValueEntry>) = (Vec::new(), Vec::new());
        for place in 0..stream.frames.len() {
            let frame = &stream.frames[place];
            self.lose(stream, place, stream.missing_before(place));
            match stream.decode_entries(&self.inner.file, &self.inner.encoders, frame, &mut block) {
                Ok(()) => {}
                Err(FrameError::Damaged(_)) => {
                    self.lose(stream, place, frame.header.entries);
                    continue;
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
            // Values come in the order of their accesses.
            while let Some(frame_of_values) = values.frames.get(next)
                && known.last_key_value().is_none_or(|(&last, _)| last < frame.header.end_index())
            {
                next += 1;
                let (file, encoders) = (&self.inner.file, &self.inner.encoders);
                match values.decode_entries(file, encoders, frame_of_values, &mut value_block) {
                    Ok(()) => known.extend(value_block.drain(..).map(|entry| (entry.index, entry))),
                    Err(FrameError::Damaged(_)) => self.report.lost += frame_of_values.header.entries,
                    Err(FrameError::Failed(error)) => return Err(error),
                }
            }
            known = known.split_off(&frame.header.first_index);
            let mut bytes = Vec::with_capacity(block.len() * StreamKind::DataAccesses.entry_bytes());
            let cycles = self.options.cycles.clone().unwrap_or(0..u64::MAX);
            for (index, access) in (frame.header.first_index..).zip(&block) {
                if !cycles.contains(&access.cycle) || self.outside(frame.header.bounds.wall_ns) {
                    continue;
                }
                let (value, value_bytes) = match known.get(&index) {
                    Some(entry) if entry.reference != VALUE_NONE => (entry.reference, REFERENCE),
                    Some(entry) => (entry.value, entry.len.min(8) as u8),
                    None => (0, 0),
                };
                DataAccess { access: *access, value, value_bytes }.put(&mut bytes);
                self.report.entries += 1;
            }
            output.push(&bytes, frame.header.bounds.wall_ns)?;
        }
        output.finish(true)
    }

    /// The gaps that the thread had, and those that it has now.
    fn gaps(&mut self, stream: &Stream, output: CopiedStream<'_>) -> Result<(), Error> {
        let mut gaps = Vec::new();
        let mut block: Vec<Gap> = Vec::new();
        for (place, frame) in stream.frames.iter().enumerate() {
            self.lose(stream, place, stream.missing_before(place));
            match stream.decode_entries(&self.inner.file, &self.inner.encoders, frame, &mut block) {
                Ok(()) => gaps.append(&mut block),
                Err(FrameError::Damaged(_)) => self.lose(stream, place, frame.header.entries),
                Err(FrameError::Failed(error)) => return Err(error),
            }
        }
        let cycles = self.options.cycles.clone().unwrap_or(0..u64::MAX);
        gaps.retain(|gap| cycles.contains(&gap.cycle));
        let (process, thread) = (stream.description.process, stream.description.thread);
        self.write_gaps(gaps, process, thread.unwrap_or_default(), output)
    }

    fn write_gaps(
        &mut self,
        mut gaps: Vec<Gap>,
        process: Option<ProcessId>,
        thread: ThreadId,
        mut output: CopiedStream<'_>,
    ) -> Result<(), Error> {
        for LostEntries { cycle, count, reason } in self.losses.remove(&thread).unwrap_or_default() {
            let (process, addr) = (process.unwrap_or_default(), VirtAddr(0));
            gaps.push(Gap { process, thread, cycle, count, reason, addr });
        }
        gaps.sort_by_key(|gap| gap.cycle);
        let mut bytes = Vec::new();
        for gap in &gaps {
            gap.put(&mut bytes);
        }
        self.report.entries += gaps.len() as u64;
        output.push(&bytes, Interval::NONE)?;
        output.finish(true)
    }

    /// Threads that had no gap so far.
    fn remaining_losses(&mut self, trace: &Trace) -> Result<(), Error> {
        let threads: Vec<ThreadId> = self.losses.keys().copied().collect();
        for thread in threads {
            let record = trace.thread(thread);
            // A thread that the trace does not know has no events that a reader would ask for.
            let Some(process) = record.map(|record| record.process) else { continue };
            let description = StreamDescription::of_kind(StreamKind::Gaps, Some((process, thread)));
            let output = CopiedStream::new(self.sink, description, self.options.segment_entries);
            self.write_gaps(Vec::new(), Some(process), thread, output)?;
        }
        Ok(())
    }
}

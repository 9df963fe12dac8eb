//! Verifies a whole trace: every checksum, and every invariant stated in docs/format.md.

use std::fmt;
use std::num::NonZero;

use memref::{Access, Allocation, BlockOp, Gap, OrderMark, Sync, ThreadId};

use super::{
    damage::Damage, definitions::each_definition, file::FrameError, session::NameReader, stream::Stream,
    trace::Trace,
};
use crate::{
    AccessCounts, Bounds, DataAccess, Error, StreamKind, ThreadRecord,
    directory::FrameRef,
    entry::{
        self, CounterEntry, MarkerEntry, ModuleEntry, ProcessEntry, PropertyEntry, RegionEntry, StreamEntry,
        VALUE_NONE, ValueEntry,
    },
    in_order::in_order,
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Something is damaged or missing.
    Damage(Damage),
    /// Checksums hold, but the content breaks a rule of the format.
    Invariant {
        /// The frame.
        offset: u64,
        /// Its stream.
        stream: u32,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::Invariant { offset, stream, what } => {
                write!(f, "offset {offset}: frame of stream {stream}: {what}")
            }
        }
    }
}

/// What [`Trace::check`] found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// All that is wrong, in the order of the file as far as it has one. Empty for a sound trace.
    pub findings: Vec<Finding>,
    /// Frames with entries that can be read.
    pub readable_frames: u64,
    /// Entries that can be read, of all streams.
    pub readable_entries: u64,
    /// Entries that are known to be lost, of all streams.
    pub lost_entries: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Frames that are checked at a time at most, however many cores there are: each is decoded as a whole.
const MOST_THREADS: usize = 4;

/// Checks frames, one after the other.
struct FrameCheck<'t> {
    trace: &'t Trace,
    names: NameReader,
    bytes: Vec<u8>,
    /// Of the present frame.
    growth: Growth,
}

/// The first and the last of the figures that must not decrease in a stream, nothing where a frame has none: cycles, or the numbers
/// of accesses.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    first: Option<u64>,
    last: Option<u64>,
}

/// What was found in one frame.
struct CheckedFrame {
    /// Why it can't be read; the rest is nothing then.
    read: Result<(), FrameError>,
    has_other_counts: bool,
    /// Whether its entries follow the rules.
    entries: Result<(), FrameError>,
    growth: Growth,
}

impl Trace {
    /// Reads and verifies everything. The error is that of the operating system, or of an unknown encoder; whatever
    /// is wrong with the trace is in the report.
    pub fn check(&self) -> Result<Report, Error> {
        let mut report = Report::default();
        let mut damage = self.damage.to_vec();
        let list = self.inner.file.scan()?;
        if self.closed
            && let Some(mut referenced) = self.inner.file.end_of_chain()?
        {
            referenced.sort_by_key(|frame| frame.offset);
            let known = |frame: &FrameRef| {
                let place = referenced.binary_search_by_key(&frame.offset, |other| other.offset);
                place.is_ok_and(|place| referenced[place] == *frame)
            };
            for frame in list.frames.iter().filter(|frame| !known(frame)) {
                let (offset, stream) = (frame.offset, frame.header.stream);
                let what = "no directory references it";
                report.findings.push(Finding::Invariant { offset, stream, what });
            }
        }
        damage.extend(list.damage);
        for stream in self.inner.streams.values() {
            self.check_stream(stream, &mut damage, &mut report)?;
        }
        damage.sort();
        damage.dedup();
        report.lost_entries = damage.iter().map(Damage::lost_entries).fold(0, u64::saturating_add);
        report.findings.splice(0..0, damage.into_iter().map(Finding::Damage));
        Ok(report)
    }

    fn check_stream(
        &self,
        stream: &Stream,
        damage: &mut Vec<Damage>,
        report: &mut Report,
    ) -> Result<(), Error> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let worker = || FrameCheck {
            trace: self,
            names: NameReader::new(&self.inner),
            bytes: Vec::new(),
            growth: Growth::default(),
        };
        let number = stream.number;
        let mut reached = None;
        let take = |place: usize, checked: CheckedFrame| -> Result<(), Error> {
            let frame = &stream.frames[place];
            let (offset, entries) = (frame.offset, frame.header.entries);
            match checked.read {
                Ok(()) => {}
                Err(FrameError::Damaged(what)) => {
                    let torn = Damage::Torn { offset, stream: number, entries };
                    if !damage.contains(&torn) {
                        damage.push(Damage::Frame { offset, stream: number, entries, what });
                    }
                    return Ok(());
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
            report.readable_frames += 1;
            report.readable_entries += entries;
            let mut found = |what| report.findings.push(Finding::Invariant { offset, stream: number, what });
            if checked.has_other_counts {
                found("its header counts other accesses than it has");
            }
            if let Some(first) = checked.growth.first
                && let Err(what) = follows(stream.kind, reached, first)
            {
                found(what);
                return Ok(());
            }
            reached = checked.growth.last.or(reached);
            match checked.entries {
                Ok(()) => Ok(()),
                Err(FrameError::Damaged(what)) => {
                    found(what);
                    Ok(())
                }
                Err(FrameError::Failed(error)) => Err(error),
            }
        };
        let make = |check: &mut FrameCheck<'_>, place: usize| check.frame(stream, &stream.frames[place]);
        in_order(stream.frames.len(), cores.min(MOST_THREADS), worker, make, take)
    }
}

/// Whether a figure may come after another one in a stream of that kind.
fn follows(kind: Option<StreamKind>, last: Option<u64>, next: u64) -> Result<(), &'static str> {
    match (kind, last) {
        (Some(StreamKind::Values), Some(last)) if next <= last => {
            Err("the access indices of its values do not grow")
        }
        (_, Some(last)) if next < last => Err("its cycles decrease"),
        _ => Ok(()),
    }
}

impl FrameCheck<'_> {
    fn frame(&mut self, stream: &Stream, frame: &FrameRef) -> CheckedFrame {
        let inner = &self.trace.inner;
        let mut bytes = std::mem::take(&mut self.bytes);
        self.growth = Growth::default();
        let read = stream.decode(&inner.file, &inner.encoders, frame, &mut bytes);
        let (mut has_other_counts, mut entries) = (false, Ok(()));
        if let (Ok(()), Some(kind)) = (&read, stream.kind) {
            let counted = frame.header.counts;
            let counts = counted.and_then(|_| AccessCounts::of(&stream.description.entry_type, &bytes));
            has_other_counts = counts != counted;
            entries = self.entries_of(kind, &bytes, &frame.header.bounds);
        }
        self.bytes = bytes;
        CheckedFrame { read, has_other_counts, entries, growth: self.growth }
    }

    fn entries_of(&mut self, kind: StreamKind, bytes: &[u8], bounds: &Bounds) -> Result<(), FrameError> {
        match kind {
            StreamKind::Accesses => self.cycles::<Access>(bytes, bounds, |entry| entry.cycle),
            StreamKind::DataAccesses => self.cycles::<DataAccess>(bytes, bounds, |entry| entry.access.cycle),
            StreamKind::BlockOps => self.cycles::<BlockOp>(bytes, bounds, |entry| entry.cycle),
            StreamKind::Allocations => self.cycles::<Allocation>(bytes, bounds, |entry| entry.cycle),
            StreamKind::Orders => self.cycles::<OrderMark>(bytes, bounds, |entry| entry.cycle),
            StreamKind::Syncs => self.cycles::<Sync>(bytes, bounds, |entry| entry.cycle),
            StreamKind::Gaps => {
                self.cycles::<Gap>(bytes, bounds, |entry| entry.cycle)?;
                self.each::<Gap>(bytes, bounds, |walk, entry| walk.thread(entry.thread))
            }
            StreamKind::Markers => {
                self.cycles::<MarkerEntry>(bytes, bounds, |entry| entry.cycle)?;
                self.each::<MarkerEntry>(bytes, bounds, |walk, entry| walk.name(entry.name))
            }
            StreamKind::Properties => self.each::<PropertyEntry>(bytes, bounds, |walk, entry| {
                walk.name(entry.key)?;
                walk.name(entry.value)
            }),
            StreamKind::Processes => self.each::<ProcessEntry>(bytes, bounds, |walk, entry| {
                walk.name(entry.exe)?;
                walk.name(entry.args)
            }),
            StreamKind::Threads => {
                self.each::<ThreadRecord>(bytes, bounds, |walk, entry| walk.process(entry.process.0))
            }
            StreamKind::Regions => self.each::<RegionEntry>(bytes, bounds, |walk, entry| {
                walk.process(entry.process)?;
                walk.name(entry.name)
            }),
            StreamKind::Modules => self.each::<ModuleEntry>(bytes, bounds, |walk, entry| {
                walk.process(entry.process)?;
                walk.name(entry.path)?;
                walk.name(entry.build_id)
            }),
            StreamKind::Counters => self.each::<CounterEntry>(bytes, bounds, |walk, entry| {
                walk.process(entry.process)?;
                walk.name(entry.name)
            }),
            StreamKind::Values => self.each::<ValueEntry>(bytes, bounds, |walk, entry| {
                walk.grow(StreamKind::Values, entry.index)?;
                if entry.reference == VALUE_NONE && entry.len > 8 {
                    return Err(FrameError::Damaged("a value is longer than the bytes that it has"));
                }
                Ok(())
            }),
            StreamKind::Pages
            | StreamKind::Found
            | StreamKind::FoundData
            | StreamKind::Tasks
            | StreamKind::GuestSymbols
            | StreamKind::Flow
            | StreamKind::BasicBlocks
            | StreamKind::Checkpoints
            | StreamKind::PageCells
            | StreamKind::IndexedFrames
            | StreamKind::PageTotals => Ok(()),
            StreamKind::BlockDefinitions => each_definition(bytes, |_, _| ())
                .ok_or(FrameError::Damaged("a definition of a block is malformed")),
            StreamKind::ValuesData | StreamKind::Names => {
                let blocks = bytes.chunks_exact(crate::var::BLOCK_BYTES);
                let sound = |block| crate::var::block(block).is_some();
                if blocks.into_iter().all(sound) {
                    Ok(())
                } else {
                    Err(FrameError::Damaged("a block of variable-sized data is malformed"))
                }
            }
        }
    }

    fn cycles<E: StreamEntry>(
        &mut self,
        bytes: &[u8],
        bounds: &Bounds,
        cycle: impl Fn(&E) -> u64,
    ) -> Result<(), FrameError> {
        self.each::<E>(bytes, bounds, |walk, entry| walk.grow(E::KIND, cycle(entry)))
    }

    /// The next of the figures that must not decrease.
    #[inline]
    fn grow(&mut self, kind: StreamKind, next: u64) -> Result<(), FrameError> {
        follows(Some(kind), self.growth.last, next).map_err(FrameError::Damaged)?;
        self.growth.first.get_or_insert(next);
        self.growth.last = Some(next);
        Ok(())
    }

    fn each<E: StreamEntry>(
        &mut self,
        bytes: &[u8],
        bounds: &Bounds,
        check: impl Fn(&mut Self, &E) -> Result<(), FrameError>,
    ) -> Result<(), FrameError> {
        let mut seen = Bounds::NONE;
        for entry in entry::entries_of::<E>(bytes) {
            let entry = entry.map_err(|corrupt| FrameError::Damaged(corrupt.0))?;
            entry.bound(&mut seen);
            check(self, &entry)?;
        }
        if bounds.hold(&seen) {
            Ok(())
        } else {
            Err(FrameError::Damaged("its header does not span its entries"))
        }
    }

    fn name(&mut self, reference: u64) -> Result<(), FrameError> {
        match self.names.find(&self.trace.inner, reference) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(FrameError::Damaged("a name that it refers to is not there")),
            Err(error) => Err(FrameError::Failed(error)),
        }
    }

    fn process(&self, process: u32) -> Result<(), FrameError> {
        let known = self.trace.processes.iter().any(|record| record.process.0 == process);
        if known { Ok(()) } else { Err(FrameError::Damaged("a process that it refers to is not there")) }
    }

    fn thread(&self, thread: ThreadId) -> Result<(), FrameError> {
        let known = self.trace.threads.iter().any(|record| record.thread == thread);
        if known { Ok(()) } else { Err(FrameError::Damaged("a thread that it refers to is not there")) }
    }
}

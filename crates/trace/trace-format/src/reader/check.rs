//! Verifies a whole trace: every checksum, and every invariant stated in docs/format.md.

use std::fmt;

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

/// What is carried from frame to frame of a stream.
struct StreamCheck<'t> {
    trace: &'t Trace,
    names: NameReader,
    cycle: u64,
    index: Option<u64>,
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
        let mut walk =
            StreamCheck { trace: self, names: NameReader::new(&self.inner), cycle: 0, index: None };
        let mut bytes = Vec::new();
        let number = stream.number;
        for frame in &stream.frames {
            let (offset, entries) = (frame.offset, frame.header.entries);
            let file = &self.inner.file;
            match stream.decode(file, &self.inner.encoders, frame, &mut bytes) {
                Ok(()) => {}
                Err(FrameError::Damaged(what)) => {
                    let torn = Damage::Torn { offset, stream: number, entries };
                    if !damage.contains(&torn) {
                        damage.push(Damage::Frame { offset, stream: number, entries, what });
                    }
                    continue;
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
            report.readable_frames += 1;
            report.readable_entries += entries;
            let Some(kind) = stream.kind else { continue };
            let counted = frame.header.counts;
            let counts = counted.and_then(|_| AccessCounts::of(&stream.description.entry_type, &bytes));
            if counts != counted {
                let what = "its header counts other accesses than it has";
                report.findings.push(Finding::Invariant { offset, stream: number, what });
            }
            match walk.entries_of(kind, &bytes, &frame.header.bounds) {
                Ok(()) => {}
                Err(FrameError::Damaged(what)) => {
                    report.findings.push(Finding::Invariant { offset, stream: number, what });
                }
                Err(FrameError::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl StreamCheck<'_> {
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
                if walk.index.replace(entry.index).is_some_and(|last| last >= entry.index) {
                    return Err(FrameError::Damaged("the access indices of its values do not grow"));
                }
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
        self.each::<E>(bytes, bounds, |walk, entry| {
            if cycle(entry) < walk.cycle {
                return Err(FrameError::Damaged("its cycles decrease"));
            }
            walk.cycle = cycle(entry);
            Ok(())
        })
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

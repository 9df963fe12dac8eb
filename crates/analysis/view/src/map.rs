//! What can be viewed of a trace: its processes with their axes, its
//! threads, what is missing, and the frames that tiles are made of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use analysis::machine::Machine;
use analysis::{Session, coverage, threads};
use memref::{ProcessId, ThreadId};
use report::heatmap::MapRegion;
use serde_json::{Value, json};
use symbols::Resolver;
use trace_format::{BuildStep, PageIndex, Trace};

use crate::axis::{AddressAxis, AxisRun};
use crate::blocks::{MapBlock, blocks, mapped_blocks};
use crate::clock::SharedClock;
use crate::error::Error;
use crate::frames::{MapFrames, PAGE_SHIFT};
use crate::held_locks::HeldLocks;
use crate::missing::{MissingStretch, missing};
use crate::part::TimeAxis;
use crate::physical::machine_regions;

/// A process as far as it can be seen.
#[derive(Debug)]
pub(crate) struct MappedProcess {
    pub(crate) axis: AddressAxis,
    /// That without memtap's own memory, where it has some.
    pub(crate) own_axis: Option<AddressAxis>,
    /// From the first to the last access of a thread of it.
    pub(crate) cycles: Range<u64>,
    /// The same in time, where the trace has it.
    pub(crate) times: Option<Range<u64>>,
    /// Loads, stores, modifies.
    pub(crate) counts: [u64; 3],
}

/// A trace with its index, ready to be drawn.
#[derive(Debug)]
pub struct TraceMap {
    pub(crate) session: Session,
    pub(crate) frames: MapFrames,
    pub(crate) processes: BTreeMap<ProcessId, MappedProcess>,
    /// The time of day, where the trace has it.
    pub(crate) clock: Option<SharedClock>,
    /// Accesses and cycles of each thread that has some.
    threads: BTreeMap<ThreadId, (u64, Range<u64>)>,
    missing: Vec<MissingStretch>,
    /// What is where in each process, as it was at its end.
    pub(crate) resolvers: Vec<Resolver>,
    /// Blocks of the heap, in the order in which they were allocated.
    pub(crate) blocks: Vec<MapBlock>,
    /// Source files that tables by line have named.
    pub(crate) listed_files: Mutex<BTreeSet<String>>,
    /// Whether it is a machine, of which physical memory is seen.
    pub(crate) is_machine: bool,
    /// When threads hold locks, of those that were asked for.
    pub(crate) held: Mutex<HashMap<(TimeAxis, ThreadId), Arc<HeldLocks>>>,
    /// Held by who replays all of the trace.
    pub(crate) replays: Mutex<()>,
    /// The file as it was opened.
    opened: Option<FileState>,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    len: u64,
    changed_ns: i64,
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            len: metadata.len(),
            changed_ns: metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec()),
        }
    }
}

impl TraceMap {
    /// Of a trace; builds its index where there is none that fits. `progress` is told of each frame that is read for that.
    ///
    /// # Errors
    /// Where it can't be read, has no accesses, or its index can't be written.
    pub fn new(session: Session, progress: &mut dyn FnMut(&BuildStep<'_>)) -> Result<Self, Error> {
        let machine = Machine::of(&session);
        let opened = std::fs::metadata(session.trace().path()).ok().map(|metadata| FileState::of(&metadata));
        let index = match PageIndex::open(session.trace()) {
            _ if machine.is_some() => None,
            Ok(index) => Some(index),
            Err(_) => Some(build(session.trace(), progress)?),
        };
        let frames = match &index {
            Some(index) => MapFrames::new(&session, index)?,
            None => MapFrames::of_machine(&session, progress)?,
        };
        let (mut resolvers, mut blocks) = (Vec::new(), Vec::new());
        let mut regions = match &machine {
            Some(machine) => machine_regions(&session, machine),
            None => {
                resolvers = session.indexed_pages()?.map(|indexed| indexed.resolvers).unwrap_or_default();
                blocks = self::blocks(&session)?;
                MapRegion::all(&resolvers)
            }
        };
        regions.extend(mapped_blocks(&blocks, &regions));
        let clock = SharedClock::of(session.trace())?;
        let processes = processes(&regions, index.as_ref(), &frames, clock.as_ref())?;
        let missing = missing(&session, &frames.frames)?;
        let mut threads: BTreeMap<ThreadId, (u64, Range<u64>)> = BTreeMap::new();
        for frame in &frames.frames {
            let counted: u64 = frame.cells.iter().flat_map(|cell| cell.counts).map(u64::from).sum();
            let (accesses, cycles) = threads.entry(frame.thread).or_insert((0, frame.cycles.clone()));
            *accesses += counted;
            *cycles = cycles.start.min(frame.cycles.start)..cycles.end.max(frame.cycles.end);
        }
        if processes.is_empty() {
            return Err(Error::Empty);
        }
        Ok(Self {
            session,
            frames,
            processes,
            clock,
            threads,
            missing,
            resolvers,
            blocks,
            is_machine: machine.is_some(),
            listed_files: Mutex::default(),
            held: Mutex::default(),
            replays: Mutex::default(),
            opened,
        })
    }

    /// The process that is seen first: the one with most accesses.
    pub(crate) fn main_process(&self) -> ProcessId {
        let busiest = self
            .processes
            .iter()
            .max_by_key(|(id, process)| (process.counts.iter().sum::<u64>(), std::cmp::Reverse(**id)));
        busiest.map(|(id, _)| *id).unwrap_or_default()
    }

    /// Accesses of a thread.
    pub(crate) fn accesses_of(&self, thread: ThreadId) -> u64 {
        self.threads.get(&thread).map_or(0, |(accesses, _)| *accesses)
    }

    /// Whether the file is another than the one that was opened, or has grown.
    pub(crate) fn is_changed(&self) -> bool {
        let trace = self.session.trace();
        if !trace.is_here() {
            return trace.bytes_now().is_ok_and(|bytes| bytes != trace.file_bytes());
        }
        let now = std::fs::metadata(trace.path()).ok();
        now.map(|metadata| FileState::of(&metadata)) != self.opened
    }

    /// All but the tiles, as JSON.
    pub(crate) fn json(&self) -> Value {
        let trace = self.session.trace();
        let name = trace.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let record = |id: ProcessId| trace.process(id);
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|(id, process)| {
                let [loads, stores, modifies] = process.counts;
                json!({
                    "process": id.0,
                    "pid": record(*id).map(|record| record.pid),
                    "exe": record(*id).map(|record| record.exe.as_str()),
                    "args": record(*id).map(|record| record.args.as_str()),
                    "from": process.cycles.start,
                    "to": process.cycles.end,
                    "times": process.times.as_ref().map(|times| [times.start, times.end]),
                    "loads": loads,
                    "stores": stores,
                    "modifies": modifies,
                    "units": process.axis.units,
                    "runs": self.runs_json(&process.axis),
                    // Without memtap's own memory, where it has some.
                    "own_axis": process.own_axis.as_ref().map(
                        |axis| json!({"units": axis.units, "runs": self.runs_json(axis)})
                    ),
                })
            })
            .collect();
        let threads: Vec<Value> = trace
            .threads()
            .iter()
            .filter_map(|record| {
                let (accesses, cycles) = self.threads.get(&record.thread)?;
                Some(json!({
                    "thread": record.thread.0,
                    "process": record.process.0,
                    "tid": record.tid,
                    "accesses": accesses,
                    "from": cycles.start,
                    "to": cycles.end,
                    "times": self.clock.as_ref().and_then(|clock| clock.points(record.thread)),
                }))
            })
            .collect();
        json!({
            "name": name,
            "coverage": coverage(&self.session),
            "machine": self.is_machine,
            "closed": trace.closed(),
            "damaged": report::shortfall(trace),
            "parts": self.frames.frames.len(),
            "shown_first": self.main_process().0,
            "processes": processes,
            "threads": threads,
            "missing": self.missing.iter().map(|stretch| self.missing_json(stretch)).collect::<Vec<_>>(),
        })
    }
}

impl TraceMap {
    fn missing_json(&self, stretch: &MissingStretch) -> Value {
        let mut json = stretch.json();
        if self.clock.is_some() {
            let Range { start, end } = self.stretch(TimeAxis::Time, stretch.thread, &stretch.cycles);
            json["times"] = json!([start, end]);
        }
        json
    }

    fn runs_json(&self, axis: &AddressAxis) -> Vec<Value> {
        let run = |run: &AxisRun| {
            json!({
                "start": format!("{:#x}", run.start),
                "bytes": run.len,
                "at": run.at,
                "units": run.units,
                "name": run.name,
                // What is physical is of no kind that a program has.
                "kind": (!self.is_machine).then_some(&run.kind),
            })
        };
        axis.runs.iter().map(run).collect()
    }
}

impl MappedProcess {
    /// The axis of a picture.
    pub(crate) fn axis_of(&self, hides_tracer: bool) -> &AddressAxis {
        self.own_axis.as_ref().filter(|_| hides_tracer).unwrap_or(&self.axis)
    }
}

/// The index of a trace that has none: beside it, where that is possible.
fn build(trace: &Trace, progress: &mut dyn FnMut(&BuildStep<'_>)) -> Result<PageIndex, trace_format::Error> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    if trace.is_here() {
        match PageIndex::build(trace, threads(), progress) {
            Err(trace_format::Error::Io { source, .. })
                if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) => {}
            built => return built,
        }
    }
    PageIndex::build_apart(trace, threads(), progress)
}

/// Pages that were accessed, as sorted and disjoint ranges of bytes.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn pages(page: u64, shift: u8) -> Range<u64> {
    page.saturating_mul(1 << shift)..page.saturating_add(1).saturating_mul(1 << shift)
}

fn processes(
    regions: &[MapRegion],
    index: Option<&PageIndex>,
    frames: &MapFrames,
    clock: Option<&SharedClock>,
) -> Result<BTreeMap<ProcessId, MappedProcess>, Error> {
    let mut touched: BTreeMap<ProcessId, Vec<Range<u64>>> = BTreeMap::new();
    match index.map(PageIndex::totals).transpose().map_err(Error::NoIndex)?.flatten() {
        Some(totals) => {
            for total in totals {
                touched.entry(total.process).or_default().push(pages(total.page, PAGE_SHIFT));
            }
        }
        // Of more pages than it has totals of, the frames' own, which are larger.
        None => {
            for frame in &frames.frames {
                let ranges = touched.entry(frame.process).or_default();
                ranges.extend(frame.cells.iter().map(|cell| pages(cell.page, frame.shift)));
                if ranges.len() > 1 << 22 {
                    *ranges = joined(std::mem::take(ranges));
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    for (process, ranges) in touched {
        let regions: Vec<MapRegion> =
            regions.iter().filter(|region| region.process == process).cloned().collect();
        let axis = AddressAxis::new(&joined(ranges), &regions);
        let (mut first, mut end) = (u64::MAX, 0);
        let mut counts = [0; 3];
        for frame in frames.frames.iter().filter(|frame| frame.process == process) {
            (first, end) = (first.min(frame.cycles.start), end.max(frame.cycles.end));
            for cell in &frame.cells {
                for (count, more) in counts.iter_mut().zip(cell.counts) {
                    *count += u64::from(more);
                }
            }
        }
        if !axis.runs.is_empty() && first < end {
            let own_axis = axis.without_tracer();
            let times =
                clock.map(|clock| clock.span(frames.frames.iter().filter(|frame| frame.process == process)));
            all.insert(process, MappedProcess { axis, own_axis, cycles: first..end, times, counts });
        }
    }
    Ok(all)
}

//! Builds an index: every frame of accesses is decoded once, on all cores, and its cells are written in the order of the frames.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memref::{Access, ProcessId};

use super::{
    MOST_TOTALS, PROPERTY_KEY, PROPERTY_TOTALS, PROPERTY_VERSION, PageCell, PageIndex, PageTotal,
    SEGMENT_ENTRIES, VERSION,
    cells::{CellTable, FrameCells},
    entry::{IndexedFrame, PAGE_SHIFT},
};
use crate::{
    CreateOptions, Encoders, Error, FileSink, FileStorage, Guid, Interval, Limits, StreamDescription,
    StreamKind, SyncPolicy, Trace, TraceWriter, TypedWriter,
    directory::FrameRef,
    in_order::in_order,
    reader::{FrameError, Stream},
};

/// One more frame of an index that is being built.
#[derive(Clone, Copy, Debug)]
pub struct BuildStep<'a> {
    /// Frames that are counted.
    pub done: usize,
    /// Frames that there are.
    pub all: usize,
    /// Whose accesses it has.
    pub process: ProcessId,
    /// Their cycles.
    pub cycles: Interval,
    /// Cycles of all frames of the process.
    pub whole: Interval,
    /// Its pages of 4,096 bytes; none where it can't be decoded.
    pub cells: &'a [PageCell],
}

/// A frame that is to be indexed.
struct Job {
    stream: Arc<Stream>,
    frame: FrameRef,
    process: ProcessId,
}

/// What a worker made of a frame: its pages of 4,096 bytes, unless it can't be decoded.
type CountedFrame = Result<Option<FrameCells>, Error>;

/// Counts over the whole trace.
#[derive(Default)]
struct TotalsByPage {
    pages: HashMap<(ProcessId, u64), ([u64; 3], u64)>,
    /// There were too many.
    given_up: bool,
}

impl TotalsByPage {
    fn add(&mut self, process: ProcessId, cells: &[PageCell]) {
        if self.given_up {
            return;
        }
        for cell in cells.iter().filter(|cell| cell.counts != [0; 3]) {
            let total = self.pages.entry((process, cell.page)).or_default();
            for (count, more) in total.0.iter_mut().zip(cell.counts) {
                *count += u64::from(more);
            }
            total.1 += cell.bytes;
        }
        if self.pages.len() > MOST_TOTALS {
            *self = Self { pages: HashMap::new(), given_up: true };
        }
    }

    fn sorted(self) -> Vec<PageTotal> {
        let pages = self.pages.into_iter();
        let mut all: Vec<PageTotal> = pages
            .map(|((process, page), (counts, bytes))| PageTotal { process, page, counts, bytes })
            .collect();
        all.sort_unstable_by_key(|total| (total.process, total.page));
        all
    }
}

/// The three streams of the file.
struct IndexOutput {
    writer: TraceWriter,
    cells: TypedWriter,
    frames: TypedWriter,
    next_cell: u64,
}

impl IndexOutput {
    fn create(sink: FileSink, options: CreateOptions, key: u64) -> Result<Self, Error> {
        let writer = TraceWriter::on_sink(Arc::new(sink), options);
        writer.set_property(PROPERTY_VERSION, VERSION)?;
        writer.set_property(PROPERTY_KEY, &format!("{key:016x}"))?;
        let stream = |kind| writer.typed(StreamDescription::of_kind(kind, None), SEGMENT_ENTRIES);
        let (cells, frames) = (stream(StreamKind::PageCells), stream(StreamKind::IndexedFrames));
        Ok(Self { writer, cells, frames, next_cell: 0 })
    }

    fn push(&mut self, job: &Job, counted: Option<FrameCells>) -> Result<(), Error> {
        let unreadable = counted.is_none();
        let FrameCells { shift, cells, wide } = counted.unwrap_or_default();
        for cell in &cells {
            self.cells.push(0, &cell.to_bytes())?;
        }
        let frame = IndexedFrame {
            stream: job.stream.number,
            sequence: job.frame.header.sequence,
            shift,
            unreadable,
            first_cell: self.next_cell,
            cells: cells.len() as u16,
            entries: job.frame.header.entries,
            wide,
        };
        self.next_cell += cells.len() as u64;
        self.frames.push(0, &frame.to_bytes())
    }

    fn finish(mut self, totals: TotalsByPage) -> Result<(), Error> {
        self.cells.flush()?;
        self.frames.flush()?;
        if totals.given_up {
            self.writer.set_property(PROPERTY_TOTALS, "none")?;
        }
        let description = StreamDescription::of_kind(StreamKind::PageTotals, None);
        let mut stream = self.writer.typed(description, SEGMENT_ENTRIES);
        for total in totals.sorted() {
            stream.push(0, &total.to_bytes())?;
        }
        stream.flush()?;
        self.writer.finish()
    }
}

/// The frames of accesses, in the order in which the index has them.
fn jobs(trace: &Trace) -> Vec<Job> {
    let process = |stream: &Stream| {
        let record = stream.description.thread.and_then(|thread| trace.thread(thread));
        record.map(|record| record.process).or(stream.description.process).unwrap_or_default()
    };
    let mut jobs = Vec::new();
    for stream in trace.inner().access_streams() {
        let process = process(stream);
        jobs.extend(stream.frames.iter().map(|&frame| Job { stream: stream.clone(), frame, process }));
    }
    jobs
}

impl Default for FrameCells {
    fn default() -> Self {
        Self { shift: PAGE_SHIFT, cells: Vec::new(), wide: Interval::NONE }
    }
}

/// What a worker keeps from frame to frame.
#[derive(Default)]
struct Worker {
    table: CellTable,
}

impl Worker {
    fn count(&mut self, trace: &Trace, job: &Job) -> CountedFrame {
        let inner = trace.inner();
        let Job { stream, frame, .. } = job;
        let mut add = |accesses: &[Access]| self.table.add(accesses);
        let counted = stream.each_access(&inner.file, &inner.encoders, frame, &mut add);
        let cells = self.table.take();
        match counted {
            Ok(()) => Ok(Some(cells)),
            Err(FrameError::Damaged(_)) => Ok(None),
            Err(FrameError::Failed(error)) => Err(error),
        }
    }
}

impl PageIndex {
    /// Builds the index of a trace on that many threads and puts it beside the trace; one that is there is replaced when the new one is
    /// complete. `progress` is told of each frame.
    ///
    /// # Errors
    /// Where the trace can't be read, the index can't be written, or the trace lies on another machine.
    pub fn build(
        trace: &Trace,
        threads: usize,
        progress: &mut dyn FnMut(&BuildStep<'_>),
    ) -> Result<Self, Error> {
        let path = Self::path(trace.path());
        if !trace.inner().file.is_here() {
            let what = "lies elsewhere, so no page index can be put beside it; build it where the trace lies";
            return Err(Error::Remote { path: trace.path().into(), what: what.to_owned() });
        }
        let unfinished = unfinished(&path);
        let sink = FileSink::create(&unfinished, options(trace));
        let written = sink.and_then(|sink| write(trace, threads, sink, progress)).and_then(|()| {
            std::fs::rename(&unfinished, &path).map_err(|source| Error::Io {
                path: path.clone(),
                operation: "replace the index",
                offset: 0,
                source,
            })
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        written?;
        Self::open(trace).map_err(|none| Error::Index { path, what: none.to_string() })
    }

    /// As [`Self::build`], in a file without a name, which is kept as long as the trace is open: beside a trace on another machine, or
    /// in a directory of somebody else, nothing can be put.
    ///
    /// # Errors
    /// Where the trace can't be read, or the index can't be written.
    pub fn build_apart(
        trace: &Trace,
        threads: usize,
        progress: &mut dyn FnMut(&BuildStep<'_>),
    ) -> Result<Self, Error> {
        let failed = |source| Error::Io {
            path: std::env::temp_dir(),
            operation: "make a file for the page index",
            offset: 0,
            source,
        };
        let path = Self::path(trace.path());
        let file = tempfile::tempfile().map_err(failed)?;
        let storage = Box::new(FileStorage(file.try_clone().map_err(failed)?));
        write(trace, threads, FileSink::create_on(storage, &path, options(trace))?, progress)?;
        let built = Trace::open_on(Box::new(file), &path, Encoders::default(), Limits::default())?;
        // Another one that was built meanwhile is as good.
        let _first = trace.inner().index.built.set(built);
        Self::open(trace).map_err(|none| Error::Index { path, what: none.to_string() })
    }
}

/// How an index is written: the same bytes for the same trace.
fn options(trace: &Trace) -> CreateOptions {
    let half = trace.inner().key.to_le_bytes();
    CreateOptions {
        force: true,
        session: Some(Guid(std::array::from_fn(|at| half[at % 8]))),
        clock: || 0,
        sync: SyncPolicy::Never,
        ..CreateOptions::default()
    }
}

/// Where an index is until it is complete: beside its place, so that it can be renamed.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

fn write(
    trace: &Trace,
    threads: usize,
    sink: FileSink,
    progress: &mut dyn FnMut(&BuildStep<'_>),
) -> Result<(), Error> {
    let jobs = jobs(trace);
    let mut whole: HashMap<ProcessId, Interval> = HashMap::new();
    for job in &jobs {
        whole.entry(job.process).or_insert(Interval::NONE).join(job.frame.header.bounds.cycles);
    }
    let mut output = IndexOutput::create(sink, options(trace), trace.inner().key)?;
    let mut totals = TotalsByPage::default();
    in_order(
        jobs.len(),
        threads,
        Worker::default,
        |worker, number| worker.count(trace, &jobs[number]),
        |number, counted| {
            let mut counted = counted?;
            let job = &jobs[number];
            progress(&BuildStep {
                done: number + 1,
                all: jobs.len(),
                process: job.process,
                cycles: job.frame.header.bounds.cycles,
                whole: whole.get(&job.process).copied().unwrap_or(Interval::NONE),
                cells: counted.as_ref().map_or(&[], |counted| &counted.cells),
            });
            if let Some(cells) = &mut counted {
                totals.add(job.process, &cells.cells);
                cells.coarsen();
            }
            output.push(job, counted)
        },
    )?;
    output.finish(totals)
}

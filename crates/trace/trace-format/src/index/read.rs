//! An existing index: finding it, validating it, and querying it.

use std::fmt::{self, Display};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use memref::VirtAddr;

use super::{
    MOST_CELLS, PROPERTY_KEY, PROPERTY_TOTALS, PROPERTY_VERSION, PageCell, PageTotal, SEGMENT_ENTRIES,
    VERSION,
    cells::lines_between,
    entry::{ENTRY_BYTES, IndexedFrame, PAGE_SHIFT},
};
use crate::{
    Damage, Encoders, Filter, KindSet, Limits, StreamKind, Trace, reader::Stream, reader::TraceData,
};

/// Lines of a page.
const LINES: u64 = 64;

/// Why there is no index that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoIndex {
    /// There is none.
    Absent,
    /// It was made of another trace, or of this one when it was another.
    OfAnother,
    /// It is damaged, or not what this version writes.
    Damaged(String),
}

impl fmt::Display for NoIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no index"),
            Self::OfAnother => f.write_str("the index was made of another state of the trace"),
            Self::Damaged(what) => write!(f, "the index is damaged: {what}"),
        }
    }
}

/// An index whose trace is open.
#[derive(Clone, Debug)]
pub struct PageIndex {
    file: Trace,
    frames: Vec<IndexedFrame>,
}

/// Cells in memory, for filters.
#[derive(Debug)]
pub(crate) struct LoadedCells {
    frames: Vec<IndexedFrame>,
    cells: Vec<PageCell>,
}

/// Where the index of a trace is looked for, once, by whoever needs it first.
#[derive(Debug, Default)]
pub(crate) struct IndexPlace {
    /// One that was built of a trace beside which nothing can be put.
    pub(super) built: OnceLock<Trace>,
    loaded: OnceLock<Option<LoadedCells>>,
}

fn damaged<T>(what: &str) -> Result<T, NoIndex> {
    Err(NoIndex::Damaged(what.to_owned()))
}

/// All entries of one of the three streams, of which there may be `most`.
fn entries<T>(
    file: &Trace,
    kind: StreamKind,
    most: u64,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, NoIndex> {
    let mut all = Vec::new();
    let Some(mut cursor) = file.typed(kind, None) else { return Ok(all) };
    while let Some((_, indices)) = cursor.peek() {
        // Before anything is allocated.
        if indices.end > most || indices.end - indices.start > SEGMENT_ENTRIES as u64 {
            return damaged("it has more entries than its trace allows");
        }
        let frame = match cursor.next_frame() {
            Ok(Some(frame)) if frame.first_index == all.len() as u64 => frame,
            Ok(_) => return damaged("a part of it can't be read"),
            Err(error) => return damaged(&error.to_string()),
        };
        for entry in frame.bytes.chunks_exact(ENTRY_BYTES) {
            match read(entry) {
                Some(entry) => all.push(entry),
                None => return damaged("an entry has a number that stands for nothing"),
            }
        }
    }
    if cursor.lost() > 0 { damaged("a part of it can't be read") } else { Ok(all) }
}

impl PageIndex {
    /// What is added to the trace's name.
    pub const SUFFIX: &str = ".mtx";

    /// Where the index of a trace lies.
    pub fn path(trace: &Path) -> PathBuf {
        let mut name = trace.as_os_str().to_owned();
        name.push(Self::SUFFIX);
        name.into()
    }

    /// The index of a trace, if there is one that was made of it as it is now.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn open(trace: &Trace) -> Result<Self, NoIndex> {
        Self::open_beside(trace.inner())
    }

    fn open_beside(trace: &TraceData) -> Result<Self, NoIndex> {
        let unreadable = |error: &dyn Display| NoIndex::Damaged(error.to_string());
        if let Some(built) = trace.index.built.get() {
            return Self::of(trace, built.clone());
        }
        let source = trace.file.beside(Self::SUFFIX).map_err(|error| unreadable(&error))?;
        let path = Self::path(&trace.file.path);
        let open = |source| Trace::open_on(source, path, Encoders::default(), Limits::default());
        let file = source.map(open).ok_or(NoIndex::Absent)?;
        Self::of(trace, file.map_err(|error| unreadable(&error))?)
    }

    /// Takes an open file for the index of a trace.
    ///
    /// # Errors
    /// Says why it is none.
    pub fn of_file(trace: &Trace, file: Trace) -> Result<Self, NoIndex> {
        Self::of(trace.inner(), file)
    }

    fn of(trace: &TraceData, file: Trace) -> Result<Self, NoIndex> {
        if !file.closed() || !file.damage().is_empty() {
            return damaged("a part of it is missing");
        }
        let property = |key| file.properties().get(key).map_or("", String::as_str);
        if property(PROPERTY_VERSION) != VERSION {
            return damaged("this memtap reads version 1 of the index alone");
        }
        if property(PROPERTY_KEY) != format!("{:016x}", trace.key) {
            return Err(NoIndex::OfAnother);
        }
        let count: usize = trace.access_streams().map(|stream| stream.frames.len()).sum();
        let frames = entries(&file, StreamKind::IndexedFrames, count as u64, IndexedFrame::from_bytes)?;
        let expected = trace.access_streams().flat_map(|stream| {
            stream.frames.iter().map(|frame| (stream.number, frame.header.sequence, frame.header.entries))
        });
        if !frames.iter().map(|frame| (frame.stream, frame.sequence, frame.entries)).eq(expected) {
            return damaged("it does not have the frames of its trace");
        }
        let mut next = 0;
        for frame in &frames {
            if frame.first_cell != next {
                return damaged("its cells do not follow each other");
            }
            next += u64::from(frame.cells);
        }
        let of_trace = trace.access_streams().flat_map(|stream| &stream.frames);
        for (indexed, frame) in frames.iter().zip(of_trace).filter(|(indexed, _)| indexed.unreadable) {
            let (offset, stream, entries) = (frame.offset, indexed.stream, indexed.entries);
            let what = "it could not be read when its index was built";
            trace.file.met.note(Damage::Frame { offset, stream, entries, what });
        }
        Ok(Self { file, frames })
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        self.file.file_bytes()
    }

    /// Frames that it knows, and of these the ones that could not be read when it was built.
    pub fn frames(&self) -> (usize, usize) {
        (self.frames.len(), self.frames.iter().filter(|frame| frame.unreadable).count())
    }

    /// Frames whose pages are larger than 4,096 bytes.
    pub fn coarse_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.shift > PAGE_SHIFT).count()
    }

    /// Entries of frames that could not be read when it was built: its answers do not have them.
    pub fn unreadable_entries(&self) -> u64 {
        self.frames.iter().filter(|frame| frame.unreadable).map(|frame| frame.entries).sum()
    }

    /// Counts of the whole trace by process and page, in this order; `None` where there were too many pages.
    ///
    /// # Errors
    /// Where the index is not what it should be: it must be built anew.
    pub fn totals(&self) -> Result<Option<Vec<PageTotal>>, NoIndex> {
        if self.file.properties().contains_key(PROPERTY_TOTALS) {
            return Ok(None);
        }
        let most = super::MOST_TOTALS as u64;
        let totals = entries(&self.file, StreamKind::PageTotals, most, PageTotal::from_bytes)?;
        if !totals.is_sorted_by(|a, b| (a.process, a.page) < (b.process, b.page)) {
            return damaged("its pages are not in order");
        }
        Ok(Some(totals))
    }

    fn load(self) -> Result<LoadedCells, NoIndex> {
        let most = (self.frames.len() * MOST_CELLS) as u64;
        let cells = entries(&self.file, StreamKind::PageCells, most, PageCell::from_bytes)?;
        let end = self.frames.last().map_or(0, |frame| frame.first_cell + u64::from(frame.cells));
        if cells.len() as u64 != end {
            return damaged("a part of it is missing");
        }
        let loaded = LoadedCells { frames: self.frames, cells };
        let sorted = |frame: &IndexedFrame| {
            let cells = loaded.of(frame);
            cells.is_sorted_by(|a, b| a.page < b.page)
                && cells.last().is_none_or(|last| last.page <= u64::MAX >> frame.shift)
        };
        if loaded.frames.iter().all(sorted) { Ok(loaded) } else { damaged("its pages are not in order") }
    }

    /// How many frames may have an access that a filter by address and kind asks for.
    ///
    /// # Errors
    /// Where the index is not what it should be: it must be built anew.
    pub fn frames_touching(&self, filter: &Filter) -> Result<usize, NoIndex> {
        let loaded = self.clone().load()?;
        Ok(loaded.frames.iter().filter(|frame| loaded.may_touch(frame, filter)).count())
    }

    /// The cells of each frame, in the order of streams and frames: bits of its pages' size, and its pages.
    ///
    /// # Errors
    /// Where the index is not what it should be: it must be built anew.
    pub fn cells(&self) -> Result<Vec<(u8, Vec<PageCell>)>, NoIndex> {
        let loaded = self.clone().load()?;
        Ok(loaded.frames.iter().map(|frame| (frame.shift, loaded.of(frame).to_vec())).collect())
    }
}

impl LoadedCells {
    fn of(&self, frame: &IndexedFrame) -> &[PageCell] {
        let first = frame.first_cell as usize;
        self.cells.get(first..first + usize::from(frame.cells)).unwrap_or(&[])
    }

    /// Whether a frame may have an access that touches one of the addresses and is of one of the kinds.
    fn may_touch(&self, frame: &IndexedFrame, filter: &Filter) -> bool {
        let reads = KindSet(KindSet::READS.0 | 1 << 3).intersects(filter.kinds);
        let writes = KindSet::WRITES.intersects(filter.kinds);
        let lines = |cell: &PageCell| {
            (if reads { cell.read_lines } else { 0 }) | (if writes { cell.written_lines } else { 0 })
        };
        let touched = |range: &Range<VirtAddr>| {
            let (first, end) = (range.start.0, range.end.0);
            if first >= end {
                return false;
            }
            if frame.wide.meets(&(first..end)) {
                return true;
            }
            let last = end - 1;
            let line_shift = frame.shift - 6;
            let cells = self.of(frame);
            let start = cells.partition_point(|cell| cell.page < first >> frame.shift);
            let cells = cells[start..].iter().take_while(|cell| cell.page <= last >> frame.shift);
            cells.into_iter().any(|cell| {
                let from = (first >> line_shift).saturating_sub(cell.page * LINES).min(LINES - 1);
                let to = (last >> line_shift).saturating_sub(cell.page * LINES).min(LINES - 1);
                lines(cell) & lines_between(from, to) != 0
            })
        };
        frame.unreadable || filter.addresses.iter().any(touched)
    }
}

impl IndexPlace {
    /// Whether a frame of accesses may have what a filter by address asks for; `true` where no index says otherwise.
    pub(crate) fn may_match(
        &self,
        trace: &TraceData,
        stream: &Stream,
        place: usize,
        filter: &Filter,
    ) -> bool {
        if filter.addresses.is_empty() {
            return true;
        }
        let loaded = self.loaded.get_or_init(|| PageIndex::open_beside(trace).and_then(PageIndex::load).ok());
        let Some(loaded) = loaded else { return true };
        let first = loaded.frames.partition_point(|frame| frame.stream < stream.number);
        match loaded.frames.get(first + place) {
            Some(frame) if frame.stream == stream.number => loaded.may_touch(frame, filter),
            _ => true,
        }
    }
}

impl Trace {
    /// The index beside the trace, if there is one that was made of it as it is now.
    pub fn page_index(&self) -> Option<PageIndex> {
        PageIndex::open(self).ok()
    }
}

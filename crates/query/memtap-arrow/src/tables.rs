//! An open trace as tables.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analysis::Session;
use arrow_array::RecordBatch;
use trace_format::Filter;

use crate::access_rows::{AccessRows, PlacedAccesses, is_named};
use crate::in_context::{RowsInContext, is_in_context};
use crate::kept::Kept;
use crate::named_places::NamedPlaces;
use crate::parts::{FramePlan, ScanPart, cut};
use crate::{Error, Scan, TraceTable, events, figures, metadata};

/// What readers should know of traces.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// One line each.
    pub words: Vec<String>,
    /// Whether a trace is damaged or was not closed.
    pub is_damaged: bool,
}

/// An open trace as tables. Cheap to clone; clones can be read at the same time.
///
/// ```no_run
/// use memtap_arrow::{Scan, TraceTable, TraceTables};
///
/// # fn main() -> Result<(), memtap_arrow::Error> {
/// let tables = TraceTables::open("run.memtap".as_ref(), &[])?;
/// let scan = Scan { projection: Some(vec![2, 7]), ..Scan::of(TraceTable::Accesses) };
/// for part in tables.parts(&scan, 8) {
///     tables.read(&scan, &part, &mut |batch| {
///         println!("{} accesses, with cycles and variables", batch.num_rows());
///         true
///     })?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TraceTables {
    session: Session,
    places: Arc<Kept<NamedPlaces>>,
}

impl TraceTables {
    /// Opens a trace by its path, or by its address in an object store. Files that its names come from are looked for in these directories,
    /// too.
    ///
    /// # Errors
    /// Where it can't be read or is none.
    pub fn open(path: &Path, symbols: &[PathBuf]) -> Result<Self, Error> {
        Ok(Self { session: Session::of(object_traces::open(path)?, symbols)?, places: Arc::default() })
    }

    /// The trace and its names.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.session.trace().path()
    }

    /// Its address, where it is in an object store.
    pub fn address(&self) -> Option<&str> {
        self.path().to_str().filter(|_| object_traces::is_address(self.path()))
    }

    /// What is missing of the recording and of what was read so far.
    pub fn problems(&self) -> Problems {
        let trace = self.session.trace();
        let path = trace.path().display();
        let mut problems = Problems::default();
        if !trace.closed() {
            problems.is_damaged = true;
            problems.words.push(format!("{path}: was not closed; its end may be missing"));
        }
        let damage = trace.damage().len() + trace.damage_met().len();
        if damage > 0 {
            problems.is_damaged = true;
            let parts = if damage == 1 { "1 part".to_owned() } else { format!("{damage} parts") };
            problems
                .words
                .push(format!("{path}: {parts} can't be read, and left out; memtap check says what"));
        }
        problems.words.extend(self.session.problems());
        problems
    }

    /// Cuts a scan into at most `most` parts that can be read at the same time: together they are the scan. Only `accesses` is cut,
    /// and only where nobody has to follow the stacks.
    pub fn parts(&self, scan: &Scan, most: usize) -> Vec<ScanPart> {
        match scan.table {
            TraceTable::Accesses if self.follows_stacks(scan) => vec![ScanPart::whole()],
            TraceTable::Accesses => cut(self.session.trace(), &self.by_address(scan), most),
            _ => vec![ScanPart::whole()],
        }
    }

    /// Which frames a scan of accesses reads, at most. From headers and the page index.
    pub fn plan(&self, scan: &Scan) -> FramePlan {
        let trace = self.session.trace();
        let plan = FramePlan::of(trace, &self.by_address(scan));
        match plan.frames_read > 0 && self.follows_stacks(scan) {
            true => FramePlan::of(trace, &Scan::of(scan.table)),
            false => plan,
        }
    }

    /// Whether a scan has to follow the stacks for the column `context`: then all frames are read, by one thread, up to the last row.
    pub fn follows_stacks(&self, scan: &Scan) -> bool {
        is_in_context(&self.session, scan)
    }

    /// The scan with the addresses of the variables that it wants, where these are known.
    fn by_address<'s>(&self, scan: &'s Scan) -> Cow<'s, Scan> {
        // Who wants rows that touch a range wants those that begin before it, too: no range is smaller than both.
        let wanted = scan.variables.as_ref().filter(|_| scan.filter.addresses.is_empty());
        // Where the trace can't be read, reading says so.
        let places = || self.places.get(|| NamedPlaces::of(&self.session)).ok();
        let ranges = wanted.and_then(|names| places()?.ranges(names));
        match ranges {
            Some(addresses) => {
                Cow::Owned(Scan { filter: Filter { addresses, ..scan.filter.clone() }, ..scan.clone() })
            }
            None => Cow::Borrowed(scan),
        }
    }

    /// How many rows a table has, where headers tell that: frames that turn out to be damaged when they are read are in it.
    pub fn rows(&self, table: TraceTable) -> Option<u64> {
        let trace = self.session.trace();
        match table {
            TraceTable::Accesses => Some(self.session.accesses()),
            TraceTable::Threads => Some(trace.threads().len() as u64),
            TraceTable::Processes => Some(trace.processes().len() as u64),
            TraceTable::Frames => Some(trace.streams().map(|stream| stream.frames).sum()),
            _ => None,
        }
    }

    /// Reads a part of a scan, and gives it to `sink` batch by batch, until that wants no more.
    ///
    /// # Errors
    /// Where the trace can't be read, or the scan asks for what the table does not have. Damaged frames are passed over:
    /// `Trace::damage_met` names them afterwards.
    pub fn read(
        &self,
        scan: &Scan,
        part: &ScanPart,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Error> {
        let schema = scan.schema()?;
        let session = &self.session;
        let columns = match scan.table {
            TraceTable::Accesses => return self.read_accesses(scan, part, sink),
            TraceTable::Allocations => events::allocations(session, scan)?,
            TraceTable::Contexts => figures::contexts(session)?,
            TraceTable::Fields => figures::counted(session, analysis::By::Field)?,
            TraceTable::Frames => metadata::frames(session)?,
            TraceTable::Functions => figures::counted(session, analysis::By::Function)?,
            TraceTable::Gaps => events::gaps(session)?,
            TraceTable::Pages => figures::pages(session)?,
            TraceTable::Processes => metadata::processes(session)?,
            TraceTable::Regions => metadata::regions(session)?,
            TraceTable::Syncs => events::syncs(session, scan)?,
            TraceTable::Threads => metadata::threads(session)?,
            TraceTable::Variables => figures::counted(session, analysis::By::Variable)?,
        };
        let rows = columns.first().map_or(0, |column| column.len());
        let chosen = scan.columns().into_iter().filter_map(|column| columns.get(column).cloned()).collect();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        let whole = RecordBatch::try_new_with_options(schema, chosen, &options)?;
        let step = scan.batch_rows.max(1);
        for start in (0..rows).step_by(step) {
            if !sink(whole.slice(start, step.min(rows - start))) {
                break;
            }
        }
        Ok(())
    }

    fn read_accesses(
        &self,
        scan: &Scan,
        part: &ScanPart,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Error> {
        let by_address = self.by_address(scan);
        let scan = &*by_address;
        let trace = self.session.trace();
        let mut sink = |batch| sink(batch);
        let mut rows = AccessRows::new(scan, &self.session, &mut sink)?;
        if self.follows_stacks(scan) {
            RowsInContext::new(&self.session, scan, &mut rows).read(&self.session)?;
        } else if is_named(scan) {
            let replayed = self.session.replay_parts(&scan.filter, &part.threads, &mut rows);
            if let Some(ended) = rows.ended() {
                return ended;
            }
            replayed?;
        } else {
            for thread in &part.threads {
                let shard = trace.shard(thread.thread);
                let filter = Filter { index: Some(thread.accesses.clone()), ..scan.filter.clone() };
                let (process, thread) = (shard.process(), thread.thread);
                let mut cursor = shard.accesses(&filter);
                while let Some(accesses) = cursor.next_block()? {
                    let placed = PlacedAccesses { process, thread, accesses, contexts: &[] };
                    if !rows.push(placed, None)? {
                        return Ok(());
                    }
                }
            }
        }
        rows.flush().map(drop)
    }
}

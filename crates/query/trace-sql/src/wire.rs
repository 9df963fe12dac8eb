//! Tables, scans and functions as bytes, for plans that other processes execute.
//!
//! They name the traces by path or address: whoever reads them has to reach the traces by the same one. An opened trace
//! is kept for the next plan that names it ([`TracePlans`]), for as long as its file stays what it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use analysis::ThreadPart;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use memref::{ThreadId, VirtAddr};
use memtap_arrow::{Scan, ScanPart, TraceTable, TraceTables};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trace_format::{Filter, KindSet};

use crate::functions::functions;
use crate::functions::looked_up::LookupFunction;
use crate::plan::{TracePart, TraceScan, TraceScanPlan};
use crate::provider::{NamedTrace, ReadBy, TraceTableProvider};

/// What the bytes begin with, so that those of others are not taken for them.
const MAGIC: &[u8] = b"memtap plan 1\0";
/// Traces that are kept open, at most.
const KEPT: usize = 256;
/// How long a trace in an object store is taken to be what it was.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A trace by its name.
#[derive(Debug, Serialize, Deserialize)]
struct TraceWords {
    name: Arc<str>,
    path: PathBuf,
    symbols: Vec<PathBuf>,
}

/// A table.
#[derive(Debug, Serialize, Deserialize)]
struct TableWords {
    table: String,
    traces: Vec<TraceWords>,
    read_by: ReadBy,
}

/// A function.
#[derive(Debug, Serialize, Deserialize)]
struct FunctionWords {
    traces: Vec<TraceWords>,
}

/// From where to where, without the end.
type Bounds = (u64, u64);

/// A scan in its parts.
#[derive(Debug, Serialize, Deserialize)]
struct ScanWords {
    table: TableWords,
    projection: Option<Vec<usize>>,
    index: Option<Bounds>,
    cycles: Option<Bounds>,
    wall_ns: Option<Bounds>,
    kinds: u32,
    addresses: Vec<Bounds>,
    ips: Vec<Bounds>,
    threads: Option<Vec<u32>>,
    variables: Option<Vec<Arc<str>>>,
    batch_rows: usize,
    place: Option<usize>,
    parts: Vec<PartWords>,
}

/// A part of the scan of one trace.
#[derive(Debug, Serialize, Deserialize)]
struct PartWords {
    trace: usize,
    /// Threads, and which of their accesses.
    threads: Vec<(u32, Bounds)>,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn write(words: &impl Serialize, bytes: &mut Vec<u8>) -> Result<()> {
    bytes.extend_from_slice(MAGIC);
    serde_json::to_writer(bytes, words).map_err(failed)
}

/// The words in some bytes; none where they are not ours.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<Result<T>> {
    let words = bytes.strip_prefix(MAGIC)?;
    Some(serde_json::from_slice(words).map_err(failed))
}

fn words_of(traces: &[NamedTrace]) -> Result<Vec<TraceWords>> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(failed);
    let words = |trace: &NamedTrace| {
        let path = match trace.tables.address() {
            Some(address) => address.into(),
            None => absolute(trace.tables.path())?,
        };
        let symbols = trace.symbols.iter().map(|dir| absolute(dir)).collect::<Result<_>>()?;
        Ok(TraceWords { name: Arc::clone(&trace.name), path, symbols })
    };
    traces.iter().map(words).collect()
}

fn words_of_scan(plan: &TraceScanPlan) -> Result<ScanWords> {
    let TraceScan { traces, read_by, scan, place } = plan.request();
    let Scan { table, projection, filter, threads, variables, batch_rows } = scan;
    let Filter { index, cycles, wall_ns, kinds, addresses, ips } = filter;
    let bounds = |range: &std::ops::Range<u64>| (range.start, range.end);
    let of_addresses = |range: &std::ops::Range<VirtAddr>| (range.start.0, range.end.0);
    let part = |part: &TracePart| PartWords {
        trace: part.trace,
        threads: part.part.threads().iter().map(|one| (one.thread.0, bounds(&one.accesses))).collect(),
    };
    Ok(ScanWords {
        table: TableWords { table: table.name().to_owned(), traces: words_of(traces)?, read_by: *read_by },
        projection: projection.clone(),
        index: index.as_ref().map(bounds),
        cycles: cycles.as_ref().map(bounds),
        wall_ns: wall_ns.as_ref().map(bounds),
        kinds: kinds.0,
        addresses: addresses.iter().map(of_addresses).collect(),
        ips: ips.iter().map(of_addresses).collect(),
        threads: threads.as_ref().map(|threads| threads.iter().map(|thread| thread.0).collect()),
        variables: variables.as_ref().map(|names| names.iter().cloned().collect()),
        batch_rows: *batch_rows,
        place: *place,
        parts: plan.parts().iter().map(part).collect(),
    })
}

fn table_named(name: &str) -> Result<TraceTable> {
    let table = TraceTable::ALL.into_iter().find(|table| table.name() == name);
    table.ok_or_else(|| {
        DataFusionError::Execution(format!("there is no table {name} in this version of memtap"))
    })
}

/// An opened trace, and what its file was then.
#[derive(Debug)]
struct OpenTrace {
    path: PathBuf,
    symbols: Vec<PathBuf>,
    version: FileVersion,
    tables: TraceTables,
}

/// What tells whether a file is still what it was.
#[derive(Debug, PartialEq)]
enum FileVersion {
    /// Its length and when it was changed.
    File(u64, Option<SystemTime>),
    /// An object, opened then.
    Object(Instant),
}

impl FileVersion {
    fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(file) => Self::File(file.len(), file.modified().ok()),
            Err(_) => Self::Object(Instant::now()),
        }
    }

    fn is_current(&self, path: &Path) -> bool {
        match self {
            Self::File(..) => *self == Self::of(path),
            Self::Object(opened) => opened.elapsed() < KEPT_FOR,
        }
    }
}

/// Writes and reads plans, and keeps the traces that they name.
#[derive(Debug, Default)]
pub struct TracePlans {
    open: Mutex<Vec<OpenTrace>>,
}

impl TracePlans {
    /// Writes a table, if it is one of traces. `false`: it is none.
    ///
    /// # Errors
    /// Where a path is not UTF-8.
    pub fn write_table(&self, table: &TraceTableProvider, bytes: &mut Vec<u8>) -> Result<()> {
        let TraceTableProvider { table, traces, read_by, .. } = table;
        let words =
            TableWords { table: table.name().to_owned(), traces: words_of(traces)?, read_by: *read_by };
        write(&words, bytes)
    }

    /// Reads a table; `None` where the bytes are of somebody else's.
    pub fn read_table(&self, bytes: &[u8]) -> Option<Result<TraceTableProvider>> {
        let words: Result<TableWords> = read(bytes)?;
        Some(words.and_then(|words| {
            let traces = self.traces(words.traces)?;
            Ok(TraceTableProvider::new(table_named(&words.table)?, &traces, words.read_by))
        }))
    }

    /// Writes a scan.
    ///
    /// # Errors
    /// Where a path is not UTF-8.
    pub fn write_scan(&self, plan: &TraceScanPlan, bytes: &mut Vec<u8>) -> Result<()> {
        write(&words_of_scan(plan)?, bytes)
    }

    /// Reads a scan over its input; `None` where the bytes are of somebody else's.
    pub fn read_scan(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Option<Result<Arc<dyn ExecutionPlan>>> {
        let words: Result<ScanWords> = read(bytes)?;
        Some(words.and_then(|words| {
            let scan = self.scan(words, inputs.first().cloned())?;
            Ok(Arc::new(scan) as Arc<dyn ExecutionPlan>)
        }))
    }

    /// Writes which traces a function asks, if it asks any: others are known by their names.
    ///
    /// # Errors
    /// Where a path is not UTF-8.
    pub fn write_function(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let Some(lookup) = function.inner().downcast_ref::<LookupFunction>() else { return Ok(()) };
        write(&FunctionWords { traces: words_of(&lookup.of)? }, bytes)
    }

    /// Reads a function; `None` where it is not ours.
    pub fn read_function(&self, name: &str, bytes: &[u8]) -> Option<Result<Arc<ScalarUDF>>> {
        let words: Result<FunctionWords> = match bytes.is_empty() {
            true => Ok(FunctionWords { traces: Vec::new() }),
            false => read(bytes)?,
        };
        let all = words.and_then(|words| Ok(functions(&self.traces(words.traces)?)));
        match all {
            Ok(all) => all.into_iter().find(|function| function.name() == name).map(|one| Ok(Arc::new(one))),
            Err(error) => Some(Err(error)),
        }
    }

    fn scan(&self, words: ScanWords, input: Option<Arc<dyn ExecutionPlan>>) -> Result<TraceScanPlan> {
        let range = |bounds: Bounds| bounds.0..bounds.1;
        let addresses = |bounds: Vec<Bounds>| {
            bounds.into_iter().map(|(from, to)| VirtAddr(from)..VirtAddr(to)).collect::<Vec<_>>()
        };
        let traces = self.traces(words.table.traces)?;
        let provider =
            TraceTableProvider::new(table_named(&words.table.table)?, &traces, words.table.read_by);
        let scan = Scan {
            table: provider.table,
            projection: words.projection,
            filter: Filter {
                index: words.index.map(range),
                cycles: words.cycles.map(range),
                wall_ns: words.wall_ns.map(range),
                kinds: KindSet(words.kinds),
                addresses: addresses(words.addresses),
                ips: addresses(words.ips),
            },
            threads: words.threads.map(|threads| threads.into_iter().map(ThreadId).collect()),
            variables: words.variables.map(|names| names.into_iter().collect()),
            batch_rows: words.batch_rows,
        };
        let part = |words: PartWords| {
            let of_thread =
                |(thread, accesses)| ThreadPart { thread: ThreadId(thread), accesses: range(accesses) };
            TracePart {
                trace: words.trace,
                part: ScanPart::of(words.threads.into_iter().map(of_thread).collect()),
            }
        };
        let parts = words.parts.into_iter().map(part).collect();
        let schema: SchemaRef = provider.scanned(&scan, words.place).map_err(failed)?;
        let request = TraceScan { traces, read_by: provider.read_by, scan, place: words.place };
        Ok(TraceScanPlan::new(request, parts, input, schema))
    }

    /// Opens traces, or takes those that are open.
    fn traces(&self, words: Vec<TraceWords>) -> Result<Arc<[NamedTrace]>> {
        let open = |words: TraceWords| {
            let tables = self.tables(&words.path, &words.symbols)?;
            Ok(NamedTrace { name: words.name, symbols: words.symbols.into(), tables })
        };
        words.into_iter().map(open).collect()
    }

    fn tables(&self, path: &Path, symbols: &[PathBuf]) -> Result<TraceTables> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // What was damaged is read again: it may have been the way to it that failed, and the next query need not meet it.
        open.retain(|one| {
            let is_whole = one.tables.session().trace().damage_met().is_empty();
            one.path != path || (is_whole && one.version.is_current(path))
        });
        if let Some(place) = open.iter().position(|one| one.path == path && one.symbols == symbols) {
            // The one that was used last stands last.
            open[place..].rotate_left(1);
            return Ok(open[open.len() - 1].tables.clone());
        }
        let version = FileVersion::of(path);
        let tables = TraceTables::open(path, symbols).map_err(failed)?;
        if open.len() >= KEPT {
            open.remove(0);
        }
        open.push(OpenTrace {
            path: path.to_owned(),
            symbols: symbols.to_vec(),
            version,
            tables: tables.clone(),
        });
        Ok(tables)
    }
}

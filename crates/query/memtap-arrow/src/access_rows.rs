//! Rows of `accesses`: each requested column is filled from slices of accesses, and passed on one batch at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use analysis::{InnermostFunctions, Moment, Session, ThreadClock, Tool};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use memref::{Access, ProcessId, ThreadId};
use symbols::{CodeId, DataName, Names, Variable};
use trace_format::Trace;

use crate::batch::Sink;
use crate::name_column::NameColumn;
use crate::{Error, Scan, TraceTable};

/// The column of contexts.
const CONTEXT: &str = "context";

/// A column that is being filled.
#[derive(Debug)]
enum FilledColumn {
    Thread(Vec<u32>),
    Process(Vec<u32>),
    Cycle(Vec<u64>),
    Ip(Vec<u64>),
    Addr(Vec<u64>),
    Size(Vec<u32>),
    Kind(NameColumn),
    Variable(NameColumn),
    Offset(Vec<u64>),
    Field(NameColumn),
    Region(NameColumn),
    Function(NameColumn),
    Module(NameColumn),
    File(NameColumn),
    Line(Vec<Option<u32>>),
    Context(Vec<Option<u64>>),
    WallNs(Vec<Option<u64>>),
}

impl FilledColumn {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "thread" => Self::Thread(Vec::new()),
            "process" => Self::Process(Vec::new()),
            "cycle" => Self::Cycle(Vec::new()),
            "ip" => Self::Ip(Vec::new()),
            "addr" => Self::Addr(Vec::new()),
            "size" => Self::Size(Vec::new()),
            "kind" => Self::Kind(NameColumn::default()),
            "variable" => Self::Variable(NameColumn::default()),
            "offset" => Self::Offset(Vec::new()),
            "field" => Self::Field(NameColumn::default()),
            "region" => Self::Region(NameColumn::default()),
            "function" => Self::Function(NameColumn::default()),
            "module" => Self::Module(NameColumn::default()),
            "file" => Self::File(NameColumn::default()),
            "line" => Self::Line(Vec::new()),
            CONTEXT => Self::Context(Vec::new()),
            "wall_ns" => Self::WallNs(Vec::new()),
            _ => return None,
        })
    }

    fn names_data(&self) -> bool {
        matches!(self, Self::Variable(_) | Self::Offset(_) | Self::Field(_) | Self::Region(_))
    }

    fn names_code(&self) -> bool {
        matches!(self, Self::Function(_) | Self::Module(_) | Self::File(_) | Self::Line(_))
    }

    /// The rows since the last batch.
    fn take(&mut self) -> Result<ArrayRef, Error> {
        Ok(match self {
            Self::Thread(values) | Self::Process(values) | Self::Size(values) => {
                Arc::new(UInt32Array::from(std::mem::take(values)))
            }
            Self::Cycle(values) | Self::Ip(values) | Self::Addr(values) | Self::Offset(values) => {
                Arc::new(UInt64Array::from(std::mem::take(values)))
            }
            Self::Line(values) => Arc::new(UInt32Array::from(std::mem::take(values))),
            Self::Context(values) | Self::WallNs(values) => {
                Arc::new(UInt64Array::from(std::mem::take(values)))
            }
            Self::Kind(names)
            | Self::Variable(names)
            | Self::Field(names)
            | Self::Region(names)
            | Self::Function(names)
            | Self::Module(names)
            | Self::File(names) => names.take()?,
        })
    }
}

/// Makes batches of accesses.
pub(crate) struct AccessRows<'a> {
    schema: SchemaRef,
    columns: Vec<FilledColumn>,
    batch_rows: usize,
    rows: usize,
    names: &'a Names,
    functions: InnermostFunctions<'a>,
    /// The line of each instruction, once it was asked for.
    lines: Vec<Option<Option<u32>>>,
    data: Vec<DataName>,
    codes: Vec<CodeId>,
    trace: Trace,
    /// Of the threads whose times were asked for.
    clocks: BTreeMap<ThreadId, ThreadClock>,
    sink: &'a mut Sink<'a>,
    /// What went wrong, or that nobody wants more; it ends the replay.
    ended: Option<Result<(), Error>>,
}

/// Some accesses of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedAccesses<'a> {
    pub(crate) process: ProcessId,
    pub(crate) thread: ThreadId,
    pub(crate) accesses: &'a [Access],
    /// The number of the stack of each; none where nobody follows the stacks.
    pub(crate) contexts: &'a [u64],
}

impl<'a> PlacedAccesses<'a> {
    fn split_at(self, middle: usize) -> (Self, Self) {
        let (now, later) = self.accesses.split_at(middle);
        let (contexts, later_contexts) = self.contexts.split_at(middle.min(self.contexts.len()));
        let of = |accesses: &'a [Access], contexts: &'a [u64]| Self { accesses, contexts, ..self };
        (of(now, contexts), of(later, later_contexts))
    }
}

/// The names of a scan's columns.
fn names_of(scan: &Scan) -> impl Iterator<Item = &'static str> {
    let columns = scan.columns().into_iter();
    columns.filter_map(|column| Some(TraceTable::Accesses.columns().get(column)?.name))
}

/// Whether a scan has columns of names.
pub(crate) fn is_named(scan: &Scan) -> bool {
    names_of(scan).filter_map(FilledColumn::of).any(|column| column.names_data() || column.names_code())
}

/// Whether a scan has the column of contexts.
pub(crate) fn has_context(scan: &Scan) -> bool {
    scan.table == TraceTable::Accesses && names_of(scan).any(|name| name == CONTEXT)
}

impl<'a> AccessRows<'a> {
    pub(crate) fn new(scan: &Scan, session: &'a Session, sink: &'a mut Sink<'a>) -> Result<Self, Error> {
        let names = session.names();
        let columns = names_of(scan).filter_map(FilledColumn::of);
        Ok(Self {
            schema: scan.schema()?,
            columns: columns.collect(),
            batch_rows: scan.batch_rows.max(1),
            rows: 0,
            names,
            functions: InnermostFunctions::new(names),
            lines: Vec::new(),
            data: Vec::new(),
            codes: Vec::new(),
            trace: session.trace().clone(),
            clocks: BTreeMap::new(),
            sink,
            ended: None,
        })
    }

    /// Appends accesses. `at` is asked for names. Whether more are wanted.
    pub(crate) fn push(
        &mut self,
        placed: PlacedAccesses<'_>,
        mut at: Option<&mut Moment<'_>>,
    ) -> Result<bool, Error> {
        let mut rest = placed;
        while !rest.accesses.is_empty() {
            let (now, later) = rest.split_at(rest.accesses.len().min(self.batch_rows - self.rows));
            self.fill(now, at.as_deref_mut());
            self.rows += now.accesses.len();
            rest = later;
            if self.rows == self.batch_rows && !self.flush()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives away what is left. Whether more are wanted.
    pub(crate) fn flush(&mut self) -> Result<bool, Error> {
        if self.rows == 0 {
            return Ok(true);
        }
        let columns = self.columns.iter_mut().map(FilledColumn::take).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok((self.sink)(batch))
    }

    /// How the replay ended, if it was this that ended it.
    pub(crate) fn ended(&mut self) -> Option<Result<(), Error>> {
        self.ended.take()
    }

    fn fill(&mut self, placed: PlacedAccesses<'_>, at: Option<&mut Moment<'_>>) {
        let PlacedAccesses { process, thread, accesses, contexts } = placed;
        let Self { columns, names, functions, lines, data, codes, trace, clocks, .. } = self;
        let names: &Names = names;
        let mut paths = Vec::new();
        if let Some(at) = at {
            if columns.iter().any(FilledColumn::names_data) {
                data.clear();
                data.extend(accesses.iter().map(|access| at.resolver.resolve_data(access.addr)));
            }
            if columns.iter().any(FilledColumn::names_code) {
                codes.clear();
                codes.extend(accesses.iter().map(|access| at.resolver.resolve_code(access.ip)));
            }
            if columns.iter().any(|column| matches!(column, FilledColumn::Field(_))) {
                let path = |access: &Access| at.resolver.field_path(access.addr, access.size);
                paths.extend(accesses.iter().map(path));
            }
        }
        let variable = |name: &DataName| names.variable(name.variable);
        for column in columns {
            match column {
                FilledColumn::Thread(values) => values.resize(values.len() + accesses.len(), thread.0),
                FilledColumn::Process(values) => values.resize(values.len() + accesses.len(), process.0),
                FilledColumn::Cycle(values) => values.extend(accesses.iter().map(|access| access.cycle)),
                FilledColumn::Ip(values) => values.extend(accesses.iter().map(|access| access.ip.0)),
                FilledColumn::Addr(values) => values.extend(accesses.iter().map(|access| access.addr.0)),
                FilledColumn::Size(values) => values.extend(accesses.iter().map(|access| access.size)),
                FilledColumn::Kind(kinds) => {
                    for access in accesses {
                        kinds.push(access.kind.code().into(), || Some(access.kind.name().into()));
                    }
                }
                FilledColumn::Variable(column) => {
                    for name in data.iter() {
                        let text = |variable: Arc<Variable>| Arc::clone(&variable.name);
                        column.push(name.variable.0, || variable(name).map(text));
                    }
                }
                FilledColumn::Offset(values) => values.extend(data.iter().map(|name| name.offset)),
                FilledColumn::Field(column) => {
                    paths.iter().for_each(|path| column.push_text(path.as_ref()));
                }
                FilledColumn::Region(column) => {
                    for name in data.iter() {
                        let text = |variable: Arc<Variable>| variable.region.name().into();
                        column.push(name.variable.0, || variable(name).map(text));
                    }
                }
                FilledColumn::Function(column) => {
                    for code in codes.iter() {
                        column.push(code.0, || functions.of(*code).map(|(_, name)| name));
                    }
                }
                FilledColumn::Module(column) => {
                    for code in codes.iter() {
                        column.push(code.0, || names.code(*code)?.module.clone());
                    }
                }
                FilledColumn::File(column) => {
                    for code in codes.iter() {
                        column.push(code.0, || names.code(*code)?.line().map(|(file, _)| file.into()));
                    }
                }
                FilledColumn::Line(values) => {
                    for code in codes.iter() {
                        let place = code.0 as usize;
                        if lines.len() <= place {
                            lines.resize(place + 1, None);
                        }
                        let line = *lines[place].get_or_insert_with(|| names.code(*code)?.line()?.1);
                        values.push(line);
                    }
                }
                FilledColumn::Context(values) => {
                    values.extend(contexts.iter().copied().map(Some));
                    // Where nobody follows the stacks there are none.
                    values.extend(accesses.iter().skip(contexts.len()).map(|_| None));
                }
                FilledColumn::WallNs(times) => {
                    let clock = clocks.entry(thread).or_insert_with(|| ThreadClock::of(trace, thread));
                    times.extend(accesses.iter().map(|access| clock.at(access.cycle)));
                }
            }
        }
    }
}

impl Tool for AccessRows<'_> {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), analysis::Error> {
        let placed = PlacedAccesses { process: at.process, thread: at.thread, accesses, contexts: &[] };
        let ended = match self.push(placed, Some(at)) {
            Ok(true) => return Ok(()),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        self.ended = Some(ended);
        Err(analysis::Error::Output(std::io::ErrorKind::Interrupted.into()))
    }
}

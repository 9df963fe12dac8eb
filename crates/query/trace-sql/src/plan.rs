//! The scan of a table in a plan: parts that are read in parallel, each on a thread that may block.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use memtap_arrow::{FramePlan, Scan, ScanPart, TraceTable};
use tokio::runtime::Handle;

use crate::part_rows;
use crate::provider::{NamedTrace, ReadBy};

/// Batches that wait for who takes them.
const WAITING: usize = 2;

/// What is read, of which traces.
#[derive(Clone, Debug)]
pub(crate) struct TraceScan {
    pub(crate) traces: Arc<[NamedTrace]>,
    pub(crate) read_by: ReadBy,
    /// Of each trace.
    pub(crate) scan: Scan,
    /// The place of the column that says which trace a row is of, where it is asked for.
    pub(crate) place: Option<usize>,
}

impl TraceScan {
    /// Whether the stacks of a trace have to be followed.
    pub(crate) fn follows_stacks(&self) -> bool {
        self.traces.iter().any(|trace| trace.tables.follows_stacks(&self.scan))
    }

    /// Rows, where headers tell.
    fn rows(&self) -> Option<u64> {
        let rows = |trace: &NamedTrace| trace.tables.rows(self.scan.table);
        if self.scan.is_all() { self.traces.iter().map(rows).sum() } else { None }
    }

    /// Of accesses: which frames are read.
    fn frames(&self) -> Option<FramePlan> {
        let mut frames = FramePlan::default();
        for trace in &*self.traces {
            frames += trace.tables.plan(&self.scan);
        }
        (self.scan.table == TraceTable::Accesses).then_some(frames)
    }
}

impl TraceScan {
    /// Reads a part, for a sink that says when it wants no more. `false`: it said so.
    fn read(
        &self,
        TracePart { trace, part }: &TracePart,
        schema: &SchemaRef,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<bool> {
        let Some(trace) = self.traces.get(*trace) else {
            return internal_err!("a scan has no trace {trace}");
        };
        let (mut failed, mut is_wanted) = (None, true);
        let read = trace.tables.read(&self.scan, part, &mut |batch| {
            let batch = match self.place {
                Some(place) => with_trace(&batch, &trace.name, place, schema),
                None => Ok(batch),
            };
            match batch {
                Ok(batch) => is_wanted = sink(batch),
                Err(error) => failed = Some(error),
            }
            is_wanted && failed.is_none()
        });
        read.map_err(|error| DataFusionError::External(Box::new(error)))?;
        failed.map_or(Ok(()), Err)?;
        refused(trace, self.read_by)?;
        Ok(is_wanted)
    }
}

/// A part of the scan of one trace.
#[derive(Clone, Debug)]
pub(crate) struct TracePart {
    /// The number of the trace.
    pub(crate) trace: usize,
    pub(crate) part: ScanPart,
}

/// Reads a table of some traces.
#[derive(Debug)]
pub struct TraceScanPlan {
    request: TraceScan,
    parts: Vec<TracePart>,
    /// Where somebody else runs it: the parts that each partition reads. Else it is one each.
    input: Option<Arc<dyn ExecutionPlan>>,
    schema: SchemaRef,
    /// Rows, where headers tell.
    rows: Option<u64>,
    /// Of accesses: what is left out.
    frames: Option<FramePlan>,
    properties: Arc<PlanProperties>,
}

impl TraceScanPlan {
    pub(crate) fn new(
        request: TraceScan,
        parts: Vec<TracePart>,
        input: Option<Arc<dyn ExecutionPlan>>,
        schema: SchemaRef,
    ) -> Self {
        let partitions = input
            .as_ref()
            .map_or(parts.len(), |input| input.properties().output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (rows, frames) = (request.rows(), request.frames());
        Self { request, parts, input, schema, rows, frames, properties: Arc::new(properties) }
    }

    /// The same, with other parts in its partitions.
    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop();
        if input.is_some() != self.input.is_some() || !children.is_empty() {
            return internal_err!("a scan of a trace has no other children than before");
        }
        Ok(Arc::new(Self::new(self.request.clone(), self.parts.clone(), input, self.schema.clone())))
    }

    /// What is read.
    pub(crate) fn request(&self) -> &TraceScan {
        &self.request
    }

    /// The parts that can be read at the same time.
    pub(crate) fn parts(&self) -> &[TracePart] {
        &self.parts
    }

    /// Of accesses: which frames are read.
    pub(crate) fn frames(&self) -> Option<&FramePlan> {
        self.frames.as_ref()
    }
}

impl DisplayAs for TraceScanPlan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceScan: table={}, parts={}", self.request.scan.table.name(), self.parts.len())?;
        if let Some(frames) = &self.frames {
            let skipped = frames.frames_skipped();
            write!(f, ", frames={} of {} (skipped: {skipped})", frames.frames_read, frames.frames)?;
            write!(f, ", accesses at most={} of {}", frames.accesses_read, frames.accesses)?;
        }
        Ok(())
    }
}

/// Puts the name of the trace into its column.
fn with_trace(batch: &RecordBatch, name: &str, place: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let names = StringArray::from_iter_values(std::iter::repeat_n(name, rows));
    let mut columns = batch.columns().to_vec();
    columns.insert(place.min(columns.len()), Arc::new(names) as ArrayRef);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Whether something was read that can't be left out, since who asks would not hear of it.
fn refused(trace: &NamedTrace, read_by: ReadBy) -> Result<()> {
    let damaged = trace.tables.session().trace().damage_met().len();
    if damaged == 0 || read_by != ReadBy::Executors {
        return Ok(());
    }
    let parts = if damaged == 1 { "1 part".to_owned() } else { format!("{damaged} parts") };
    let path = trace.tables.path().display();
    Err(DataFusionError::Execution(format!(
        "{path}: {parts} can't be read; memtap check says what, and --partial leaves it out"
    )))
}

impl ExecutionPlan for TraceScanPlan {
    fn name(&self) -> &'static str {
        "TraceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // The parts are what they are.
        vec![false; self.children().len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let named = match &self.input {
            Some(input) => Some(input.execute(partition, context)?),
            None => None,
        };
        let (request, parts, schema) = (self.request.clone(), self.parts.clone(), self.schema.clone());
        let mut builder = RecordBatchReceiverStream::builder(schema.clone(), WAITING);
        let out = builder.tx();
        builder.spawn_blocking(move || {
            let numbers = match named {
                Some(rows) => Handle::current().block_on(part_rows::named(rows))?,
                None => vec![partition],
            };
            for number in numbers {
                let Some(part) = parts.get(number) else {
                    return internal_err!("a scan of a trace has no part {number}");
                };
                if !request.read(part, &schema, &mut |batch| out.blocking_send(Ok(batch)).is_ok())? {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        if let (Some(rows), None) = (self.rows, partition) {
            statistics.num_rows = Precision::Exact(rows as usize);
        }
        Ok(Arc::new(statistics))
    }
}

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
use memtap_arrow::{FramePlan, Scan, ScanPart, TraceTables};

/// Batches that wait for who takes them.
const WAITING: usize = 2;

/// One trace's part of a scan.
#[derive(Clone, Debug)]
pub(crate) struct TraceScan {
    pub(crate) tables: TraceTables,
    pub(crate) scan: Scan,
    pub(crate) part: ScanPart,
    /// What the column `trace` holds, and where that is; none where it is not asked for.
    pub(crate) trace: Option<TraceColumn>,
}

/// The column that says which trace a row is of.
#[derive(Clone, Debug)]
pub(crate) struct TraceColumn {
    pub(crate) name: Arc<str>,
    pub(crate) place: usize,
}

/// Reads a table of some traces.
#[derive(Debug)]
pub(crate) struct TraceScanPlan {
    scans: Vec<TraceScan>,
    schema: SchemaRef,
    /// Rows, where headers tell.
    rows: Option<u64>,
    /// Of accesses: what is left out.
    frames: Option<FramePlan>,
    properties: Arc<PlanProperties>,
}

impl TraceScanPlan {
    pub(crate) fn new(
        scans: Vec<TraceScan>,
        schema: SchemaRef,
        rows: Option<u64>,
        frames: Option<FramePlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(scans.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { scans, schema, rows, frames, properties: Arc::new(properties) }
    }
}

impl DisplayAs for TraceScanPlan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.scans.first().map_or("", |scan| scan.scan.table.name());
        write!(f, "TraceScan: table={table}, parts={}", self.scans.len())?;
        if let Some(frames) = &self.frames {
            let skipped = frames.frames_skipped();
            write!(f, ", frames={} of {} (skipped: {skipped})", frames.frames_read, frames.frames)?;
            write!(f, ", accesses at most={} of {}", frames.accesses_read, frames.accesses)?;
        }
        Ok(())
    }
}

/// Puts the name of the trace into its column.
fn with_trace(batch: &RecordBatch, column: &TraceColumn, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let names = StringArray::from_iter_values(std::iter::repeat_n(&*column.name, rows));
    let mut columns = batch.columns().to_vec();
    columns.insert(column.place.min(columns.len()), Arc::new(names) as ArrayRef);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

impl ExecutionPlan for TraceScanPlan {
    fn name(&self) -> &'static str {
        "TraceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
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
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of a trace has no children"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of a trace has no children"),
        }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(scan) = self.scans.get(partition).cloned() else {
            return internal_err!("a scan of a trace has no part {partition}");
        };
        let schema = self.schema.clone();
        let mut builder = RecordBatchReceiverStream::builder(schema.clone(), WAITING);
        let out = builder.tx();
        builder.spawn_blocking(move || {
            let TraceScan { tables, scan, part, trace } = scan;
            let mut failed = None;
            // Who asked may have gone: then nothing more is wanted.
            let read = tables.read(&scan, &part, &mut |batch| {
                let batch = match &trace {
                    Some(column) => with_trace(&batch, column, &schema),
                    None => Ok(batch),
                };
                match batch {
                    Ok(batch) => out.blocking_send(Ok(batch)).is_ok(),
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            });
            read.map_err(|error| DataFusionError::External(Box::new(error)))?;
            failed.map_or(Ok(()), Err)
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

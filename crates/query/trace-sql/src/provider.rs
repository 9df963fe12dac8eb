//! A table of traces, as DataFusion requests it.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use memtap_arrow::{Scan, TraceTable, TraceTables};
use serde::{Deserialize, Serialize};

use crate::plan::{TracePart, TraceScan, TraceScanPlan};
use crate::{filters, part_rows};

/// Accesses above which it is said how long reading them may take.
const MANY: u64 = 1_000_000_000;
/// The same where the stacks are followed, which one core does.
const MANY_IN_CONTEXT: u64 = 100_000_000;
/// Nanoseconds that an access takes on one core, about.
const READING_NS: f64 = 15.0;
/// The same where the stacks are followed.
const FOLLOWING_NS: f64 = 150.0;

/// Who reads the rows, and with that who can be told what is missing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadBy {
    /// The process that asks: it leaves out what is damaged, and tells of that afterwards.
    Asker,
    /// Processes that the asker does not see: they fail where something is damaged.
    Executors,
    /// The same, but they leave out what is damaged.
    LenientExecutors,
}

/// A trace and what it is called in the column `trace`.
#[derive(Clone, Debug)]
pub(crate) struct NamedTrace {
    pub(crate) name: Arc<str>,
    /// Where files are looked for that its names come from.
    pub(crate) symbols: Arc<[PathBuf]>,
    pub(crate) tables: TraceTables,
}

/// A table of one trace, or of several with a column in front that says which.
#[derive(Debug)]
pub struct TraceTableProvider {
    pub(crate) table: TraceTable,
    pub(crate) traces: Arc<[NamedTrace]>,
    pub(crate) read_by: ReadBy,
    schema: SchemaRef,
}

/// The column that says which trace a row is of.
fn trace_column() -> Arc<Field> {
    Arc::new(Field::new("trace", DataType::Utf8, false))
}

impl TraceTableProvider {
    pub(crate) fn new(table: TraceTable, traces: &Arc<[NamedTrace]>, read_by: ReadBy) -> Self {
        let schema = table.schema();
        let schema = match traces.len() {
            0 | 1 => schema,
            _ => {
                let fields: Vec<_> =
                    std::iter::once(trace_column()).chain(schema.fields().iter().cloned()).collect();
                Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
            }
        };
        Self { table, traces: Arc::clone(traces), read_by, schema }
    }

    /// The schema of a scan, with the column `trace` at its place.
    pub(crate) fn scanned(
        &self,
        scan: &Scan,
        place: Option<usize>,
    ) -> Result<SchemaRef, memtap_arrow::Error> {
        let schema = scan.schema()?;
        let Some(place) = place else { return Ok(schema) };
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields.insert(place.min(fields.len()), trace_column());
        Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }

    /// The columns that are asked for of each trace, and the place of the column `trace`.
    fn divide(&self, projection: Option<&Vec<usize>>) -> (Vec<usize>, Option<usize>) {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        if self.traces.len() < 2 {
            return (columns, None);
        }
        let place = columns.iter().position(|&column| column == 0);
        (columns.iter().filter_map(|column| column.checked_sub(1)).collect(), place)
    }
}

#[async_trait]
impl TableProvider for TraceTableProvider {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let can = |filter: &&Expr| match filters::apply(&mut Scan::of(self.table), filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(can).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (columns, place) = self.divide(projection);
        let mut scan = Scan {
            projection: Some(columns),
            batch_rows: state.config().batch_size(),
            ..Scan::of(self.table)
        };
        for filter in filters {
            filters::apply(&mut scan, filter);
        }
        let schema =
            self.scanned(&scan, place).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let parts = state.config().target_partitions().div_ceil(self.traces.len().max(1));
        let mut read = Vec::new();
        for (number, trace) in self.traces.iter().enumerate() {
            read.extend(
                trace.tables.parts(&scan, parts).into_iter().map(|part| TracePart { trace: number, part }),
            );
        }
        let request = TraceScan { traces: Arc::clone(&self.traces), read_by: self.read_by, scan, place };
        let input = match self.read_by {
            ReadBy::Asker => None,
            ReadBy::Executors | ReadBy::LenientExecutors => Some(part_rows::input(read.len())?),
        };
        let plan = TraceScanPlan::new(request, read, input, schema);
        if self.read_by == ReadBy::Asker {
            say_time(&plan);
        }
        Ok(Arc::new(plan))
    }
}

/// Says how long a scan takes, where that is long, and what would read less.
fn say_time(plan: &TraceScanPlan) {
    let Some(frames) = plan.frames() else { return };
    let (most, access_ns, less) = match plan.request().follows_stacks() {
        true => (MANY_IN_CONTEXT, FOLLOWING_NS, "without the column context, it may read less"),
        false => (MANY, READING_NS, "a condition on cycle, addr, ip, kind, thread or variable reads less"),
    };
    if frames.accesses_read > most {
        let seconds = frames.accesses_read as f64 * access_ns / 1e9 / plan.parts().len().max(1) as f64;
        eprintln!(
            "memtap: note: this reads {} accesses, which takes some {seconds:.0} s; {less}",
            frames.accesses_read
        );
    }
}

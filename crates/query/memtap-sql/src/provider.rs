//! A table of traces, as DataFusion requests it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use memtap_arrow::{FramePlan, Scan, TraceTable, TraceTables};

use crate::filters;
use crate::plan::{TraceColumn, TraceScan, TraceScanPlan};

/// Accesses above which it is said how long reading them may take.
const MANY: u64 = 1_000_000_000;
/// The same where the stacks are followed, which one core does.
const MANY_IN_CONTEXT: u64 = 100_000_000;
/// Nanoseconds that an access takes on one core, about.
const READING_NS: f64 = 15.0;
/// The same where the stacks are followed.
const FOLLOWING_NS: f64 = 150.0;

/// A trace and what it is called in the column `trace`.
#[derive(Clone, Debug)]
pub(crate) struct NamedTrace {
    pub(crate) name: Arc<str>,
    pub(crate) tables: TraceTables,
}

/// A table of one trace, or of several with a column in front that says which.
#[derive(Debug)]
pub(crate) struct TraceTableProvider {
    table: TraceTable,
    traces: Vec<NamedTrace>,
    schema: SchemaRef,
}

impl TraceTableProvider {
    pub(crate) fn new(table: TraceTable, traces: &[NamedTrace]) -> Self {
        let schema = table.schema();
        let schema = match traces.len() {
            0 | 1 => schema,
            _ => {
                let first = Arc::new(Field::new("trace", DataType::Utf8, false));
                let fields: Vec<_> = std::iter::once(first).chain(schema.fields().iter().cloned()).collect();
                Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
            }
        };
        Self { table, traces: traces.to_vec(), schema }
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
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => self.schema.clone(),
        };
        let parts = state.config().target_partitions().div_ceil(self.traces.len().max(1));
        let mut scans = Vec::new();
        let mut frames = FramePlan::default();
        let mut rows = scan.is_all().then_some(0);
        for NamedTrace { name, tables } in &self.traces {
            if self.table == TraceTable::Accesses {
                frames += tables.plan(&scan);
            }
            rows = rows.zip(tables.rows(self.table)).map(|(all, more)| all + more);
            let trace = place.map(|place| TraceColumn { name: name.clone(), place });
            let scan_part =
                |part| TraceScan { tables: tables.clone(), scan: scan.clone(), part, trace: trace.clone() };
            scans.extend(tables.parts(&scan, parts).into_iter().map(scan_part));
        }
        let in_context = self.traces.iter().any(|trace| trace.tables.follows_stacks(&scan));
        say_time(&frames, scans.len(), in_context);
        let frames = (self.table == TraceTable::Accesses).then_some(frames);
        Ok(Arc::new(TraceScanPlan::new(scans, schema, rows, frames)))
    }
}

/// Says how long a scan takes, where that is long, and what would read less.
fn say_time(frames: &FramePlan, parts: usize, in_context: bool) {
    let (most, access_ns, less) = match in_context {
        true => (MANY_IN_CONTEXT, FOLLOWING_NS, "without the column context, it may read less"),
        false => (MANY, READING_NS, "a condition on cycle, addr, ip, kind, thread or variable reads less"),
    };
    if frames.accesses_read > most {
        let seconds = frames.accesses_read as f64 * access_ns / 1e9 / parts.max(1) as f64;
        eprintln!(
            "memtap: note: this reads {} accesses, which takes some {seconds:.0} s; {less}",
            frames.accesses_read
        );
    }
}

//! The parts of a scan as rows of an input: each partition has the number of one part.
//!
//! Ballista gives a task some partitions of a plan by cutting the leaves that it knows, and runs any other leaf as a whole, in each task. So a
//! scan that is run elsewhere is no leaf: it reads the parts that its input names, and the input is a leaf that Ballista can cut.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::TryStreamExt;

/// An input that names each of so many parts in a partition of its own.
pub(crate) fn input(parts: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("part", DataType::UInt64, false)]));
    let row = |part: usize| -> Result<Vec<RecordBatch>> {
        let number = Arc::new(UInt64Array::from(vec![part as u64]));
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![number])?])
    };
    let rows = (0..parts).map(row).collect::<Result<Vec<_>>>()?;
    Ok(MemorySourceConfig::try_new_exec(&rows, schema, None)?)
}

/// The parts that a partition of the input names.
pub(crate) async fn named(rows: SendableRecordBatchStream) -> Result<Vec<usize>> {
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    let of = |batch: &RecordBatch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec();
    Ok(batches.iter().flat_map(of).map(|part| part as usize).collect())
}

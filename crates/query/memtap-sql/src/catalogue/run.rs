//! The row of a run.

use std::path::absolute;
use std::sync::Arc;

use analysis::Summary;
use anyhow::Result;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, UInt64Array};
use memtap_arrow::TraceTables;

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values([value]))
}

fn number(value: u64) -> ArrayRef {
    Arc::new(UInt64Array::from(vec![value]))
}

/// What is known of a run as a whole; docs/tables.md says the same of the columns.
pub(super) fn row(tables: &TraceTables, identity: &str) -> Result<RecordBatch> {
    let trace = tables.session().trace();
    let summary = Summary::of(tables.session())?;
    let path = trace.path();
    // An address of an object is one already.
    let place = if object_traces::is_address(path) { path.into() } else { absolute(path)? };
    let first = trace.processes().first();
    let end_ns = trace.processes().iter().filter_map(|process| process.end_ns).max();
    let columns: [(&str, ArrayRef, bool); 19] = [
        ("run", text(identity), false),
        ("path", text(&place.to_string_lossy()), false),
        ("created_ns", number(trace.created_ns()), false),
        ("end_ns", Arc::new(UInt64Array::from(vec![end_ns])), true),
        ("exe", text(first.map_or("", |process| process.exe.as_str())), false),
        ("args", text(first.map_or("", |process| process.args.as_str())), false),
        ("exit_status", Arc::new(Int32Array::from(vec![first.and_then(|first| first.exit_status)])), true),
        ("processes", number(trace.processes().len() as u64), false),
        ("threads", number(trace.threads().len() as u64), false),
        ("loads", number(summary.count.loads), false),
        ("stores", number(summary.count.stores), false),
        ("modifies", number(summary.count.modifies), false),
        ("allocations", number(summary.allocations.values().sum()), false),
        ("syncs", number(summary.syncs), false),
        ("missing", number(summary.missing()), false),
        ("closed", Arc::new(BooleanArray::from(vec![trace.closed()])), false),
        ("damaged", Arc::new(BooleanArray::from(vec![tables.problems().is_damaged])), false),
        ("file_bytes", number(trace.file_bytes()), false),
        ("version", number(trace.version().into()), false),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

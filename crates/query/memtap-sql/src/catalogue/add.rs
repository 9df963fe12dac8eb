//! Adding traces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use memtap_arrow::{Scan, TraceTable, TraceTables};

use super::{RUNS, TABLES, run};
use trace_sql::{OutputFormat, Writer};

/// Adds traces, and says which could not be added.
pub(super) fn add(dir: &Path, traces: &[PathBuf], symbols: &[PathBuf], is_forced: bool) -> Result<ExitCode> {
    for name in TABLES.iter().map(|table| table.name()).chain([RUNS]) {
        let place = dir.join(name);
        fs::create_dir_all(&place).with_context(|| format!("{}: can't be made", place.display()))?;
    }
    let mut failed = 0;
    for trace in traces {
        if let Err(error) = add_one(dir, trace, symbols, is_forced) {
            failed += 1;
            eprintln!("memtap: {}: not added: {}", trace.display(), trace_sql::error_line(&error));
        }
    }
    let added = traces.len() - failed;
    eprintln!("memtap: {}: {added} added", dir.display());
    Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn add_one(dir: &Path, path: &Path, symbols: &[PathBuf], is_forced: bool) -> Result<()> {
    let tables = TraceTables::open(path, symbols)?;
    let trace = tables.session().trace();
    let identity =
        trace.session().ok_or_else(|| anyhow!("its header is damaged, so the run can't be identified"))?;
    let identity = identity.to_string();
    let file = |name: &str| dir.join(name).join(format!("{identity}.parquet"));
    if file(RUNS).exists() && !is_forced {
        return Err(anyhow!("the run is already in the catalogue; --force replaces it"));
    }
    let written = write_run(&tables, &identity, &file);
    if written.is_err() && !file(RUNS).exists() {
        // Rows of a run that is not in the catalogue would be counted.
        for table in TABLES {
            let _ = fs::remove_file(file(table.name()));
        }
    }
    written
}

fn write_run(tables: &TraceTables, identity: &str, file: &dyn Fn(&str) -> PathBuf) -> Result<()> {
    for table in TABLES {
        write_table(tables, table, identity, &file(table.name()))?;
    }
    // Now that all of it was read: what could not be is told in its row.
    let row = run::row(tables, identity)?;
    let mut writer = Writer::create(OutputFormat::Parquet, Some(&file(RUNS)), true)?;
    writer.begin(row.schema())?;
    writer.rows(&row)?;
    writer.finish()
}

/// The columns of a table, behind one that says which run.
fn with_run(schema: &Schema) -> SchemaRef {
    let first = Arc::new(Field::new("run", DataType::Utf8, false));
    let fields: Vec<_> = std::iter::once(first).chain(schema.fields().iter().cloned()).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn write_table(tables: &TraceTables, table: TraceTable, run: &str, to: &Path) -> Result<()> {
    let schema = with_run(&table.schema());
    let mut writer = Writer::create(OutputFormat::Parquet, Some(to), true)?;
    writer.begin(schema.clone())?;
    let scan = Scan::of(table);
    let mut written = Ok(());
    for part in tables.parts(&scan, 1) {
        tables.read(&scan, &part, &mut |batch| {
            let first: ArrayRef = Arc::new(StringArray::from_iter_values(vec![run; batch.num_rows()]));
            let columns = std::iter::once(first).chain(batch.columns().iter().cloned()).collect();
            let batch = RecordBatch::try_new(schema.clone(), columns);
            written = batch.map_err(Into::into).and_then(|batch| writer.rows(&batch));
            written.is_ok()
        })?;
    }
    written?;
    writer.finish()
}

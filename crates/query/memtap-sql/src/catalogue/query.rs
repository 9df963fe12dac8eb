//! Queries to a catalogue.

use std::path::Path;

use anyhow::{Context, Result, bail};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use super::{RUNS, TABLES};
use trace_sql::OutputArgs;
use trace_sql::without_traces;
use trace_sql::{ReadBy, answer};

/// Answers a query about all runs.
pub(super) fn ask(dir: &Path, query: &str, output: &OutputArgs) -> Result<()> {
    let Ok(mut runs) = dir.join(RUNS).read_dir() else {
        bail!("{}: is not a catalogue; memtap catalogue add makes one", dir.display());
    };
    if runs.next().is_none() {
        bail!("{}: no run was added yet", dir.display());
    }
    output.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let context = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
        for name in TABLES.iter().map(|table| table.name()).chain([RUNS]) {
            let place = dir.join(name);
            let place = place.to_str().with_context(|| format!("{}: is not UTF-8", place.display()))?;
            context.register_parquet(name, place, ParquetReadOptions::default()).await?;
        }
        for function in without_traces() {
            context.register_udf(function);
        }
        let names: Vec<&str> = TABLES.iter().map(|table| table.name()).chain([RUNS]).collect();
        answer(&context, ReadBy::Asker, &names, query, output.create()?).await
    })
}

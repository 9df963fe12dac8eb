//! The traces of a command line as one database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use futures::StreamExt;
use memtap_arrow::{Problems, TraceTable, TraceTables};

use crate::functions::functions;
use crate::output::Writer;
use crate::provider::{NamedTrace, TraceTableProvider};
use crate::wildcard::leave_out;

/// Traces that can be asked.
pub(crate) struct SqlSession {
    context: SessionContext,
    traces: Vec<NamedTrace>,
}

/// What the rows of each trace are called: the names of the files, whole paths where two have the same.
fn names(files: &[PathBuf]) -> Vec<Arc<str>> {
    let short = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_twice = |file: &PathBuf| files.iter().filter(|other| short(other) == short(file)).count() > 1;
    let name = |file: &PathBuf| if is_twice(file) { file.display().to_string() } else { short(file) };
    files.iter().map(|file| name(file).into()).collect()
}

impl SqlSession {
    pub(crate) fn open(files: &[PathBuf], symbols: &[PathBuf]) -> Result<Self> {
        let open = |(file, name): (&PathBuf, Arc<str>)| -> Result<NamedTrace> {
            Ok(NamedTrace { name, tables: TraceTables::open(file, symbols)? })
        };
        let traces = files.iter().zip(names(files)).map(open).collect::<Result<Vec<_>>>()?;
        let context = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
        for table in TraceTable::ALL {
            context.register_table(table.name(), Arc::new(TraceTableProvider::new(table, &traces)))?;
        }
        for function in functions(&traces) {
            context.register_udf(function);
        }
        Ok(Self { context, traces })
    }

    /// Answers one query.
    pub(crate) async fn answer(&self, query: &str, writer: Writer) -> Result<()> {
        let tables = TraceTable::ALL.map(TraceTable::name);
        answer(&self.context, &tables, query, writer).await
    }

    /// What is missing of what was read.
    pub(crate) fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        for trace in &self.traces {
            let of_trace = trace.tables.problems();
            problems.is_damaged |= of_trace.is_damaged;
            problems.words.extend(of_trace.words);
        }
        problems
    }
}

/// Answers one query, which may only read, about tables of these names.
pub(crate) async fn answer(
    context: &SessionContext,
    tables: &[&str],
    query: &str,
    mut writer: Writer,
) -> Result<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    let asked = plan(context, query, options).await;
    let frame = asked.map_err(|error| in_words(&error, tables))?;
    let mut rows = frame.execute_stream().await.map_err(|error| in_words(&error, tables))?;
    writer.begin(rows.schema())?;
    while let Some(batch) = rows.next().await {
        writer.rows(&batch.map_err(|error| in_words(&error, tables))?)?;
    }
    writer.finish()
}

/// As the context does it by itself, but for what `*` stands for.
async fn plan(
    context: &SessionContext,
    query: &str,
    options: SQLOptions,
) -> Result<DataFrame, DataFusionError> {
    let state = context.state();
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(query, &dialect)?;
    leave_out(&mut statement);
    let plan = state.statement_to_plan(statement).await?;
    options.verify_plan(&plan)?;
    context.execute_logical_plan(plan).await
}

/// An error of a query in one line; tables and columns that there are none of with near ones.
fn in_words(error: &DataFusionError, tables: &[&str]) -> anyhow::Error {
    let root = error.find_root();
    let text = root.strip_backtrace();
    // What stands before the first colon is the kind of the error.
    let words = text.split_once(": ").map_or(text.as_str(), |(_, words)| words);
    let words = words.lines().collect::<Vec<_>>().join(" ");
    match missing_table(&words) {
        Some(missing) => {
            let mut near = tables.to_vec();
            near.sort_by_key(|name| strsim::damerau_levenshtein(name, missing));
            anyhow!(
                "there is no table {missing}; the nearest is {}; docs/tables.md lists all",
                near.first().copied().unwrap_or_default()
            )
        }
        None => anyhow!("{}", words.trim_end_matches('.')),
    }
}

/// The table that an error says is not there.
fn missing_table(words: &str) -> Option<&str> {
    let (_, after) = words.split_once("table '")?;
    let (name, rest) = after.split_once('\'')?;
    rest.contains("not found").then(|| name.rsplit('.').next().unwrap_or(name))
}

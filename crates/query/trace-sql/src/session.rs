//! The traces of a command line as one database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Expr, cast};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use futures::StreamExt;
use memtap_arrow::{Problems, TraceTable, TraceTables};

use crate::functions::functions;
use crate::grouped::by_texts;
use crate::output::Writer;
use crate::provider::{NamedTrace, ReadBy, TraceTableProvider};
use crate::wildcard::leave_out;

/// Traces that can be asked.
pub struct SqlSession {
    context: SessionContext,
    traces: Arc<[NamedTrace]>,
    read_by: ReadBy,
}

/// What the rows of each trace are called: the names of the files, whole paths where two have the same.
fn names(files: &[PathBuf]) -> Vec<Arc<str>> {
    let short = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_twice = |file: &PathBuf| files.iter().filter(|other| short(other) == short(file)).count() > 1;
    let name = |file: &PathBuf| if is_twice(file) { file.display().to_string() } else { short(file) };
    files.iter().map(|file| name(file).into()).collect()
}

impl SqlSession {
    /// Opens traces, and answers queries in this process. Files that their names come from are looked for in these directories, too.
    ///
    /// # Errors
    /// Where a trace can't be read.
    pub fn open(files: &[PathBuf], symbols: &[PathBuf]) -> Result<Self> {
        let context = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
        Self::open_in(context, files, symbols, ReadBy::Asker)
    }

    /// The same, and answers queries as the context does that.
    ///
    /// # Errors
    /// Where a trace can't be read.
    pub fn open_in(
        context: SessionContext,
        files: &[PathBuf],
        symbols: &[PathBuf],
        read_by: ReadBy,
    ) -> Result<Self> {
        let symbols: Arc<[PathBuf]> = symbols.into();
        let open = |(file, name): (&PathBuf, Arc<str>)| -> Result<NamedTrace> {
            let tables = TraceTables::open(file, &symbols)?;
            Ok(NamedTrace { name, symbols: Arc::clone(&symbols), tables })
        };
        let traces: Arc<[NamedTrace]> = files.iter().zip(names(files)).map(open).collect::<Result<_>>()?;
        for table in TraceTable::ALL {
            context
                .register_table(table.name(), Arc::new(TraceTableProvider::new(table, &traces, read_by)))?;
        }
        for function in functions(&traces) {
            context.register_udf(function);
        }
        Ok(Self { context, traces, read_by })
    }

    /// Answers one query, which may only read.
    ///
    /// # Errors
    /// Where it is wrong, or a trace or the output fails; in one line.
    pub async fn answer(&self, query: &str, writer: Writer) -> Result<()> {
        let tables = TraceTable::ALL.map(TraceTable::name);
        answer(&self.context, self.read_by, &tables, query, writer).await
    }

    /// What is missing of what was read.
    pub fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        for trace in &*self.traces {
            let of_trace = trace.tables.problems();
            problems.is_damaged |= of_trace.is_damaged;
            problems.words.extend(of_trace.words);
        }
        problems
    }
}

/// Answers one query, which may only read, about tables of these names.
///
/// # Errors
/// Where it is wrong, or what it reads or the output fails; in one line.
pub async fn answer(
    context: &SessionContext,
    read_by: ReadBy,
    tables: &[&str],
    query: &str,
    mut writer: Writer,
) -> Result<()> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    let asked = plan(context, query, options).await;
    let asked = match read_by {
        ReadBy::Asker => asked,
        ReadBy::Executors | ReadBy::LenientExecutors => asked.and_then(with_texts),
    };
    let frame = asked.map_err(|error| in_words(&error, tables))?;
    let mut rows = frame.execute_stream().await.map_err(|error| in_words(&error, tables))?;
    writer.begin(rows.schema())?;
    while let Some(batch) = rows.next().await {
        writer.rows(&batch.map_err(|error| in_words(&error, tables))?)?;
    }
    writer.finish()
}

/// Rows that come from executors, with texts as texts: Arrow Flight, by which they come, sends dictionaries of texts so, whatever the plan says.
fn with_texts(frame: DataFrame) -> Result<DataFrame, DataFusionError> {
    let is_dictionary = |data_type: &DataType| matches!(data_type, DataType::Dictionary(_, _));
    if !frame.schema().fields().iter().any(|field| is_dictionary(field.data_type())) {
        return Ok(frame);
    }
    let column = |(qualifier, field): (Option<&TableReference>, &Arc<Field>)| {
        let column = Expr::Column(Column::from((qualifier, field.as_ref())));
        match field.data_type() {
            DataType::Dictionary(_, values) => {
                cast(column, (**values).clone()).alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    };
    let columns: Vec<Expr> = frame.schema().iter().map(column).collect();
    frame.select(columns)
}

/// As the context does it by itself, but for what `*` stands for and how names are grouped.
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
    context.execute_logical_plan(by_texts(plan)?).await
}

/// An error of a query in one line; tables and columns that there are none of with near ones.
fn in_words(error: &DataFusionError, tables: &[&str]) -> anyhow::Error {
    let root = error.find_root();
    let text = root.strip_backtrace();
    // What stands before the first colon is the kind of the error.
    let words = text.split_once(": ").map_or(text.as_str(), |(_, words)| words);
    let words = words.lines().collect::<Vec<_>>().join(" ");
    let words = of_task(&words).unwrap_or(words);
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

/// The words of an error that a task of a cluster met: what a job says of it is how a program would print it.
fn of_task(words: &str) -> Option<String> {
    let (_, debug) = words.split_once("Task failed due to runtime execution error: ")?;
    let mut rest = debug.trim();
    // Names of what wraps it, outermost first.
    while let Some((name, within)) = rest.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        if !name.chars().all(char::is_alphanumeric) {
            break;
        }
        rest = within;
    }
    let text = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
    Some(text.replace("\\\"", "\"").replace("\\'", "'"))
}

/// The table that an error says is not there.
fn missing_table(words: &str) -> Option<&str> {
    let (_, after) = words.split_once("table '")?;
    let (name, rest) = after.split_once('\'')?;
    rest.contains("not found").then(|| name.rsplit('.').next().unwrap_or(name))
}

/// An error with its causes in one line, each said once.
pub fn error_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_tasks_are_their_own_words() {
        let check = |debug: &str, expect: Option<&str>| {
            let words = format!("Job 1 failed: Task failed due to runtime execution error: {debug}");
            assert_eq!(of_task(&words).as_deref(), expect);
        };
        check("DataFusionError(Shared(External(ArrowError(DivideByZero))))", Some("DivideByZero"));
        check(r#"DataFusionError(Execution("a.memtap: \"x\" (1 part)"))"#, Some(r#"a.memtap: "x" (1 part)"#));
        check("", Some(""));
        assert_eq!(of_task("there is no column"), None);
    }
}

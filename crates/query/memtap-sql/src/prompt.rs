//! The interactive prompt, with history and completion of tables and columns.

use std::path::PathBuf;

use anyhow::Result;
use memtap_arrow::TraceTable;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Context, Editor, Helper, Highlighter, Hinter, Validator};
use tokio::runtime::Runtime;

use trace_sql::SqlSession;
use trace_sql::{OutputFormat, Writer};

/// Words of SQL that are completed, too.
const WORDS: [&str; 15] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "COUNT",
    "SUM",
    "BETWEEN",
    "DISTINCT",
    "EXPLAIN",
    "DESC",
    "cache_line",
    "page",
    "type",
];

/// Completes words.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Words {
    known: Vec<String>,
}

impl Words {
    fn new() -> Self {
        let tables = TraceTable::ALL.into_iter();
        let names = tables.flat_map(|table| {
            let columns = table.columns().iter().map(|column| column.name.to_owned());
            std::iter::once(table.name().to_owned()).chain(columns)
        });
        let mut known: Vec<String> = names.chain(WORDS.map(str::to_owned)).collect();
        known.sort();
        known.dedup();
        Self { known }
    }

    /// Where the word before the cursor begins, and what begins with it.
    fn matching(&self, line: &str, cursor: usize) -> (usize, Vec<&str>) {
        let before = &line[..cursor];
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let start = before.rfind(is_end).map_or(0, |place| place + 1);
        let word = before[start..].to_ascii_lowercase();
        let begins = |known: &&String| !word.is_empty() && known.to_ascii_lowercase().starts_with(&word);
        (start, self.known.iter().filter(begins).map(String::as_str).collect())
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = self.matching(line, cursor);
        let pair = |word: &str| Pair { display: word.to_owned(), replacement: word.to_owned() };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

/// Where earlier queries are kept.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    let dir = state.join("memtap");
    std::fs::create_dir_all(&dir).ok()?;
    Some(dir.join("sql_history"))
}

/// Asks for queries, which end with a semicolon, until there are no more.
pub(crate) fn ask(session: &SqlSession, runtime: &Runtime, format: OutputFormat) -> Result<()> {
    let mut editor: Editor<Words, FileHistory> = Editor::new()?;
    editor.set_helper(Some(Words::new()));
    let kept = history();
    if let Some(kept) = &kept {
        // There may be none yet.
        let _ = editor.load_history(kept);
    }
    let tables: Vec<&str> = TraceTable::ALL.into_iter().map(TraceTable::name).collect();
    eprintln!("memtap: tables: {}; a query ends with ; (Ctrl-D ends)", tables.join(", "));
    let mut query = String::new();
    loop {
        match editor.readline(if query.is_empty() { "sql> " } else { "  -> " }) {
            Ok(line) => {
                query.push_str(&line);
                query.push('\n');
                if query.trim().is_empty() {
                    query.clear();
                } else if query.trim_end().ends_with(';') {
                    let whole = std::mem::take(&mut query);
                    let whole = whole.trim().trim_end_matches(';');
                    editor.add_history_entry(format!("{whole};"))?;
                    let writer = Writer::create(format, None, false)?;
                    if let Err(error) = runtime.block_on(session.answer(whole, writer)) {
                        eprintln!("memtap: {}", trace_sql::error_line(&error));
                    }
                }
            }
            Err(ReadlineError::Interrupted) => query.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(kept) = &kept {
        editor.save_history(kept)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_columns_are_completed() {
        let words = Words::new();
        assert_eq!(words.matching("select * from acc", 17), (14, vec!["accesses"]));
        assert_eq!(words.matching("select exit_st", 14), (7, vec!["exit_status"]));
        assert_eq!(words.matching("select ", 7), (7, vec![]));
        assert_eq!(words.matching("sel", 3), (0, vec!["SELECT"]));
    }
}

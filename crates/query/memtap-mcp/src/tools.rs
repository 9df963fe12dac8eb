//! The tools: each is a command of memtap, whose JSON is cut to fit.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use serde_json::{Map, Value, json};

use crate::bounded::{bounded, rows};
use crate::command::{Commands, End, Output};
use crate::questions::{
    AccessesQuestion, CacheQuestion, LayoutQuestion, ReportQuestion, RowsQuestion, SourceQuestion,
    SqlQuestion, WhoQuestion,
};
use crate::source;

const INSTRUCTIONS: &str = "A trace of one run of a program: every load and store, with the variable, field, heap block, function and source \
line. `summary` says what it covers; read its counts of missing events first. `report` tells what is accessed most, `who_accesses` by which \
code. Figures are exact counts of this run, not samples, unless `notes` say that events are missing. Answers are cut to fit: `left_out` counts \
what is missing, and `more` is the shell command that prints everything.";

/// Answers questions about one trace.
#[derive(Clone, Debug)]
pub(crate) struct TraceTools {
    commands: Commands,
}

fn refused(words: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words.into())])
}

/// The answer with what the command noted, and the command itself.
fn answer(whole: &Value, most: usize, notes: Vec<String>, more: String) -> CallToolResult {
    let Some(mut members) = bounded(whole, most) else {
        return refused(format!("a single row is too long for an answer; this prints all: {more}"));
    };
    if !notes.is_empty() {
        members.insert("notes".to_owned(), json!(notes));
    }
    members.insert("more".to_owned(), json!(more));
    CallToolResult::success(vec![ContentBlock::text(Value::Object(members).to_string())])
}

/// An address and some bytes as a range of the command line.
fn range(address: &str, bytes: Option<u64>) -> Result<String, CallToolResult> {
    let digits = address.trim().trim_start_matches("0x");
    let first = u64::from_str_radix(digits, 16)
        .map_err(|_| refused(format!("{address} is no address in hexadecimal, as in 0x7f001000")))?;
    let end = first.saturating_add(bytes.unwrap_or(8).max(1));
    Ok(format!("--range={first:#x}..{end:#x}"))
}

impl TraceTools {
    pub(crate) fn new(commands: Commands) -> Self {
        Self { commands }
    }

    /// What a command prints as JSON; an error in its own words if it prints none.
    async fn printed(
        &self,
        words: &[String],
        query: Option<&str>,
    ) -> Result<(Value, Vec<String>), CallToolResult> {
        let output = match query {
            Some(query) => self.commands.query(words, query).await,
            None => self.commands.output(words).await,
        };
        let Output { status, stdout, notes } = output.map_err(|error| refused(format!("{error:#}")))?;
        // A filter that matches nothing has an empty list, and a note that says so.
        match serde_json::from_slice(&stdout) {
            Ok(value) => Ok((value, notes)),
            Err(_) if !notes.is_empty() => Err(refused(notes.join("\n"))),
            Err(error) => {
                Err(refused(format!("memtap ended with status {status} and printed no JSON: {error}")))
            }
        }
    }

    async fn ask(&self, words: &[&str], options: Vec<String>, most: Option<usize>) -> CallToolResult {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).chain(options).collect();
        match self.printed(&words, None).await {
            Ok((value, notes)) => answer(&value, rows(most), notes, self.commands.typed(&words, None)),
            Err(refusal) => refusal,
        }
    }
}

#[tool_router]
impl TraceTools {
    /// What was recorded: the program, threads, accesses, allocations, and what is missing
    #[tool]
    async fn summary(&self) -> CallToolResult {
        self.ask(&["stat", "--json"], Vec::new(), None).await
    }

    /// What is accessed most, and by whom: counts of loads, stores and modifies by variable, field, type, function, source line, call
    /// stack and others
    #[tool]
    async fn report(&self, Parameters(question): Parameters<ReportQuestion>) -> CallToolResult {
        let by = [Some(question.by), question.then_by].into_iter().flatten().collect::<Vec<_>>().join(",");
        let mut options = vec![format!("--by={by}")];
        options.extend(question.selection.options());
        options.extend(question.sort.map(|key| format!("--sort={key}")));
        self.ask(&["report", "--json"], options, question.rows).await
    }

    /// Which source lines access a variable, a field, a heap block or an address, and how often. Without debug information a line is an
    /// offset in its module
    #[tool]
    async fn who_accesses(&self, Parameters(question): Parameters<WhoQuestion>) -> CallToolResult {
        let options = match (question.name, question.address) {
            (Some(name), None) => {
                let by = if name.contains('.') { "field" } else { "variable" };
                vec![format!("--by={by},line"), format!("--name={name}")]
            }
            (None, Some(address)) => match range(&address, question.bytes) {
                Ok(range) => vec!["--by=variable,line".to_owned(), range],
                Err(refusal) => return refusal,
            },
            _ => return refused("give either a name or an address"),
        };
        self.ask(&["report", "--json"], options, question.rows).await
    }

    /// The source lines of a file with their counts of accesses and their text
    #[tool]
    async fn source_lines(&self, Parameters(question): Parameters<SourceQuestion>) -> CallToolResult {
        let words = ["report", "--json", "--by=line"].map(str::to_owned);
        let (value, mut notes) = match self.printed(&words, None).await {
            Ok(printed) => printed,
            Err(refusal) => return refusal,
        };
        let Value::Array(all) = value else {
            return refused("memtap printed no list of lines");
        };
        let mut found = source::of_file(all, &question.file);
        if found.is_empty() {
            return refused(format!(
                "no line of a file {} accesses memory; report by line lists all lines",
                question.file
            ));
        }
        let most = rows(question.rows);
        let shown = found.len().min(most);
        notes.extend(source::add_text(&mut found[..shown], self.commands.trace()));
        answer(&Value::Array(found), most, notes, self.commands.typed(&words, None))
    }

    /// Single accesses to some bytes: when, by which thread, from which code; the first ones in order, or the last ones,
    /// latest first
    #[tool]
    async fn accesses(&self, Parameters(question): Parameters<AccessesQuestion>) -> CallToolResult {
        let mut words = ["dump", "--format=jsonl", "--stream=accesses"].map(str::to_owned).to_vec();
        match range(&question.address, question.bytes) {
            Ok(range) => words.push(range),
            Err(refusal) => return refusal,
        }
        words.extend(question.thread.map(|thread| format!("--thread={thread}")));
        if question.from_cycle.is_some() || question.to_cycle.is_some() {
            words.push(format!(
                "--cycles={}..{}",
                question.from_cycle.unwrap_or(0),
                question.to_cycle.unwrap_or(u64::MAX)
            ));
        }
        let end = if question.last { End::Last } else { End::First };
        let lines = match self.commands.lines(&words, rows(question.rows), end).await {
            Ok(mut lines) => {
                // What is cut to fit is what is farthest away.
                if end == End::Last {
                    lines.lines.reverse();
                }
                lines
            }
            Err(error) => return refused(format!("{error:#}")),
        };
        if lines.status != 0 && lines.lines.is_empty() {
            return refused(lines.notes.join("\n"));
        }
        let accesses: Result<Vec<Value>, _> =
            lines.lines.iter().map(|line| serde_json::from_str(line)).collect();
        let mut members = match accesses {
            Ok(accesses) => Map::from_iter([("accesses".to_owned(), Value::Array(accesses))]),
            Err(error) => return refused(format!("memtap printed a line that is no JSON: {error}")),
        };
        // How many more there are would take the rest of the trace.
        members.insert("has_more".to_owned(), json!(lines.has_more));
        answer(&Value::Object(members), rows(question.rows), lines.notes, self.commands.typed(&words, None))
    }

    /// The types of heap blocks and variables, how each field is used, holes, and advice on splitting or reordering them
    #[tool]
    async fn layout(&self, Parameters(question): Parameters<LayoutQuestion>) -> CallToolResult {
        let options = question.named.map(|named| format!("--type={named}")).into_iter().collect();
        self.ask(&["layout", "--json"], options, question.rows).await
    }

    /// Memory errors: use after free, out of bounds, invalid frees, overlapping copies, uninitialised bytes; and leaks
    #[tool]
    async fn errors(&self, Parameters(question): Parameters<RowsQuestion>) -> CallToolResult {
        self.ask(&["errors", "--json"], Vec::new(), question.rows).await
    }

    /// Data races: accesses to the same bytes without synchronisation between them
    #[tool]
    async fn races(&self, Parameters(question): Parameters<RowsQuestion>) -> CallToolResult {
        self.ask(&["race", "--json"], Vec::new(), question.rows).await
    }

    /// Cache lines that one thread writes and another uses: false and true sharing, and what to keep apart
    #[tool]
    async fn shared_lines(&self, Parameters(question): Parameters<RowsQuestion>) -> CallToolResult {
        self.ask(&["lines", "--json"], Vec::new(), question.rows).await
    }

    /// Misses of simulated caches, by variable, field, function, line or others
    #[tool]
    async fn cache_misses(&self, Parameters(question): Parameters<CacheQuestion>) -> CallToolResult {
        let by = question.by.map(|by| format!("--by={by}"));
        let machine = question.machine.map(|name| format!("--machine={name}"));
        self.ask(&["cache", "--json"], by.into_iter().chain(machine).collect(), question.rows).await
    }

    /// A query in SQL over the tables of the trace; needs memtap-sql beside memtap
    #[tool]
    async fn sql(&self, Parameters(question): Parameters<SqlQuestion>) -> CallToolResult {
        let words = ["sql", "--format=json"].map(str::to_owned);
        match self.printed(&words, Some(&question.query)).await {
            Ok((value, notes)) => {
                answer(&value, rows(question.rows), notes, self.commands.typed(&words, Some(&question.query)))
            }
            Err(refusal) => refusal,
        }
    }
}

#[tool_handler]
impl ServerHandler for TraceTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memtap", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_bytes_make_a_range() {
        let check = |address, bytes, expect: &str| {
            assert_eq!(range(address, bytes).ok().as_deref(), Some(expect), "{address}")
        };
        check("0x7f00", None, "--range=0x7f00..0x7f08");
        check("7f00", Some(1), "--range=0x7f00..0x7f01");
        check(" 0xffffffffffffffff", Some(0), "--range=0xffffffffffffffff..0xffffffffffffffff");
        assert!(range("main", None).is_err());
    }
}

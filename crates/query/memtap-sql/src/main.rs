//! `memtap sql`: SQL queries on traces, by DataFusion over the tables of `memtap-arrow`.
//!
//! This is a separate binary, which `memtap` finds beside itself, so that only those who need SQL build two hundred
//! more crates. `trace-sql` answers queries, and `prompt` asks for them. `catalogue` is `memtap catalogue`, which does
//! the same for the summary data of many traces.
#![forbid(unsafe_code)]

mod catalogue;
mod prompt;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use trace_sql::{OutputArgs, SqlSession, error_line};

/// Query traces in SQL
///
/// The tables are described in docs/tables.md. With several traces each table has a column `trace` in front. Without a query, memtap asks
/// for some.
#[derive(Debug, Parser)]
#[command(name = "memtap sql", bin_name = "memtap sql")]
struct Args {
    /// The traces, followed by the query
    #[arg(required = true, value_name = "FILE... [QUERY]")]
    words: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// Look for the files that the traces' names come from in this directory, too (may be given several times)
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,
    /// End with status 1 where a trace is damaged or was not closed
    #[arg(long)]
    strict: bool,
}

/// The traces and the query of a command line: the last word is a query unless a file has that name, or it is the address of an object.
fn divide(mut words: Vec<String>) -> (Vec<PathBuf>, Option<String>) {
    let is_trace = |word: &String| object_traces::is_address(Path::new(word)) || Path::new(word).exists();
    let is_query = words.len() > 1 && words.last().is_some_and(|last| !is_trace(last));
    let query = if is_query { words.pop() } else { None };
    (words.into_iter().map(PathBuf::from).collect(), query)
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let done = match words.get(1).is_some_and(|word| word == catalogue::WORD) {
        true => catalogue::run(&catalogue::Args::parse_from([&words[..1], &words[2..]].concat())),
        false => run(Args::parse()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("memtap: {}", error_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<ExitCode> {
    let (files, query) = divide(args.words);
    args.output.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let session = SqlSession::open(&files, &args.symbols)?;
    match query {
        Some(query) => {
            runtime.block_on(session.answer(&query, args.output.create()?))?;
        }
        None => {
            if args.output.path.is_some() {
                bail!("-o is for one query; give it after the traces");
            }
            prompt::ask(&session, &runtime, args.output.format)?;
        }
    }
    let problems = session.problems();
    for problem in &problems.words {
        eprintln!("memtap: note: {problem}");
    }
    Ok(if args.strict && problems.is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_a_query_unless_it_is_a_file() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (files, query) = divide(words(&["a.memtap", "SELECT 1"]));
        assert_eq!((files.len(), query.as_deref()), (1, Some("SELECT 1")));
        assert_eq!(divide(words(&["a.memtap", env!("CARGO_MANIFEST_DIR")])).1, None);
        assert_eq!(divide(words(&["no file"])).1, None);
        assert_eq!(divide(words(&["s3://bucket/a.memtap", "s3://bucket/b.memtap"])).1, None);
        let (_, query) = divide(words(&["s3://bucket/a.memtap", "SELECT 's3://'"]));
        assert_eq!(query.as_deref(), Some("SELECT 's3://'"));
    }
}

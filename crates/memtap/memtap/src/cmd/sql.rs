//! `memtap sql`: queries in SQL. A separate binary answers them, so that only those who need SQL have to build it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;

use super::sibling;

/// The binary that answers.
const PROGRAM: &str = "memtap-sql";

/// Query traces in SQL
///
/// Runs the binary memtap-sql, which must be next to memtap or on PATH. docs/tables.md describes the tables. With several
/// traces each table has a column `trace` in front. Without a query, memtap prompts for queries.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The traces, followed by the query
    #[arg(required = true, value_name = "FILE... [QUERY]")]
    words: Vec<OsString>,
    #[command(flatten)]
    output: OutputArgs,
}

/// How the rows of an answer are written.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Output format [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = ["table", "json", "csv", "arrow", "parquet"])]
    format: Option<String>,
    /// The file to write; needed for parquet
    #[arg(short, long, value_name = "OUT", value_parser = crate::new_file::name())]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

impl OutputArgs {
    /// Gives them to the other binary.
    pub(super) fn give(&self, command: &mut Command) {
        if let Some(format) = &self.format {
            command.arg("--format").arg(format);
        }
        if let Some(output) = &self.output {
            command.arg("--output").arg(output);
        }
        command.args(self.force.then_some("--force"));
    }
}

impl Args {
    /// A query whose rows become a Parquet file.
    pub(crate) fn parquet(file: &Path, query: &str, output: &Path, is_forced: bool) -> Self {
        Self {
            words: vec![file.into(), query.into()],
            output: OutputArgs {
                format: Some("parquet".to_owned()),
                output: Some(output.to_owned()),
                force: is_forced,
            },
        }
    }
}

/// The other binary.
pub(super) fn program() -> Result<PathBuf> {
    sibling::find(PROGRAM)
}

/// Becomes the other binary. `symbols` and `strict` are options that all commands have.
pub(crate) fn run(args: &Args, symbols: &[PathBuf], strict: bool) -> Result<ExitCode> {
    let program = program()?;
    let mut command = Command::new(&program);
    args.output.give(&mut command);
    for dir in symbols {
        command.arg("--symbols").arg(dir);
    }
    command.args(strict.then_some("--strict"));
    command.arg("--").args(&args.words);
    Err(command.exec()).with_context(|| format!("{}: can't be started", program.display()))
}

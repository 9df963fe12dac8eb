//! `memtap catalogue`: summary data of many traces in one folder. It runs the binary of `memtap sql`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use super::sql::{self, OutputArgs};

/// Summarise many traces in one folder, and query them in SQL
///
/// The folder has Parquet files, which DuckDB, Spark and Trino read as they are: a row for each run, and the frames, pages and variables of all.
/// docs/tables.md describes the tables. The binary memtap-sql does the work, which is looked for beside memtap and on PATH.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add traces; exits with status 1 if one can't be added
    Add {
        /// The folder; created if it does not exist
        dir: PathBuf,
        /// The traces
        #[arg(required = true, value_name = "FILE")]
        traces: Vec<PathBuf>,
        /// Replace traces that are already in the catalogue
        #[arg(long)]
        force: bool,
    },
    /// Query the tables runs, frames, pages and variables
    Query {
        /// The folder
        dir: PathBuf,
        /// The query
        query: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Becomes the other binary. `symbols` is an option that all commands have.
pub(crate) fn run(args: &Args, symbols: &[PathBuf]) -> Result<ExitCode> {
    let program = sql::program()?;
    let mut command = Command::new(&program);
    command.arg("--catalogue");
    match &args.command {
        Action::Add { dir, traces, force } => {
            command.arg("add").args(force.then_some("--force"));
            for dir in symbols {
                command.arg("--symbols").arg(dir);
            }
            command.arg("--").arg(dir).args(traces);
        }
        Action::Query { dir, query, output } => {
            command.arg("query");
            output.give(&mut command);
            command.arg("--").arg(dir).arg(query);
        }
    }
    Err(command.exec()).with_context(|| format!("{}: can't be started", program.display()))
}

//! `memtap catalogue`: summary data of many traces, as folders of Parquet files that any engine reads without memtap.
//!
//! Each *data set* is a folder with one file per run, named by the run's identity. `runs` has one row per run;
//! `frames`, `pages` and `variables` are the tables of these names with an additional first column `run`. Single
//! accesses stay in the traces. A run is in the catalogue once its file in `runs` exists, which is written last.

mod add;
mod query;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use memtap_arrow::TraceTable;

use trace_sql::OutputArgs;

/// The first argument, where the catalogue is meant and not a query.
pub(crate) const WORD: &str = "--catalogue";
/// The data set with a row a run.
const RUNS: &str = "runs";
/// The others: tables of traces.
const TABLES: [TraceTable; 3] = [TraceTable::Frames, TraceTable::Pages, TraceTable::Variables];

/// Summarise many traces in one folder, and query them in SQL
#[derive(Debug, Parser)]
#[command(name = "memtap catalogue", bin_name = "memtap catalogue")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add traces: a row for each in `runs`, and their frames, pages and variables
    Add {
        /// The folder; created if it does not exist
        dir: PathBuf,
        /// The traces
        #[arg(required = true, value_name = "FILE")]
        traces: Vec<PathBuf>,
        /// Replace traces that are already in the catalogue
        #[arg(long)]
        force: bool,
        /// Look for the files that the traces' names come from in this directory, too (may be given several times)
        #[arg(long, value_name = "DIR")]
        symbols: Vec<PathBuf>,
    },
    /// Query the tables runs, frames, pages and variables of all runs
    Query {
        /// The folder
        dir: PathBuf,
        /// The query
        query: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add { dir, traces, force, symbols } => add::add(dir, traces, symbols, *force),
        Command::Query { dir, query, output } => {
            query::ask(dir, query, output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

//! `memtap mcp`: a trace as tools of the Model Context Protocol, so that an agent or an editor can ask about it.
//!
//! Each tool runs one command of memtap that prints JSON: figures, names and errors are those of the command line (docs/json.md).
//! An answer is bounded in rows and bytes, counts what it leaves out, and ends with the command that prints all of it. What the
//! command says on standard error (damage, missing events) is part of the answer. Start with `tools.rs`.
#![forbid(unsafe_code)]

mod bounded;
mod command;
mod questions;
mod source;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use rmcp::ServiceExt;

use command::Commands;
use tools::TraceTools;

/// Answers questions about a trace as a server of the Model Context Protocol, on standard input and output
#[derive(Debug, Parser)]
#[command(name = "memtap-mcp", version)]
struct Args {
    /// The trace
    file: PathBuf,
    /// The memtap that answers [default: the one beside this program, or else on PATH]
    #[arg(long, value_name = "PROGRAM")]
    memtap: Option<PathBuf>,
    /// Also look in this directory for the files that names come from (may be given several times)
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,
}

/// memtap: the one beside this program, or else on PATH.
fn memtap() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name("memtap"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("memtap"))
}

async fn serve(args: Args) -> Result<()> {
    let commands = Commands::new(args.memtap.unwrap_or_else(memtap), &args.file, &args.symbols);
    // Better a line now than an error for each question.
    let totals = commands.output(&["stat", "--json"]).await?;
    if totals.status != 0 {
        bail!("{}", totals.notes.join("; "));
    }
    let running = TraceTools::new(commands)
        .serve(rmcp::transport::stdio())
        .await
        .context("standard input is no client of the Model Context Protocol; an agent or an editor starts this program (see the guide)")?;
    running.waiting().await.context("the connection to the client broke")?;
    Ok(())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("memtap: can't start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memtap: {error:#}");
            ExitCode::FAILURE
        }
    }
}

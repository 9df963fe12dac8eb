//! `memtap mcp`: a trace as tools for an agent or an editor. It runs the binary of its own crate.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;

use super::sibling;

/// Let an agent or an editor ask about a trace
///
/// Speaks the Model Context Protocol on standard input and output: the agent starts this command and gets tools for report, layout,
/// errors, races, cache lines, source lines, single accesses and SQL. Runs the binary memtap-mcp, which must be next to memtap or on
/// PATH. docs/guide.md says how agents and editors are told of it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
}

/// Becomes the other binary, which runs this one for each question. `symbols` is an option that all commands have.
pub(crate) fn run(args: &Args, symbols: &[PathBuf]) -> Result<ExitCode> {
    let program = sibling::find("memtap-mcp")?;
    let memtap = std::env::current_exe().context("the path of this program is unknown")?;
    let mut command = Command::new(&program);
    command.arg("--memtap").arg(memtap);
    for dir in symbols {
        command.arg("--symbols").arg(dir);
    }
    command.arg("--").arg(&args.file);
    Err(command.exec()).with_context(|| format!("{}: can't be started", program.display()))
}

//! `memtap man`: manual pages, from the definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, Parser};

/// Write manual pages to a directory: memtap.1, and one for each command
///
/// memtap man ~/.local/share/man/man1; then man memtap-record
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The directory; created if it does not exist
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, command: Command) -> Result<ExitCode> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("{}: can't be made", dir.display()))?;
    // A page's date and version would be those of its build; the version alone is enough.
    let command = command.version(env!("CARGO_PKG_VERSION"));
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("{}: manual pages can't be written", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

//! memtap: the command line. One command a file under `cmd`; this is only their table.
#![forbid(unsafe_code)]

mod cmd {
    pub(crate) mod record;
}
mod record;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows what a program does to its memory: every access, by variable and allocation
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(cmd::record::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Record(args) => cmd::record::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("memtap: {error:#}");
        ExitCode::from(1)
    })
}

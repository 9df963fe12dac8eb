//! `memtap archive`: copies the files that the names of a trace come from, and keeps them beside it.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::Session;
use anyhow::{Result, bail};
use clap::Parser;
use report::amount;
use serde_json::json;

use crate::inputs;
use crate::output::note_problems;

/// Save the symbols a trace needs next to it, in FILE.symbols
///
/// Names of functions, variables and lines come from the program's file and its libraries. Every command also looks in FILE.symbols, so
/// that a trace keeps its names on a machine without these files, or after they were rebuilt.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// Save them in this directory instead, for use with --symbols
    #[arg(short, long, value_name = "DIR", value_parser = crate::new_file::name())]
    output: Option<PathBuf>,
    /// As a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::session(&args.file)?;
    let directory = args.output.clone().unwrap_or_else(|| Session::archive_of(&args.file));
    let archived = session.archive(&directory)?;
    if args.json {
        println!(
            "{}",
            json!({
                "directory": directory, "modules": archived.modules, "files": archived.files,
                "bytes": archived.bytes, "missing": archived.missing,
            })
        );
    } else {
        let (modules, files) = (amount(archived.modules, "module"), amount(archived.files, "file"));
        println!("{}: {modules} in {files}, {}", directory.display(), amount(archived.bytes, "byte"));
    }
    note_problems(&session);
    if !archived.missing.is_empty() {
        bail!(
            "{}: {} of its modules are not archived; name the directory that has them with --symbols",
            args.file.display(),
            archived.missing.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

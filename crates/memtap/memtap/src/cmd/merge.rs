//! `memtap merge`: merges several traces into one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use trace_format::{CreateOptions, FileSink, Level, Trace};

use crate::inputs;

/// Merge several traces into one; processes and threads are renumbered
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The traces, at least two
    #[arg(required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name())]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Compress better, but slower
    #[arg(long)]
    archive: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut traces = Vec::new();
    for file in &args.files {
        super::refuse_same(file, &args.output)?;
        traces.push(inputs::trace(file)?);
    }
    let options = CreateOptions {
        force: args.force,
        data: traces.iter().any(Trace::has_data),
        segment_entries: 1 << 21,
        level: if args.archive { Level::Archive } else { Level::Standard },
        ..Default::default()
    };
    let sink = Arc::new(FileSink::create(&args.output, options.clone())?);
    let merged = trace_format::merge(&traces, sink, options);
    if merged.is_err() {
        let _ = std::fs::remove_file(&args.output);
    }
    merged?;
    Ok(ExitCode::SUCCESS)
}

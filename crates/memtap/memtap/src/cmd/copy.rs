//! `memtap copy`: encodes a trace, or a part of it, anew.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use trace_format::{CopyOptions, CreateOptions, FileSink, Level, SegmentSink, StreamKind, SyncPolicy};

use super::dump::parse_range;
use crate::inputs;
use report::amount;

/// Copy a trace or a part of it, re-encoding it
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// The trace to write
    #[arg(short, long, value_name = "FILE", value_parser = crate::new_file::name())]
    output: PathBuf,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Only events at these cycles
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    cycles: Option<Range<u64>>,
    /// Only what was recorded in these seconds since the trace was created
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    seconds: Option<Range<u64>>,
    /// Leave out streams of this name (may be given several times)
    #[arg(long, value_name = "NAME")]
    drop: Vec<String>,
    /// Compress better, but slower
    #[arg(long)]
    archive: bool,
    /// How accesses are encoded, if not with access
    #[arg(long, value_name = "NAME", value_parser = super::encoders(), conflicts_with = "archive")]
    encoder: Option<u32>,
    /// Sync the copy to disk before memtap exits
    #[arg(long)]
    sync: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    super::refuse_same(&args.file, &args.output)?;
    let trace = inputs::trace(&args.file)?;
    for name in &args.drop {
        let current = StreamKind::current_name(name);
        if !trace.streams().any(|stream| stream.description.name == current) {
            let mut names: Vec<String> =
                trace.streams().map(|stream| stream.description.name.to_string()).collect();
            names.sort_unstable();
            names.dedup();
            bail!("{}: has no stream {name:?}; it has {}", args.file.display(), names.join(", "));
        }
    }
    let level = if args.archive { Level::Archive } else { Level::Standard };
    let created = trace.created_ns();
    let ns = |seconds: u64| created.saturating_add(seconds.saturating_mul(1_000_000_000));
    let options = CopyOptions {
        cycles: args.cycles.clone(),
        wall_ns: args.seconds.as_ref().map(|range| ns(range.start)..ns(range.end)),
        drop: args.drop.clone(),
        level,
        encoder: args.encoder,
        ..Default::default()
    };
    let sync = if args.sync { SyncPolicy::AtFinish } else { SyncPolicy::Never };
    let create = CreateOptions { force: args.force, level, sync, ..Default::default() };
    let sink = FileSink::create(&args.output, create)?;
    let copied = trace_format::copy(&trace, &sink, &options).and_then(|report| {
        sink.finish(args.sync)?;
        Ok(report)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&args.output);
    }
    let report = copied?;
    if report.lost > 0 {
        let (file, lost) = (args.file.display(), amount(report.lost, "entry"));
        say!("memtap: {file}: damaged or missing, and gaps in the copy: {lost}");
    }
    Ok(ExitCode::SUCCESS)
}

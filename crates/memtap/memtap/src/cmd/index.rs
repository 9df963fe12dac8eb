//! `memtap index`: builds the page index of a trace once, for all later queries by address.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use report::amount;
use serde_json::json;
use trace_format::{NoIndex, PageIndex, Trace};

use crate::inputs;
use crate::output::Out;
use crate::progress::Indexing;

/// Build a trace's page index, next to it
///
/// FILE.mtx says which pages and cache lines each part of the trace touched. heatmap, report --by page and dump --range 0xA..0xB use it
/// if it exists. If the trace changes, memtap rebuilds it; you can delete it at any time.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// Rebuild it even if there is an up-to-date one
    #[arg(long)]
    force: bool,
    /// Print what it holds as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let trace = inputs::trace(&args.file)?;
    let path = PageIndex::path(&args.file);
    let present = match PageIndex::open(&trace) {
        Ok(index) if !args.force => Some(index),
        Err(why @ NoIndex::Damaged(_)) => {
            say!("memtap: note: {}: {why}; memtap builds it again", path.display());
            None
        }
        _ => None,
    };
    let built = present.is_none();
    let index = match present {
        Some(index) => index,
        None => build(&trace)?,
    };
    let accesses: u64 = trace.threads().iter().map(|record| trace.shard(record.thread).access_count()).sum();
    let (frames, unreadable) = index.frames();
    let bytes_per_access = index.file_bytes() as f64 / accesses.max(1) as f64;
    let mut out = Out::stdout();
    if args.json {
        let value = json!({
            "index": path.display().to_string(),
            "built": built,
            "bytes": index.file_bytes(),
            "accesses": accesses,
            "bytes_per_access": bytes_per_access,
            "frames": frames,
            "coarse_frames": index.coarse_frames(),
            "unreadable_frames": unreadable,
            "unreadable_accesses": index.unreadable_entries(),
        });
        out.line(&value.to_string())?;
    } else {
        let done = if built { "written" } else { "up to date" };
        out.line(&format!(
            "{}: {done}: {} in {}, {}, {bytes_per_access:.5} an access",
            path.display(),
            amount(accesses, "access"),
            amount(frames as u64, "frame"),
            amount(index.file_bytes(), "byte"),
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Builds it, with a line that shows how far it is where a person watches.
fn build(trace: &Trace) -> Result<PageIndex> {
    let mut progress = Indexing::new();
    let built = PageIndex::build(trace, analysis::threads(), &mut |step| progress.show(step.done, step.all));
    built.with_context(|| format!("{}: its index can't be built", trace.path().display()))
}

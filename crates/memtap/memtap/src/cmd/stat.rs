//! `memtap stat`: the totals of a trace (MadT, Table III). Accesses are counted from the headers of frames.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use report::tables;
use report::tables::totals::Totals;

use crate::inputs;
use crate::output::Out;

/// Print the totals of a trace
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// Print the streams of the file instead: bytes, frames, entries, bytes per entry, thread, name
    #[arg(long)]
    streams: bool,
}

pub(crate) fn run(args: &Args, strict: bool) -> Result<ExitCode> {
    let session = inputs::session(&args.file)?;
    if strict {
        // Counts come from headers, so that damage elsewhere would not be met.
        session.trace().verify_checksums(analysis::threads())?;
    }
    let mut out = Out::stdout();
    if args.streams {
        tables::totals::streams(session.trace(), &mut out)?;
    } else {
        let totals = Totals::of(&session)?;
        if args.json { tables::json(&totals.to_json(), &mut out)? } else { totals.text(&mut out)? }
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

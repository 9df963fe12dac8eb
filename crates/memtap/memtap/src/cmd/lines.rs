//! `memtap lines`: cache lines that one thread writes and another uses.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::lines::LineUses;
use anyhow::Result;
use clap::Parser;
use report::tables::lines::{lines_json, lines_text};

use crate::inputs;
use crate::output::{Out, note_problems};

/// Find cache lines that one thread writes and another uses: false and true sharing, and what to pad
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As JSON: all of them
    #[arg(long)]
    json: bool,
    /// Show this many of each kind
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show all, including those of the C library
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = inputs::program_session(&args.file, "lines")?;
    let uses = LineUses::of(&session)?;
    let missing = uses.missing;
    let groups = uses.groups(&session);
    let mut out = Out::stdout();
    if args.json {
        lines_json(&groups, missing > 0, &mut out)?;
    } else {
        let look = out.look(false);
        lines_text(&groups, args.top, args.all, look, &mut out)?;
    }
    out.finish()?;
    note_problems(&session);
    if missing > 0 {
        say!(
            "memtap: note: {} from the trace; more lines may be shared, or more often",
            report::missing(missing)
        );
    }
    Ok(ExitCode::SUCCESS)
}

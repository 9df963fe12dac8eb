//! `memtap check`: whether a trace is complete, and what can still be read if it is not.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use report::amount;

use crate::inputs;
use crate::output::Out;

/// Check whether a trace is intact, and what of a damaged one can be read
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// Replace a damaged trace by its readable parts; what each thread lost becomes a gap
    #[arg(long)]
    repair: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let trace = inputs::trace(&args.file)?;
    // This command tells more than the line that others end with.
    inputs::told();
    let report = trace.check()?;
    let mut out = Out::stdout();
    for finding in &report.findings {
        out.line(&finding.to_string())?;
    }
    let frames = amount(report.readable_frames, "frame");
    let readable = format!("{} in {frames}", amount(report.readable_entries, "entry"));
    if report.is_sound() {
        out.line(&format!("sound: {readable}"))?;
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    out.line(&format!("readable: {readable}; known to be lost: {}", amount(report.lost_entries, "entry")))?;
    out.finish()?;
    let file = args.file.display();
    if args.repair {
        let lost = trace_format::repair(&trace)?;
        say!("memtap: {file}: repaired; lost, and now shown as gaps: {}", amount(lost, "entry"));
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "memtap: {file}: the trace is damaged; what is readable can be used, missing parts show as gaps; --repair removes what is not"
    );
    Ok(ExitCode::FAILURE)
}

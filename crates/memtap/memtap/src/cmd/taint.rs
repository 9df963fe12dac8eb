//! `memtap taint`: what input reaches. It needs a trace of the translating tracer, and refuses others.

use std::process::ExitCode;

use analysis::taint::Taint;
use anyhow::{Context, Result};
use clap::Parser;
use report::tables::findings;

use super::analysis_args::AnalysisArgs;
use crate::inputs;
use crate::output::{Out, note_problems};

/// Follow input (read, recv, mapped files, the command line) through memory and registers to jumps, system calls and format strings.
/// Needs a trace of a translated program, which memtap record makes by default
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    shared: AnalysisArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let shared = &args.shared;
    let session = inputs::session(&shared.file)?;
    let units = shared.units();
    let mut tool = Taint::new(&session, units.as_deref().unwrap_or(&[]))
        .with_context(|| shared.file.display().to_string())?;
    session.replay(&Default::default(), None, &mut tool)?;
    if units.is_some() {
        let model = shared.model();
        let baseline = "looking every access up in software";
        shared.print_units("taint", baseline, &model, &tool.figures(&model))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = Out::stdout();
    findings(&tool.findings(), shared.json, "no input was seen to decide", &mut out)?;
    out.finish()?;
    note_problems(&session);
    if tool.missing > 0 {
        say!(
            "memtap: note: {} from the trace; input that went through them is not followed (memtap stat says what is missing)",
            report::missing(tool.missing)
        );
    }
    if tool.lost > 0 {
        say!(
            "memtap: note: {} times the instructions between two accesses were not found; registers were taken for clean there",
            tool.lost
        );
    }
    Ok(ExitCode::SUCCESS)
}

//! `memtap determinism`: which regions of threads would run again if forks and joins merged their memory.

use std::process::ExitCode;

use analysis::determinism::{Determinism, name_fields};
use analysis::needs_synchronisation;
use analysis::watch_units::ReadWriteSets;
use anyhow::{Context, Result};
use clap::Parser;
use report::tables;

use super::analysis_args::AnalysisArgs;
use crate::inputs;
use crate::output::{Out, note_problems};

/// Find regions that would roll back under deterministic execution (Grace), by page, cache line and byte
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    shared: AnalysisArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let shared = &args.shared;
    let session = inputs::session(&shared.file)?;
    needs_synchronisation(&session).with_context(|| shared.file.display().to_string())?;
    if let Some(kinds) = shared.units() {
        let mut tool = ReadWriteSets::new(&kinds);
        session.replay(&Default::default(), None, &mut tool)?;
        let model = shared.model();
        let baseline = "watchpoints in virtual memory, a page at a time";
        shared.print_units("determinism", baseline, &model, &tool.figures(&model))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut tool = Determinism::default();
    session.replay(&Default::default(), None, &mut tool)?;
    let missing = tool.missing;
    let mut regions = tool.into_regions();
    name_fields(&session, &mut regions)?;
    let mut out = Out::stdout();
    tables::determinism::write(&regions, missing, shared.json, &mut out)?;
    out.finish()?;
    note_problems(&session);
    if missing > 0 {
        say!(
            "memtap: note: {} from the trace; more regions may roll back, or fewer",
            report::missing(missing)
        );
    }
    Ok(ExitCode::SUCCESS)
}

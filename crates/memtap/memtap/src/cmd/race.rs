//! `memtap race`: accesses that no synchronisation orders.

use std::process::ExitCode;

use analysis::needs_synchronisation;
use analysis::race::FoundRaces;
use analysis::watch_units::Sharing;
use anyhow::{Context, Result};
use clap::Parser;
use report::tables::findings;
use report::tables::races::races_text;

use super::analysis_args::AnalysisArgs;
use crate::inputs;
use crate::output::{Out, note_problems, working_directory};

/// The exit status of `--fail-on-race` where there is one.
const STATUS_RACE: u8 = 3;

/// Find data races: accesses to the same bytes without synchronisation between them
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    shared: AnalysisArgs,
    /// Print SARIF 2.1.0, which editors and code review services show next to the code; paths below the working directory are relative to it
    #[arg(long, conflicts_with_all = ["json", "unit"])]
    sarif: bool,
    /// Also show races in code without source lines, which may be accesses to atomic variables; without this option only their number is printed (JSON has all)
    #[arg(long)]
    all: bool,
    /// Exit with status 3 if there is a race
    #[arg(long)]
    fail_on_race: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let shared = &args.shared;
    let session = inputs::session(&shared.file)?;
    needs_synchronisation(&session).with_context(|| shared.file.display().to_string())?;
    if let Some(kinds) = shared.units() {
        let mut tool = Sharing::new(&kinds);
        session.replay(&Default::default(), None, &mut tool)?;
        let model = shared.model();
        let baseline = "checking read and write sets in software";
        shared.print_units("race", baseline, &model, &tool.figures(&model))?;
        return Ok(ExitCode::SUCCESS);
    }
    let FoundRaces { races, runtimes, possibly_ordered } = FoundRaces::of(&session)?;
    let mut out = Out::stdout();
    if args.sarif {
        report::sarif::races(&races, &working_directory()?, &mut out)?;
    } else if shared.json {
        findings(&races, true, "", &mut out)?;
    } else {
        races_text(&races, args.all, &mut out)?;
    }
    out.finish()?;
    note_problems(&session);
    if races.iter().any(|race| race.uncertain) {
        say!(
            "memtap: note: events are missing from the trace; they could have ordered what is reported (memtap stat says what is missing)"
        );
    }
    let runtimes: Vec<String> = runtimes.into_iter().collect();
    if !runtimes.is_empty() {
        say!(
            "memtap: note: what threads do inside of {} is not modelled: all of it counts as synchronisation, so that races of the program's own may be missed",
            runtimes.join(", ")
        );
    }
    if possibly_ordered > 0 {
        say!(
            "memtap: note: {possibly_ordered} more are not reported, because atomic variables may order them: of plain moves to these the trace does not tell which came first (memtap record --tracer protect orders them)"
        );
    }
    let failed = args.fail_on_race && !races.is_empty();
    Ok(if failed { ExitCode::from(STATUS_RACE) } else { ExitCode::SUCCESS })
}

//! `memtap determinism`: which parts of threads would run again if forks and joins merged their memory.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::demand::ReadWriteSets;
use analysis::determinism::{Determinism, Granularity, Region};
use analysis::{Session, needs_synchronisation};
use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Value, json};

use super::units::{self, UnitArgs};
use crate::output::{Out, note_problems};

/// Find regions that would roll back under deterministic execution (Grace), by page, cache line and byte
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    units: UnitArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    needs_synchronisation(&session).with_context(|| args.file.display().to_string())?;
    if let Some(kinds) = args.units.kinds() {
        let mut tool = ReadWriteSets::new(&kinds);
        session.replay(&Default::default(), None, &mut tool)?;
        let model = args.units.model();
        let baseline = "watchpoints in virtual memory, a page at a time";
        units::print("determinism", baseline, &model, &tool.figures(&model), args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut tool = Determinism::default();
    session.replay(&Default::default(), None, &mut tool)?;
    let missing = tool.missing;
    let regions = tool.into_regions();
    let mut out = Out::stdout();
    if args.json {
        let all: Vec<Value> =
            regions.iter().enumerate().map(|(index, region)| to_json(index, region)).collect();
        let object = json!({
            "regions": all,
            "rollbacks": {
                "page": rollbacks(&regions, Granularity::Page), "line": rollbacks(&regions, Granularity::Line),
                "byte": rollbacks(&regions, Granularity::Byte),
            },
            "uncertain": missing > 0,
        });
        out.line(&serde_json::to_string_pretty(&object)?)?;
    } else {
        text(&mut out, &regions)?;
    }
    out.finish()?;
    note_problems(&session);
    if missing > 0 {
        eprintln!(
            "memtap: note: {missing} events are missing from the trace; more regions may roll back, or fewer"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Regions that would roll back where reads and writes are known that exactly: finer conflicts are coarser ones too.
fn rollbacks(regions: &[Region], granularity: Granularity) -> usize {
    regions
        .iter()
        .filter_map(|region| region.conflict.as_ref())
        .filter(|c| c.granularity >= granularity)
        .count()
}

fn to_json(index: usize, region: &Region) -> Value {
    let counts = |[pages, lines, bytes]: [u64; 3]| json!({"pages": pages, "lines": lines, "bytes": bytes});
    let conflict = region.conflict.as_ref();
    let rolls_back = |granularity| conflict.is_some_and(|conflict| conflict.granularity >= granularity);
    json!({
        "region": index, "thread": region.thread.0, "process": region.process.0, "function": region.function,
        "file": region.file, "line": region.line, "reads": counts(region.reads), "writes": counts(region.writes),
        "rolls_back": {
            "page": rolls_back(Granularity::Page), "line": rolls_back(Granularity::Line),
            "byte": rolls_back(Granularity::Byte),
        },
        "false_sharing": conflict.is_some_and(|conflict| conflict.granularity != Granularity::Byte),
        "with": conflict.map(|conflict| conflict.with),
        "variable": conflict.map(|conflict| conflict.variable.clone()),
    })
}

fn text(out: &mut Out, regions: &[Region]) -> Result<()> {
    for (index, region) in regions.iter().enumerate() {
        let Some(conflict) = &region.conflict else { continue };
        let why = match conflict.granularity {
            Granularity::Byte => "shares bytes",
            Granularity::Line => "shares cache lines, but no byte,",
            Granularity::Page => "shares pages, but no cache line,",
        };
        let line = region.line.map_or(String::new(), |line| format!(":{line}"));
        let place = region.file.as_ref().map_or(String::new(), |file| format!(" ({file}{line})"));
        out.line(&format!(
            "region {index}, thread {} from {}{place}: rolls back, it {why} with region {} ({})",
            region.thread.0, region.function, conflict.with, conflict.variable
        ))?;
    }
    for (name, granularity) in
        [("page", Granularity::Page), ("64-byte line", Granularity::Line), ("byte", Granularity::Byte)]
    {
        let count = rollbacks(regions, granularity);
        out.line(&format!("by {name}: {count} of {} regions roll back", regions.len()))?;
    }
    Ok(())
}

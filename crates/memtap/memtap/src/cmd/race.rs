//! `memtap race`: accesses that no synchronisation orders.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::demand::Sharing;
use analysis::race::{Race, Races, Side};
use analysis::{Session, needs_synchronisation, orders_atomics};
use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Value, json};

use super::units::{self, UnitArgs};
use crate::output::{Out, call_json, note_problems, print_found};

/// The exit status of `--fail-on-race` where there is one.
const STATUS_RACE: u8 = 3;

/// Find data races: accesses to the same bytes that no synchronisation of the program orders
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace
    file: PathBuf,
    /// As a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    units: UnitArgs,
    /// Exit with status 3 if there is a race
    #[arg(long)]
    fail_on_race: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    needs_synchronisation(&session).with_context(|| args.file.display().to_string())?;
    if let Some(kinds) = args.units.kinds() {
        let mut tool = Sharing::new(&kinds);
        session.replay(&Default::default(), None, &mut tool)?;
        let model = args.units.model();
        let baseline = "checking read and write sets in software";
        units::print("race", baseline, &model, &tool.figures(&model), args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ordered = orders_atomics(&session);
    let mut tool = if ordered { Races::default() } else { Races::without_order_of_atomics() };
    session.replay(&Default::default(), None, &mut tool)?;
    let (races, possibly_ordered) = tool.into_races();
    print_found(&races, args.json, to_json, text, "no race was seen")?;
    note_problems(&session);
    if races.iter().any(|race| race.uncertain) {
        eprintln!(
            "memtap: note: events are missing from the trace; they could have ordered what is reported (memtap stat says what is missing)"
        );
    }
    if possibly_ordered > 0 {
        eprintln!(
            "memtap: note: {possibly_ordered} more are not reported, because atomic variables may order them: of plain moves to these the trace does not tell which came first (memtap record --tracer protect orders them)"
        );
    }
    let failed = args.fail_on_race && !races.is_empty();
    Ok(if failed { ExitCode::from(STATUS_RACE) } else { ExitCode::SUCCESS })
}

fn to_json(race: &Race) -> Value {
    let side = |side: &Side| {
        json!({
            "function": side.function, "file": side.file, "line": side.line, "thread": side.thread.0,
            "kind": side.kind.name(), "locks": side.locks,
            "stack": side.stack.iter().map(call_json).collect::<Vec<_>>(),
        })
    };
    let mut object = json!({
        "variable": race.variable, "len": race.len, "first": side(&race.first), "second": side(&race.second),
        "times": race.times,
    });
    if race.uncertain
        && let Some(object) = object.as_object_mut()
    {
        object.insert("uncertain".into(), Value::Bool(true));
    }
    object
}

fn text(out: &mut Out, race: &Race) -> Result<()> {
    let times = if race.times == 1 { String::new() } else { format!(", {} times", race.times) };
    let uncertain = if race.uncertain { " (uncertain: events are missing)" } else { "" };
    out.line(&format!("race on {} ({} bytes{times}){uncertain}", race.variable, race.len))?;
    for side in [&race.first, &race.second] {
        let place = match (&side.file, side.line) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            (Some(file), None) => format!(" ({file})"),
            _ => String::new(),
        };
        let locks = if side.locks.is_empty() { "no lock".to_owned() } else { side.locks.join(", ") };
        out.line(&format!(
            "  {} by thread {} in {}{place}, holding {locks}",
            side.kind, side.thread.0, side.function
        ))?;
        for caller in side.stack.iter().skip(1) {
            let function = caller.function.as_deref().unwrap_or("?");
            let place = match (&caller.file, caller.line) {
                (Some(file), Some(line)) => format!(" ({file}:{line})"),
                _ => String::new(),
            };
            out.line(&format!("    called by {function}{place}"))?;
        }
    }
    Ok(())
}

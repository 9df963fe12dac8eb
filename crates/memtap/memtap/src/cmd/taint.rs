//! `memtap taint`: what input reaches. It needs every instruction; a trace of accesses alone is refused.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::Session;
use analysis::taint::{Finding, Spot, Taint};
use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Value, json};

use super::units::{self, UnitArgs};
use crate::output::{Out, note_problems, print_found};

/// Follow input (read, recv, mapped files, the command line) through memory and registers to jumps, system calls and formats
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The trace of a translated program, as memtap record makes it by default
    file: PathBuf,
    /// As a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    units: UnitArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let session = Session::open(&args.file)?;
    let shown = || args.file.display().to_string();
    let kinds = args.units.kinds();
    let mut tool = Taint::new(&session, kinds.as_deref().unwrap_or(&[])).with_context(shown)?;
    session.replay(&Default::default(), None, &mut tool)?;
    if kinds.is_some() {
        let model = args.units.model();
        let baseline = "looking every access up in software";
        units::print("taint", baseline, &model, &tool.figures(&model), args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_found(&tool.findings(), args.json, to_json, text, "no input was seen to decide")?;
    note_problems(&session);
    if tool.missing > 0 {
        eprintln!(
            "memtap: note: {} events are missing from the trace; input that went through them is not followed (memtap stat says what is missing)",
            tool.missing
        );
    }
    if tool.lost > 0 {
        eprintln!(
            "memtap: note: {} times the instructions between two accesses were not found; registers were taken for clean there",
            tool.lost
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn place(spot: &Spot) -> Value {
    json!({"function": spot.function, "file": spot.file, "line": spot.line})
}

fn to_json(finding: &Finding) -> Value {
    let source = json!({
        "kind": finding.source.kind, "name": finding.source.name, "offset": finding.offset,
        "at": finding.source.spot.as_ref().map(place),
    });
    let mut object = json!({
        "sink": finding.sink.name(), "detail": finding.detail, "function": finding.at.function, "file": finding.at.file,
        "line": finding.at.line, "thread": finding.thread.0, "source": source,
        "path": finding.path.iter().map(place).collect::<Vec<_>>(), "times": finding.times,
    });
    if finding.uncertain
        && let Some(object) = object.as_object_mut()
    {
        object.insert("uncertain".into(), Value::Bool(true));
    }
    object
}

fn shown(spot: &Spot) -> String {
    match (&spot.file, spot.line) {
        (Some(file), Some(line)) => format!("{} ({file}:{line})", spot.function),
        (Some(file), None) => format!("{} ({file})", spot.function),
        _ => spot.function.clone(),
    }
}

fn text(out: &mut Out, finding: &Finding) -> Result<()> {
    let times = if finding.times == 1 { String::new() } else { format!(", {} times", finding.times) };
    let uncertain = if finding.uncertain { " (uncertain: events are missing)" } else { "" };
    let (sink, detail) = (finding.sink.name().replace('_', " "), &finding.detail);
    out.line(&format!("input decides: {sink}, {detail}{times}{uncertain}"))?;
    out.line(&format!("  at {} by thread {}", shown(&finding.at), finding.thread.0))?;
    let from = match (&finding.source.spot, &finding.source.name) {
        (Some(spot), _) => format!(" by {}", shown(spot)),
        (None, Some(name)) => format!(" of {name}"),
        _ => String::new(),
    };
    out.line(&format!("  from byte {} of {}{from}", finding.offset, finding.source.kind))?;
    for spot in &finding.path {
        out.line(&format!("    {}", shown(spot)))?;
    }
    Ok(())
}

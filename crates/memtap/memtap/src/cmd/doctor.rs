//! `memtap doctor`: whether programs can be recorded on this machine, and what to do if they can't.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use recorder::{HostFinding, HostState, examine_host};
use serde_json::json;

use crate::output::Out;

/// Check whether this machine can record programs, and what to do if it can't
///
/// Checks the kernel, limits and libraries, records a small program with each tracer, and attaches to one. Changes nothing. Exits with
/// status 1 if programs can't be recorded.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print JSON: an array of {name, state, found, advice, fix}; state is fine, worse or missing
    #[arg(long)]
    json: bool,
    /// Print only the commands that would mend what was found, as a shell script; run none of them
    #[arg(long, conflicts_with = "json")]
    fix: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let findings = examine_host();
    let mut out = Out::stdout();
    if args.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|f| {
                json!({"name": f.name, "state": word(f.state), "found": f.found, "advice": f.advice, "fix": f.fix})
            })
            .collect();
        out.line(&serde_json::to_string_pretty(&rows)?)?;
    } else if args.fix {
        for finding in findings.iter().filter(|finding| finding.state != HostState::Fine) {
            for line in script(finding) {
                out.line(&line)?;
            }
        }
    } else {
        for finding in &findings {
            for line in lines(finding) {
                out.line(&line)?;
            }
        }
    }
    out.finish()?;
    let missing = findings.iter().any(|finding| finding.state == HostState::Missing);
    if missing {
        say!("memtap: programs can't be recorded here: see what is missing above");
    }
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn word(state: HostState) -> &'static str {
    match state {
        HostState::Fine => "fine",
        HostState::Worse => "worse",
        HostState::Missing => "missing",
    }
}

fn lines(finding: &HostFinding) -> Vec<String> {
    let first = format!("{:<8} {:<16} {}", word(finding.state), finding.name, finding.found);
    let advice = Some(&finding.advice).filter(|advice| !advice.is_empty());
    [first].into_iter().chain(advice.map(|advice| format!("{:<25} -> {advice}", ""))).collect()
}

/// What was found, as a comment, and what mends it: a command, or the advice where none is known.
fn script(finding: &HostFinding) -> [String; 2] {
    let what = format!("# {}: {}", finding.name, finding.found.replace('\n', " "));
    let how = match finding.fix.as_str() {
        "" => format!("# {}", finding.advice.replace('\n', " ")),
        command => command.to_owned(),
    };
    [what, how]
}

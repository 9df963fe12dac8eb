//! The findings of memtap on a case: it records the program and analyses the trace.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::judgement::{Judgement, Reported};
use crate::process::{run, shown};
use crate::{CaseQuestion, CorpusCase, CorpusError};

/// Findings that are remarks: nothing is wrong with a block that was not used.
const REMARKS: [&str; 2] = ["unused", "temporary"];

/// Records a built case by the `memtap` at that path, and judges what its commands find.
pub fn judge_by_memtap(memtap: &Path, case: &CorpusCase, binary: &Path) -> Result<Judgement, CorpusError> {
    let dir = tempfile::tempdir().map_err(|error| CorpusError::File { path: std::env::temp_dir(), error })?;
    let trace = dir.path().join("t.memtap");
    let head = &case.head;
    let mut record = Command::new(memtap);
    record.args(["record", "--quiet", "-o"]).arg(&trace).args(&head.record_options).arg("--");
    record.arg(binary).args(&head.arguments);
    let ended = run(&mut record, head.input.as_bytes())?;
    if !trace.exists() {
        return Err(CorpusError::Command { command: shown(&record), problem: ended.stderr });
    }
    let mut ask = Command::new(memtap);
    ask.arg(head.question.name()).arg("--json").args(&head.command_options).arg(&trace);
    let answer = run(&mut ask, b"")?;
    let failed = |problem: String| CorpusError::Command { command: shown(&ask), problem };
    if answer.status != 0 {
        return Err(failed(answer.stderr));
    }
    let findings: Vec<Value> =
        serde_json::from_str(&answer.stdout).map_err(|error| failed(format!("no array of JSON: {error}")))?;
    let reported: Vec<Reported> = findings.iter().filter_map(|one| reported(case, one)).collect();
    Ok(Judgement::of(case, &reported))
}

fn reported(case: &CorpusCase, finding: &Value) -> Option<Reported> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = |value: &Value| Some((text(&value["file"]), value["line"].as_u64()?));
    let reported = match case.head.question {
        CaseQuestion::Errors => {
            let kind = text(&finding["kind"]);
            let detail = text(&finding["leak_kind"]);
            let expects = case.head.expects.iter();
            let is_expected = expects
                .filter(|expect| expect.kind == kind)
                .any(|expect| expect.detail.as_ref().is_none_or(|of| *of == detail));
            // A block that a pointer was left to, or of which nothing is known, is lost only where the case says so.
            let is_reachable = kind == "leak" && (detail.is_empty() || detail == "reachable");
            if REMARKS.contains(&&*kind) || is_reachable && !is_expected {
                return None;
            }
            let at = if finding["access"].is_object() { "access" } else { "allocated" };
            let side = &finding[at];
            let words = format!("{} in {}:{}", text(&finding["what"]), text(&side["function"]), side["line"]);
            Reported { kind, detail, lines: place(side).into_iter().collect(), words }
        }
        CaseQuestion::Race => {
            let variable = text(&finding["variable"]);
            let sides = [&finding["first"], &finding["second"]];
            let words = format!(
                "race for {variable}: {}:{} and {}:{}",
                text(&sides[0]["function"]),
                sides[0]["line"],
                text(&sides[1]["function"]),
                sides[1]["line"]
            );
            let lines = sides.into_iter().filter_map(place).collect();
            Reported { kind: "race".to_owned(), detail: variable, lines, words }
        }
        CaseQuestion::Taint => {
            let (kind, detail) = (text(&finding["sink"]), text(&finding["detail"]));
            let words = format!(
                "{kind}, {detail}, of {} in {}:{}",
                text(&finding["source"]["kind"]),
                text(&finding["function"]),
                finding["line"]
            );
            Reported { kind, detail, lines: place(finding).into_iter().collect(), words }
        }
    };
    Some(reported)
}

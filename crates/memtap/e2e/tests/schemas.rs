//! The output of `--json` matches docs/schema for each command that has a schema, and each schema is named in docs/json.md.

use std::fs;
use std::process::Command;

use e2e::{Recording, TestProgram, fits_schema, memtap, repository, run};
use serde_json::Value;

/// Asserts that an answer fits its schema. Returns it.
fn fits(schema: &str, recording: &Recording, command: &str, options: &[&str]) -> Value {
    let outcome = recording.trace.ask(command, &[options, &["--json"]].concat());
    assert_eq!(outcome.status, 0, "{command} {options:?}: {}", outcome.err());
    fits_schema(schema, &outcome.out())
}

/// The same, of which there is something: an empty array fits everything.
fn fits_and_has_some(schema: &str, recording: &Recording, command: &str, options: &[&str]) -> Value {
    let value = fits(schema, recording, command, options);
    assert!(value.as_array().is_some_and(|rows| !rows.is_empty()), "{command} {options:?}: nothing");
    value
}

#[test]
fn reports_and_totals() {
    let recording = TestProgram::named("heap.c").record_by("translate");
    let stat = fits("stat", &recording, "stat", &[]);
    assert_eq!(stat["gaps"], 0);
    let kinds = ["variable", "local", "field", "function", "line", "allocation", "page", "region", "thread"];
    for kind in kinds {
        fits_and_has_some("report", &recording, "report", &["--by", kind]);
    }
    for pair in ["variable,function", "function,line", "thread,page"] {
        fits_and_has_some("report-pairs", &recording, "report", &["--by", pair]);
    }
    fits_and_has_some("report-stack", &recording, "report", &["--by", "stack"]);
    fits_and_has_some("report-unused", &recording, "report", &["--unused"]);
    for by in ["variable", "line", "stack"] {
        let misses = fits("cache", &recording, "cache", &["--l1", "1k,2,64", "--by", by]);
        assert!(misses["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "{misses}");
    }
    fits("cache", &recording, "cache", &["--l1", "1k,2,64", "--l2", "8k,4,64", "--ll", "64k,8,64"]);
    fits("cache-sweep", &recording, "cache", &["--sweep"]);
}

#[test]
fn totals_of_other_tracers() {
    let closed = TestProgram::named("heap.c").record_by("protect");
    assert_eq!(fits("stat", &closed, "stat", &[])["instructions"], Value::Null);
    let verified = TestProgram::named("heap.c").record_with("translate", &["--verify"]);
    assert_eq!(fits("stat", &verified, "stat", &[])["verified"]["mismatches"], 0);
}

#[test]
fn threads() {
    let racy = TestProgram::named("race/racy_counter.c").record_by("translate");
    fits_and_has_some("race", &racy, "race", &[]);
    let shares = TestProgram::named("race/shares.c").record();
    let merged = fits("determinism", &shares, "determinism", &[]);
    assert!(merged["rollbacks"]["page"].as_u64().is_some_and(|count| count > 0), "{merged}");
    let counters = TestProgram::named("lines/counters.c").record_by("translate");
    fits_and_has_some("lines", &counters, "lines", &[]);
}

#[test]
fn the_heap() {
    let kinds = TestProgram::named("errors/kinds.cpp").record_by("translate");
    fits_and_has_some("errors", &kinds, "errors", &[]);
    let stale = TestProgram::named("stale/read.c").record_by("translate");
    fits_and_has_some("errors", &stale, "errors", &[]);
    let cells = TestProgram::named("layout/cells.c").record_by("translate");
    let nameless = TestProgram::built("layout/cells.c", &["-s"]).record_by("translate");
    fits_and_has_some("layout-offsets", &nameless, "layout", &["--offsets"]);
    fits_and_has_some("layout", &cells, "layout", &[]);
}

#[test]
fn input() {
    let overflow = TestProgram::named("taint/overflow.c").record_with("translate", &["--data"]);
    fits_and_has_some("taint", &overflow, "taint", &[]);
}

#[test]
fn the_machine() {
    let outcome = run(Command::new(memtap()).args(["doctor", "--json"]), b"");
    fits_schema("doctor", &outcome.out());
}

#[test]
fn hits_of_watchpoints() {
    let program = TestProgram::named("race/racy_counter.c");
    let mut command = Command::new(memtap());
    command.args(["watch", "--json", "--write", "counter", "--"]).args(program.command_line());
    let outcome = run(&mut command, b"");
    let hits = outcome.err();
    let hits: Vec<&str> = hits.lines().filter(|line| line.starts_with('{')).take(100).collect();
    assert!(!hits.is_empty(), "{}", outcome.err());
    for hit in hits {
        fits_schema("watch", hit);
    }
}

#[test]
fn each_schema_is_named() {
    let text = fs::read_to_string(repository().join("docs/json.md")).expect("it is there");
    for entry in fs::read_dir(repository().join("docs/schema")).expect("there are schemas") {
        let name = entry.expect("an entry").file_name();
        let link = format!("(schema/{})", name.to_str().expect("UTF-8"));
        assert!(text.contains(&link), "docs/json.md does not link {link}");
    }
}

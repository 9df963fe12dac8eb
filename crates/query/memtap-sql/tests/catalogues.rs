//! `memtap catalogue`: its figures are those of the traces, and traces that can't be added are reported.

use std::path::Path;
use std::process::Command;

use e2e::{Finished, TestProgram, memtap, run};
use serde_json::Value;

fn catalogue(words: &[&str]) -> Finished {
    run(Command::new(memtap()).arg("catalogue").args(words), b"")
}

fn rows(dir: &str, query: &str) -> Vec<Value> {
    let outcome = catalogue(&["query", dir, query, "--format", "json"]);
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{query}");
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is UTF-8")
}

#[test]
fn runs_are_asked_together() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = dir.path().join("all");
    let all = text(&place);
    let recordings = ["containers.cpp", "threads.c", "fork.c"]
        .map(|program| TestProgram::named(program).record_by("translate"));
    let files = recordings.each_ref().map(|recording| text(&recording.trace.path));
    let added = catalogue(&[&["add", all], &files[..]].concat());
    assert_eq!((added.status, added.err()), (0, format!("memtap: {all}: 3 added\n")));

    let runs = rows(all, "SELECT * FROM runs ORDER BY created_ns");
    assert_eq!(runs.len(), 3);
    for (row, recording) in runs.iter().zip(&recordings) {
        assert_eq!(row["path"], text(&recording.trace.path));
        for key in ["processes", "threads", "loads", "stores", "modifies"] {
            assert_eq!(row[key].as_u64(), Some(recording.trace.number(key)), "{key}");
        }
        assert_eq!((&row["closed"], &row["damaged"]), (&Value::Bool(true), &Value::Bool(false)));
    }
    // By run and table the same as in the trace alone.
    for (table, columns) in
        [("variables", "name, loads, stores"), ("pages", "addr, loads, stores"), ("frames", "stream, frame")]
    {
        for (row, file) in runs.iter().zip(files) {
            let order = format!("ORDER BY {columns}");
            let query = format!(
                "SELECT {columns} FROM {table} WHERE run = '{}' {order}",
                row["run"].as_str().expect("text")
            );
            let there = rows(all, &query);
            let alone = format!("SELECT {columns} FROM {table} {order}");
            let alone = run(Command::new(memtap()).args(["sql", file, &alone, "--format", "json"]), b"");
            assert!(!there.is_empty());
            assert_eq!(
                Value::Array(there),
                serde_json::from_slice::<Value>(&alone.stdout).expect("an array"),
                "{table}"
            );
        }
    }

    // Once a run, unless by force.
    let again = catalogue(&["add", all, files[0]]);
    assert_eq!(again.status, 1);
    assert!(again.err().contains("is already in the catalogue"), "{}", again.err());
    assert_eq!(catalogue(&["add", all, files[0], "--force"]).status, 0);
    assert_eq!(rows(all, "SELECT count(*) AS n FROM runs")[0]["n"], 3);
}

#[test]
fn what_can_t_be_added_or_asked_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = dir.path().join("all");
    let all = text(&place);
    let none = catalogue(&["query", all, "SELECT 1"]);
    assert_eq!(none.status, 1);
    assert!(none.err().contains("is not a catalogue; memtap catalogue add makes one"), "{}", none.err());
    let recording = TestProgram::named("statics.c").record();
    let file = text(&recording.trace.path);
    // The others are added.
    let missing = dir.path().join("missing.memtap");
    let added = catalogue(&["add", all, text(&missing), "/bin/true", file]);
    assert_eq!((added.status, added.err().lines().count()), (1, 3), "{}", added.err());
    assert!(
        added.err().contains("missing.memtap: not added") && added.err().ends_with("1 added\n"),
        "{}",
        added.err()
    );
    assert_eq!(rows(all, "SELECT count(*) AS n FROM runs")[0]["n"], 1);
    let wrong = catalogue(&["query", all, "SELECT * FROM run"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.err().contains("there is no table run; the nearest is runs"), "{}", wrong.err());
}

//! Functions that look up names agree with the columns that have them, and say nothing where several answers are possible.

mod common;

use std::path::Path;

use e2e::{Recording, TestProgram};

use common::{ask, number, rows};

/// How many accesses there are of which that is true.
fn count(recording: &Recording, condition: &str) -> u64 {
    number(&rows(recording, &format!("SELECT count(*) AS n FROM accesses WHERE {condition}"))[0], "n")
}

/// The columns `file` and `line` as the function writes them.
const LINE: &str = "CASE WHEN line IS NULL THEN file ELSE concat(file, ':', line) END";

#[test]
fn names_at_moments_are_those_of_the_columns() {
    for program in ["heap.c", "threads.c", "fork.c", "dlopen.c", "contexts.cpp"] {
        let recording = TestProgram::named(program).record_by("translate");
        let none = |condition: &str| assert_eq!(count(&recording, condition), 0, "{program}: {condition}");
        none("variable(addr, cycle, thread) IS DISTINCT FROM variable");
        none(&format!("line(ip, cycle, thread) IS DISTINCT FROM {LINE}"));
        // Where there is an answer without the thread, it is that of each thread.
        none("variable(addr, cycle) <> variable");
        none(&format!("line(ip, cycle) <> {LINE}"));
        assert!(count(&recording, "variable(addr, cycle) IS NOT NULL") > 0, "{program}");
        // And so it is without the cycle, for code that is in a file.
        none(&format!("module IS NOT NULL AND line(ip) <> {LINE}"));
        assert!(count(&recording, "line(ip) IS NOT NULL") > 0, "{program}");
    }
}

#[test]
fn one_thread_is_enough_for_an_answer() {
    let recording = TestProgram::named("heap.c").record_by("translate");
    assert_eq!(count(&recording, "variable(addr, cycle) IS DISTINCT FROM variable"), 0);
    // A block's memory is another block's later.
    let reused = "SELECT count(*) AS n FROM (SELECT addr FROM allocations WHERE kind <> 'free' GROUP BY addr HAVING count(*) > 1)";
    assert!(number(&rows(&recording, reused)[0], "n") > 0, "heap.c uses memory again");
    // The call at which a block was allocated is before the block: names of allocations are of after it.
    let of_blocks = "SELECT count(*) AS n FROM allocations \
         WHERE kind = 'malloc' AND variable(addr, cycle, thread) IS DISTINCT FROM variable";
    assert_eq!(number(&rows(&recording, of_blocks)[0], "n"), 0);
}

#[test]
fn types_are_those_of_report() {
    let recording = TestProgram::named("layout/cells.c").record_by("translate");
    let outcome = recording.trace.ask("report", &["--by", "type", "--json"]);
    let reported: Vec<serde_json::Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
    let asked = rows(
        &recording,
        "SELECT type(variable) AS name, sum(CASE kind WHEN 'load' THEN 1 ELSE 0 END) AS loads, \
         sum(CASE kind WHEN 'store' THEN 1 ELSE 0 END) AS stores, count(DISTINCT variable) AS things \
         FROM accesses WHERE region = 'heap' GROUP BY type(variable)",
    );
    for name in ["cell", "node"] {
        let find = |rows: &[serde_json::Value]| {
            let row = rows.iter().find(|row| row["name"] == name);
            let row = row.unwrap_or_else(|| panic!("no {name} in {rows:?}"));
            ["loads", "stores"].map(|key| number(row, key))
        };
        assert_eq!(find(&asked), find(&reported), "{name}");
    }
    let statics = rows(&recording, "SELECT type('sum') AS one, type('no such thing') AS none");
    assert!(reported.iter().any(|row| row["name"] == statics[0]["one"]), "{statics:?} {reported:?}");
    assert!(statics[0]["none"].is_null(), "{statics:?}");
}

#[test]
fn a_trace_is_named_where_there_are_several() {
    let [first, second] =
        ["integers.c", "heap.c"].map(|file| TestProgram::named(file).record_by("translate"));
    let files = [first.trace.path.as_path(), second.trace.path.as_path()];
    let count = |condition: &str| {
        let query = format!("SELECT count(*) AS n FROM accesses WHERE {condition}");
        let outcome = ask(&files, &[&query, "--format", "csv"]);
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{query}");
        outcome.out().lines().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!(count("variable(addr, cycle, thread, trace) IS DISTINCT FROM variable"), 0);
    assert_eq!(count("variable(addr, cycle, thread) <> variable"), 0);
    assert_eq!(count("variable(addr, cycle, thread, 'no such trace') IS NOT NULL"), 0);
}

#[test]
fn a_wrong_call_says_how_it_is_called() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let file: &Path = &recording.trace.path;
    for (call, usage) in [
        ("variable(addr)", "variable(address, cycle [, thread] [, trace])"),
        ("line(1, 2, 3, 4)", "line(ip [, cycle [, thread]] [, trace])"),
        ("line('main')", "line(ip [, cycle [, thread]] [, trace])"),
        ("type(addr)", "type(variable [, trace])"),
    ] {
        let outcome = ask(&[file], &[&format!("SELECT {call} FROM accesses")]);
        let (status, text) = (outcome.status, outcome.err());
        assert!(status == 1 && text.lines().count() == 1 && text.contains(usage), "{call}: {text}");
    }
    let nothing = "SELECT variable(NULL, 1) AS a, variable(1, NULL) AS b, variable(1, -1) AS c, variable(1, 1, 99) AS d, line(1) AS e";
    for (key, value) in rows(&recording, nothing)[0].as_object().expect("a row") {
        assert!(value.is_null(), "{key}: {value}");
    }
}

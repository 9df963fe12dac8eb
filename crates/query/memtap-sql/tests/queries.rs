//! `memtap sql` on recordings of real programs: its figures are those of
//! `stat` and `report`, and an invalid query gives an error of one line.

mod common;

use std::path::Path;
use std::process::Command;

use e2e::{Recording, TestProgram, memtap, run};
use serde_json::Value;

use common::{ask, number, rows};

fn report(recording: &Recording, by: &str) -> Vec<Value> {
    let outcome = recording.trace.ask("report", &["--by", by, "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

/// Name, loads, stores and modifies of each row, sorted.
fn counts(rows: &[Value]) -> Vec<(String, [u64; 3])> {
    let one = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, ["loads", "stores", "modifies"].map(|key| number(row, key)))
    };
    let mut all: Vec<_> = rows.iter().map(one).collect();
    all.sort();
    all
}

#[test]
fn figures_are_those_of_other_commands() {
    for program in ["containers.cpp", "threads.c"] {
        let recording = TestProgram::named(program).record_by("translate");
        let trace = &recording.trace;
        let of_kinds = rows(&recording, "SELECT kind, count(*) AS n FROM accesses GROUP BY kind");
        for (kind, key) in [("load", "loads"), ("store", "stores"), ("modify", "modifies")] {
            let found = of_kinds.iter().find(|row| row["kind"] == kind).map_or(0, |row| number(row, "n"));
            assert_eq!(found, trace.number(key), "{program}: {kind}");
        }
        let threads = rows(&recording, "SELECT count(*) AS n FROM threads");
        assert_eq!(number(&threads[0], "n"), trace.number("threads"));
        for by in ["variable", "function", "field"] {
            let table = rows(&recording, &format!("SELECT name, loads, stores, modifies FROM {by}s"));
            assert_eq!(counts(&table), counts(&report(&recording, by)), "{program}: {by}");
        }
        // Counted from the accesses, with their names.
        let counted = rows(
            &recording,
            "SELECT function AS name, sum(CASE kind WHEN 'load' THEN 1 ELSE 0 END) AS loads, \
             sum(CASE kind WHEN 'store' THEN 1 ELSE 0 END) AS stores, \
             sum(CASE kind WHEN 'modify' THEN 1 ELSE 0 END) AS modifies FROM accesses GROUP BY function, module",
        );
        let sum = |rows: &[(String, [u64; 3])]| rows.iter().map(|(_, n)| n.iter().sum::<u64>()).sum::<u64>();
        assert_eq!(
            sum(&counts(&counted)),
            trace.number("loads") + trace.number("stores") + trace.number("modifies")
        );
        let pages =
            rows(&recording, "SELECT sum(loads + stores + modifies) AS n, count(*) AS pages FROM pages");
        assert_eq!(number(&pages[0], "n"), sum(&counts(&counted)));
        assert_eq!(number(&pages[0], "pages"), report(&recording, "page").len() as u64);
        let stacks = rows(&recording, "SELECT sum(loads) AS n FROM contexts");
        assert_eq!(number(&stacks[0], "n"), trace.number("loads"));
    }
}

#[test]
fn conditions_leave_out_frames_and_nothing_else() {
    let recording = TestProgram::named("algorithms.c").record_by("translate");
    let count = |condition: &str| {
        let row = rows(&recording, &format!("SELECT count(*) AS n FROM accesses WHERE {condition}"));
        number(&row[0], "n")
    };
    let all = number(&rows(&recording, "SELECT count(*) AS n FROM accesses")[0], "n");
    // The second of each pair can't be pushed into the reading.
    for (pushed, checked) in [
        ("cycle < 500", "cycle + 0 < 500"),
        ("cycle BETWEEN 100 AND 900", "cycle + 0 BETWEEN 100 AND 900"),
        ("kind = 'store'", "concat(kind, '') = 'store'"),
        ("kind IN ('load', 'modify')", "concat(kind, '') IN ('load', 'modify')"),
        ("thread = 0 AND cycle >= 2000", "thread + 0 = 0 AND cycle + 0 >= 2000"),
        ("addr > 1000000", "addr + 0 > 1000000"),
        ("kind = 'nothing'", "1 = 0"),
    ] {
        assert_eq!(count(pushed), count(checked), "{pushed}");
    }
    assert_eq!(count("cycle < 2000") + count("cycle >= 2000"), all);
    let plan =
        ask(&[&recording.trace.path], &["EXPLAIN SELECT ip FROM accesses WHERE cycle > 1000000000000"]).out();
    let frames = plan.split_once("frames=0 of ").and_then(|(_, rest)| rest.split_once(" (skipped: "));
    let (frames, rest) = frames.unwrap_or_else(|| panic!("{plan}"));
    assert!(rest.starts_with(&format!("{frames})")) && frames != "0", "{plan}");
}

#[test]
fn names_are_grouped_as_their_texts_wherever_a_group_stands() {
    let recording = TestProgram::named("containers.cpp").record_by("translate");
    // What is grouped by here is a dictionary, and then a text, which nothing has to convert.
    let (name, text) = ("function", "concat(function)");
    let queries = [
        "SELECT {} AS f, count(*) AS n FROM accesses GROUP BY {} HAVING {} <> 'main' ORDER BY n DESC, f",
        "SELECT f, n FROM (SELECT {} AS f, module, count(*) AS n FROM accesses GROUP BY {}, module) WHERE f LIKE '%a%' ORDER BY f, n",
        "SELECT f, sum(n) AS n FROM (SELECT {} AS f, kind, count(*) AS n FROM accesses GROUP BY {}, kind) GROUP BY f ORDER BY f",
        "WITH c AS (SELECT {} AS f, count(*) AS n FROM accesses GROUP BY 1), d AS (SELECT name AS f, sum(loads) AS l FROM functions GROUP BY name) SELECT c.f, n, l FROM c JOIN d ON c.f = d.f ORDER BY c.f",
        "SELECT {} AS f, count(*) AS n FROM accesses GROUP BY 1 UNION ALL SELECT kind, count(*) FROM accesses GROUP BY 1 ORDER BY f, n",
        "SELECT {} AS f, kind, count(*) AS n FROM accesses GROUP BY ROLLUP({}, kind) ORDER BY f, kind, n",
        "SELECT {} AS f, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, {}) AS place FROM accesses GROUP BY {} ORDER BY place",
        "SELECT count(*) AS n FROM accesses WHERE {} IN (SELECT {} FROM accesses WHERE kind = 'store' GROUP BY 1)",
        "SELECT DISTINCT {} AS f FROM accesses ORDER BY f",
    ];
    for query in queries {
        let [by_name, by_text] = [name, text].map(|by| rows(&recording, &query.replace("{}", by)));
        assert!(!by_name.is_empty(), "{query}");
        assert_eq!(by_name, by_text, "{query}");
    }
}

#[test]
fn several_traces_are_told_apart() {
    let [first, second] =
        ["integers.c", "heap.c"].map(|file| TestProgram::named(file).record_by("translate"));
    let files = [first.trace.path.as_path(), second.trace.path.as_path()];
    let outcome =
        ask(&files, &["SELECT trace, count(*) AS n FROM accesses GROUP BY trace", "--format", "json"]);
    let rows: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
    let numbers: Vec<u64> = rows.iter().map(|row| number(row, "n")).collect();
    let accesses = [&first, &second].map(|one| one.trace.number("accesses"));
    assert!(rows.len() == 2 && accesses.iter().all(|count| numbers.contains(count)), "{rows:?} {accesses:?}");
    let some = ask(&files, &["SELECT addr, trace FROM accesses LIMIT 3", "--format", "csv"]).out();
    assert_eq!((some.lines().next(), some.lines().count()), (Some("addr,trace"), 4), "{some}");
}

#[test]
fn rows_are_written_in_each_format() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let (file, dir) = (recording.trace.path.as_path(), tempfile::tempdir().expect("a directory"));
    let query = "SELECT cycle, cache_line(addr) AS line, function FROM accesses ORDER BY cycle LIMIT 5";
    for (format, magic) in
        [("table", "+--"), ("json", "[{"), ("csv", "cycle,"), ("arrow", "ARROW1"), ("parquet", "PAR1")]
    {
        let path = dir.path().join(format);
        let output = ["-o", path.to_str().expect("UTF-8"), "--format", format];
        let outcome = ask(&[file], &[&[query][..], &output].concat());
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{format}");
        let written = std::fs::read(&path).expect("it is written");
        assert!(written.starts_with(magic.as_bytes()), "{format}");
        let again = ask(&[file], &[&[query][..], &output].concat());
        assert!(again.status == 1 && again.err().contains("--force replaces it"), "{}", again.err());
        assert_eq!(ask(&[file], &[&[query, "--force"][..], &output].concat()).status, 0);
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 5, "nothing else is left");
}

#[test]
fn what_can_not_be_asked_is_one_line() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let file = recording.trace.path.as_path();
    for (query, words) in [
        ("SELECT * FROM acceses", "there is no table acceses; the nearest is accesses"),
        ("SELECT adr FROM accesses", "Did you mean 'accesses.addr'"),
        ("SELEC 1", "SELEC"),
        ("DROP TABLE accesses", "not supported"),
        ("INSERT INTO threads SELECT * FROM threads", "not supported"),
    ] {
        let outcome = ask(&[file], &[query]);
        let (status, text) = (outcome.status, outcome.err());
        assert!(status == 1 && text.lines().count() == 1 && text.contains(words), "{query}: {status} {text}");
    }
    let refused = ask(&[file], &["SELECT 1", "--format", "parquet"]);
    assert!(refused.status == 1 && refused.err().contains("name a file with -o"), "{}", refused.err());
    let missing = ask(&[Path::new("/no/such/trace")], &["SELECT 1"]);
    assert!(missing.status == 1 && missing.err().lines().count() == 1, "{}", missing.err());
    assert_eq!(ask(&[file], &["SELECT 1", "--format", "xml"]).status, 2);
}

#[test]
fn queries_are_read_from_standard_input() {
    let recording = TestProgram::named("integers.c").record_by("translate");
    let home = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(memtap());
    command
        .arg("sql")
        .arg(&recording.trace.path)
        .args(["--format", "csv"])
        .env("XDG_STATE_HOME", home.path());
    let outcome =
        run(&mut command, b"SELECT count(*) AS n\nFROM threads;\nSELECT nothing;\nSELECT 2 AS two;\n");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let lines: Vec<String> = outcome.out().lines().map(str::to_owned).collect();
    assert_eq!(lines, ["n", "1", "two", "2"]);
    assert!(outcome.err().contains("nothing"), "the wrong query is told: {}", outcome.err());
    assert!(home.path().join("memtap/sql_history").is_file());
}

#[test]
fn what_is_damaged_is_left_out_and_told() {
    let recording = TestProgram::named("many_threads.c").record_by("translate");
    let whole = number(&rows(&recording, "SELECT count(*) AS n FROM accesses")[0], "n");
    let bytes = std::fs::read(&recording.trace.path).expect("a trace");
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("damaged.memtap");
    let mut is_met = false;
    // Not every place is in a frame of accesses.
    for part in 1..8 {
        let mut damaged = bytes.clone();
        let at = bytes.len() * part / 8;
        damaged[at..at + 40].iter_mut().for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, damaged).expect("written");
        let query = "SELECT sum(1) AS n FROM accesses WHERE size > 0";
        let outcome = ask(&[&path], &[query, "--format", "json"]);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let read: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
        let read = number(&read[0], "n");
        if read < whole {
            is_met = true;
            assert!(outcome.err().contains("can't be read, and left out"), "{}", outcome.err());
            assert_eq!(ask(&[&path], &[query, "--strict"]).status, 1);
            // A frame that is damaged, or all frames of a stream whose description is.
            let gaps = "SELECT sum(count) AS n FROM gaps";
            let gaps: Vec<Value> =
                serde_json::from_slice(&ask(&[&path], &[gaps, "--format", "json"]).stdout).expect("an array");
            assert!(number(&gaps[0], "n") >= whole - read, "{gaps:?}: {read} of {whole}");
        }
    }
    assert!(is_met, "no place was in a frame of accesses");
}

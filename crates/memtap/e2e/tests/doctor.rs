//! `memtap doctor`, on this machine and where something is missing; and what the binary says about itself.

use std::fs;
use std::process::Command;

use e2e::{memtap, run};
use serde_json::Value;

/// What is said of one thing.
fn finding<'a>(all: &'a Value, name: &str) -> &'a Value {
    let rows = all.as_array().expect("an array");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("nothing of {name}: {all}"))
}

#[test]
fn a_machine_that_records_is_told_so() {
    let outcome = run(Command::new(memtap()).args(["doctor", "--json"]), b"");
    assert_eq!(outcome.status, 0, "{}{}", outcome.out(), outcome.err());
    let all: Value = serde_json::from_str(&outcome.out()).expect("JSON");
    for name in ["kernel", "address space", "tracer", "recording"] {
        assert_eq!(finding(&all, name)["state"], "fine", "{all}");
    }
    for row in all.as_array().expect("an array") {
        let is_fine = row["state"] == "fine";
        assert_eq!(
            row["advice"] == "",
            is_fine,
            "something is to be done exactly where it is not fine: {row}"
        );
        assert_ne!(row["found"], "", "{row}");
    }
    let text = run(Command::new(memtap()).arg("doctor"), b"").out();
    assert!(text.lines().any(|line| line.starts_with("fine     recording ")), "{text}");
}

#[test]
fn a_binary_without_its_libraries_says_where_it_looked() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let alone = dir.path().join("memtap");
    fs::copy(memtap(), &alone).expect("the binary is there");
    let elsewhere = dir.path().join("elsewhere");
    let doctor = |json: &[&str]| {
        run(Command::new(&alone).arg("doctor").args(json).env("MEMTAP_LIB_DIR", &elsewhere), b"")
    };
    let outcome = doctor(&["--json"]);
    assert_eq!(outcome.status, 1, "{}", outcome.err());
    let all: Value = serde_json::from_str(&outcome.out()).expect("JSON");
    let tracer = finding(&all, "tracer");
    assert_eq!(tracer["state"], "missing");
    let found = tracer["found"].as_str().expect("text");
    for place in [elsewhere.display().to_string(), dir.path().display().to_string()] {
        assert!(found.contains(&place), "{place} in {found}");
    }
    assert!(doctor(&[]).err().starts_with("memtap: programs can't be recorded here"));
    // The command that needs it says the same.
    let recording = run(Command::new(&alone).args(["record", "true"]).env("MEMTAP_LIB_DIR", &elsewhere), b"");
    assert_eq!((recording.status, recording.err()), (1, format!("memtap: {found}\n")));
}

#[test]
fn what_a_limit_of_address_space_costs_is_tried() {
    // Room for translation, not for the page table of the other tracer.
    let script = format!("ulimit -v 20000000; {} doctor --json", memtap().display());
    let outcome = run(Command::new("/bin/sh").args(["-c", &script]), b"");
    assert_eq!(outcome.status, 0, "{}{}", outcome.out(), outcome.err());
    let all: Value = serde_json::from_str(&outcome.out()).expect("JSON");
    let states =
        ["address space", "page protection", "recording"].map(|name| finding(&all, name)["state"].clone());
    assert_eq!(states, ["worse", "worse", "fine"], "{all}");
    let advice = finding(&all, "address space")["advice"].as_str().expect("text");
    assert!(advice.contains("ulimit -v unlimited"), "{advice}");
    // The same as a script, of which a shell understands every line.
    let script = format!("ulimit -v 20000000; {} doctor --fix", memtap().display());
    let outcome = run(Command::new("/bin/sh").args(["-c", &script]), b"");
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
    let text = outcome.out();
    let lines: Vec<&str> = text.lines().collect();
    let place = lines.iter().position(|line| line.starts_with("# address space: limited to 19531 MiB"));
    assert_eq!(lines[place.expect("it is told") + 1], "ulimit -v unlimited", "{text}");
    let read = run(Command::new("/bin/sh").args(["-n", "-c", &text]), b"");
    assert_eq!(read.status, 0, "{text}");
}

#[test]
fn a_machine_without_room_for_a_trace_is_told_so() {
    let outcome = run(Command::new(memtap()).args(["doctor", "--json"]).env("TMPDIR", "/nowhere"), b"");
    assert_eq!(outcome.status, 1, "{}", outcome.out());
    let all: Value = serde_json::from_str(&outcome.out()).expect("JSON");
    let found = finding(&all, "recording");
    assert_eq!(found["state"], "missing");
    assert!(found["found"].as_str().is_some_and(|text| text.contains("/nowhere")), "{found}");
}

//! Features of the translating tracer alone: kinds of memory can be selected, and it counts its own work.

use e2e::{TestProgram, record};
use serde_json::Value;

/// Regions of a recording by kind, as the report names them.
fn kinds(options: &[&str]) -> Vec<String> {
    let program = TestProgram::named("statics.c");
    let mut all = vec!["--tracer=translate".to_owned()];
    all.extend(options.iter().map(|option| option.to_string()));
    let recording = record(&all, &program.command_line(), b"");
    program.check(&recording.outcome);
    let mut kinds: Vec<String> = recording
        .trace
        .events()
        .iter()
        .filter(|event| matches!(event["type"].as_str(), Some("load" | "store" | "modify")))
        .map(|event| event["region"].as_str().expect("every access is in a region").to_owned())
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn kinds_of_memory_are_chosen() {
    let all = kinds(&[]);
    for kind in ["[stack]", "[data]", "[bss]"] {
        assert!(all.iter().any(|found| found == kind), "{kind} is not in {all:?}");
    }
    assert_eq!(kinds(&["--regions", "stack"]), ["[stack]"]);
    assert_eq!(kinds(&["--regions", "data,bss"]), ["[bss]", "[data]"]);
}

/// It was taken for memory of the tracer, which has no accesses.
#[test]
fn data_of_the_loader_is_the_loaders() {
    let trace = TestProgram::named("statics.c").record_by("translate").trace;
    let printed = trace.ask("report", &["--by", "region", "--json"]).out();
    let rows: Value = printed.parse().expect("JSON");
    let rows = rows.as_array().expect("an array");
    let of_loader = |row: &&Value| row["owner"] == "linker" && row["region"] == "data";
    let data = rows.iter().find(of_loader).expect("the loader accesses its data");
    assert!(data["module"].as_str().is_some_and(|module| module.starts_with("ld-linux")), "{data}");
    assert!(data["loads"].as_u64() > Some(0), "{data}");
    assert!(rows.iter().all(|row| row["region"] != "tracer"), "{rows:?}");
}

#[test]
fn the_tracer_counts_its_work() {
    let recording = TestProgram::named("statics.c").record_by("translate");
    let stat = recording.trace.stat();
    let work = stat["tracer_work"].as_object().expect("an object");
    for name in ["blocks translated", "bytes of code translated", "exits of the cache", "buffers"] {
        assert!(work.get(name).and_then(|count| count.as_u64()) > Some(0), "{name} in {work:?}");
    }
    // Every exit but the calls of hooked functions and their returns leads to a new block or a link to one.
    assert!(work["bytes of the code cache"].as_u64() > work["bytes of code translated"].as_u64());
}

/// Each switch told all threads by a signal, which ended what they waited in.
#[test]
fn system_calls_are_not_ended_by_the_begin_of_recording() {
    let recording =
        TestProgram::named("waiting.c").record_with("translate", &["--start", "begin", "--stop", "finish"]);
    assert_eq!(recording.trace.number("markers"), 40);
}

/// The loader is asked for them while another thread holds its lock.
#[test]
fn functions_of_libraries_that_come_later_are_found() {
    let trace = TestProgram::named("late_functions.c").record_by("translate").trace;
    assert_eq!(trace.number("gaps"), 0);
}

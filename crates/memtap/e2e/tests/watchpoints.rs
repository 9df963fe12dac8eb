//! `memtap watch`, `determinism` and `--unit`.

use std::process::Command;

use e2e::{Finished, TestProgram, memtap, run};
use serde_json::Value;

fn watch(program: &TestProgram, options: &[&str]) -> Finished {
    run(Command::new(memtap()).arg("watch").args(options).arg("--").args(program.command_line()), b"")
}

/// Hits as `watch, kind, function, thread, old, new`, as both tracers tell them.
fn hits(program: &TestProgram, options: &[&str]) -> Vec<String> {
    let [protect, translate] = ["protect", "translate"].map(|tracer| hits_by(tracer, program, options));
    assert_eq!(protect, translate);
    protect
}

fn hits_by(tracer: &str, program: &TestProgram, options: &[&str]) -> Vec<String> {
    let outcome = watch(program, &[options, &["--json", "--tracer", tracer]].concat());
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert_eq!(outcome.out(), program.header.stdout);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    outcome
        .err()
        .lines()
        .map(|line| {
            let hit: Value = serde_json::from_str(line).expect("each line is an object");
            let keys: Vec<&String> = hit.as_object().expect("an object").keys().collect();
            assert_eq!(
                keys,
                [
                    "cycle", "file", "function", "kind", "line", "new", "offset", "old", "pid", "stack",
                    "thread", "variable", "watch"
                ]
            );
            assert!(hit["file"].as_str().is_some_and(|file| file.ends_with("watched.c")), "{line}");
            assert!(hit["line"].as_u64().is_some(), "{line}");
            ["watch", "kind", "function", "thread", "old", "new"].map(|key| text(&hit[key])).join(" ")
        })
        .collect()
}

#[test]
fn writes_are_logged_with_the_values_before_and_after() {
    let program = TestProgram::named("watched.c");
    assert_eq!(
        hits(&program, &["--write", "counter", "--write", "points[2].y"]),
        [
            "counter store main 0 0x0 0x2a",
            "points[2].y store main 0 0x0 0x3",
            "points[2].y modify work 1 0x3 0x8",
            "counter store work 1 0x2a 0x2f",
        ]
    );
    assert_eq!(
        hits(&program, &["--write", "malloc@make#2", "--write", "text+1:4"]),
        [
            "malloc@make#2 store make 0 0x0 0x1",
            "malloc@make#2 store make 0 0x0 0x2",
            "malloc@make#2 store main 0 0x2 0x63",
            "text+1:4 store main 0 0x0 0x6f6c6c65",
        ]
    );
}

#[test]
fn reads_threads_and_values_choose() {
    let program = TestProgram::named("watched.c");
    assert_eq!(hits(&program, &["--read", "counter", "--thread", "1"]), ["counter load work 1 0x2a 0x2a"]);
    assert_eq!(
        hits(&program, &["--write", "counter", "--value", "0x2f"]),
        ["counter store work 1 0x2a 0x2f"]
    );
    assert_eq!(hits(&program, &["--write", "points[1]"]), Vec::<String>::new());
}

#[test]
fn what_is_not_there_is_refused_with_near_names() {
    let program = TestProgram::named("watched.c");
    for (options, expected) in [
        (&["--write", "countr"][..], "countr: no variable countr; did you mean counter?"),
        (&["--write", "malloc@mak#1"], "no function mak; did you mean make"),
        (&["--write", "points[2].z"], "points[2].z: points has no part [2].z"),
        (&["--write", "0x10"], "an address needs a length"),
        (&["--write", "0xffff800000000000:8"], "not a range of a program's addresses"),
        (&["--write", "0x1000:0xffffffffffffffff"], "not a range of a program's addresses"),
        (&["--write", "free@make"], "free is not an allocator"),
        (&["--write", "malloc@make#0"], "blocks are counted from 1"),
        (&[], "nothing to watch"),
    ] {
        let outcome = watch(&program, options);
        assert_eq!(outcome.status, 1, "{options:?}");
        assert_eq!(outcome.err().lines().count(), 1, "{}", outcome.err());
        assert!(outcome.err().contains(expected), "{options:?}: {}", outcome.err());
    }
}

#[test]
fn determinism_tells_true_sharing_from_false() {
    let recording = TestProgram::named("race/shares.c").record();
    let outcome = recording.trace.ask("determinism", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let found: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    assert_eq!(found["rollbacks"]["page"], 3, "{found:#}");
    assert_eq!(found["rollbacks"]["line"], 2, "{found:#}");
    assert_eq!(found["rollbacks"]["byte"], 1, "{found:#}");
    let byte = found["regions"]
        .as_array()
        .expect("an array")
        .iter()
        .find(|region| region["rolls_back"]["byte"] == true);
    let byte = byte.expect("one that shares bytes");
    assert_eq!(byte["variable"], "cells.common");
    // Whichever came second of the two rolls back.
    let one_of = |names: [&str; 2], function: &Value| names.iter().any(|name| function == name);
    assert!(one_of(["both", "more"], &byte["function"]), "{byte:#}");
    assert_eq!(byte["false_sharing"], false);
    let regions = found["regions"].as_array().expect("an array");
    let mut beside = regions.iter().filter(|region| one_of(["low", "high"], &region["function"]));
    let beside = beside.find(|region| region["false_sharing"] == true).expect("one that shares a line");
    assert!(one_of(["cells.left", "cells.right"], &beside["variable"]), "{beside:#}");
}

#[test]
fn what_an_ended_thread_touched_has_its_name() {
    let recording = TestProgram::named("race/shares_late.c").record();
    let outcome = recording.trace.ask("determinism", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let found: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    let regions = found["regions"].as_array().expect("an array");
    let sharing: Vec<&Value> = regions.iter().filter(|region| region["false_sharing"] == true).collect();
    let [one] = sharing[..] else { panic!("{found:#}") };
    assert_eq!((&one["function"], &one["variable"]), (&"high".into(), &"cells.right".into()), "{found:#}");
}

#[test]
fn units_have_the_same_faults_and_their_own_misses() {
    let recording = TestProgram::named("race/clean_barrier.c").record();
    for (command, units) in [("race", 5), ("determinism", 6)] {
        let outcome = recording.trace.ask(command, &["--unit", "all", "--json"]);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let found: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
        let found = found["units"].as_array().expect("an array");
        assert_eq!(found.len(), units);
        // All with one granule saw the same.
        let own: Vec<&Value> = found.iter().filter(|unit| unit["granule"] != 4096).collect();
        for unit in &own {
            for key in ["accesses", "faults", "changes"] {
                assert_eq!(unit["counters"][key], own[0]["counters"][key], "{command} {key}: {unit}");
            }
            assert!(unit["relative_performance"].as_f64().is_some_and(|figure| figure > 0.0));
        }
        assert!(own.iter().any(|unit| unit["counters"]["misses"].as_u64() > Some(0)));
    }
    let one = recording.trace.ask("race", &["--unit", "range+bitmap", "--json"]);
    assert!(one.out().contains("\"range+bitmap\""));
    let unknown = recording.trace.ask("race", &["--unit", "tlb"]);
    assert_eq!(unknown.status, 2);
}

#[test]
fn nobody_watches_for_threads_that_were_joined() {
    // Twelve threads, three at a time beside main.
    let recording = TestProgram::named("race/clean_join.c").record();
    let outcome = recording.trace.ask("race", &["--unit", "range", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let found: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    let count = |key: &str| found["units"][0]["counters"][key].as_u64().expect("a number");
    assert!(count("faults") > 0 && count("changes") <= 4 * count("faults"), "{found:#}");
}

#[test]
fn taint_names_the_tracer_that_it_needs() {
    let recording = TestProgram::named("race/clean_barrier.c").record();
    let outcome = recording.trace.ask("taint", &[]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().contains("--tracer translate"), "{}", outcome.err());
}

/// A program names in its head what `memtap taint` must find (`// sink: KIND|FUNCTION|SOURCE|OFFSET`) and marks the line of
/// the sink with `// SINK` and that of the source with `// SOURCE`. One without such heads is clean.
#[test]
fn taint_finds_input_that_decides_and_nothing_else() {
    let dir = e2e::repository().join("tests/programs/taint");
    let mut files: Vec<String> = std::fs::read_dir(&dir)
        .expect("the programs are there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert!(files.len() >= 6);
    for file in files {
        let program = TestProgram::named(&format!("taint/{file}"));
        for options in [&[][..], &["--flow=full"]] {
            let recording = program.record_with("translate", options);
            let outcome = recording.trace.ask("taint", &["--json"]);
            assert_eq!(outcome.status, 0, "{file}: {}", outcome.err());
            let found: Vec<Value> = serde_json::from_slice(&outcome.stdout).expect("an array");
            let source = std::fs::read_to_string(dir.join(&file)).expect("a source");
            let line = |mark: &str| {
                source.lines().position(|line| line.contains(mark)).map(|index| index as u64 + 1)
            };
            let mut seen = Vec::new();
            for finding in &found {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let from = &finding["source"];
                seen.push(format!(
                    "{}|{}|{}|{}",
                    text(&finding["sink"]),
                    text(&finding["function"]),
                    text(&from["kind"]),
                    from["offset"]
                ));
                assert_eq!(finding["line"].as_u64(), line("// SINK"), "{file}: {finding:#}");
                if !from["at"].is_null() {
                    assert_eq!(from["at"]["line"].as_u64(), line("// SOURCE"), "{file}: {finding:#}");
                }
                assert_eq!(finding.get("uncertain"), None);
            }
            // The command line's first bytes are the program's own path, and the environment is that of the tests.
            for seen in &mut seen {
                for kind in ["|argv", "|environment"] {
                    if let Some(at) = seen.find(kind) {
                        seen.truncate(at + kind.len());
                    }
                }
            }
            // Of several inputs the order depends on which of them was looked at first.
            seen.sort();
            let mut expected = program.header.sinks.clone();
            expected.sort();
            assert_eq!(seen, expected, "{file} {options:?}: {found:#?}");
        }
    }
}

/// Two ways between two accesses have as many instructions, and input only comes through the one that is not taken.
#[test]
fn taint_follows_the_way_that_was_taken_where_it_is_known() {
    let program = TestProgram::named("taint_ways.c");
    let found = |options: &[&str]| -> usize {
        let recording = program.record_with("translate", options);
        let outcome = recording.trace.ask("taint", &["--json"]);
        assert_eq!((outcome.status, outcome.err()), (0, String::new()));
        serde_json::from_slice::<Vec<Value>>(&outcome.stdout).expect("an array").len()
    };
    assert_eq!(found(&[]), 1, "either way");
    assert_eq!(found(&["--flow"]), 0, "it goes the other way");
}

#[test]
fn taint_says_in_plain_words_what_input_decides() {
    let cases = [
        ("exec_missing.c", "the program that execve runs, or its arguments"),
        ("format_text.c", "the format of printf"),
        ("path.c", "the name of a file, in openat"),
        ("rename.c", "the name of a file, in rename"),
        ("size.c", "how much memory malloc gives"),
    ];
    for (file, words) in cases {
        let text =
            TestProgram::named(&format!("taint/{file}")).record_by("translate").trace.ask("taint", &[]).out();
        assert!(text.lines().any(|line| line == format!("input decides: {words}")), "{file}: {text}");
    }
}

#[test]
fn taint_explains_the_way_through_registers() {
    let recording = TestProgram::named("taint/overflow.c").record_by("translate");
    let found: Value =
        serde_json::from_slice(&recording.trace.ask("taint", &["--json"]).stdout).expect("JSON");
    let path = found[0]["path"].as_array().expect("a path");
    assert!(path.iter().any(|spot| spot["function"] == "copy"), "{found:#}");
    let text = recording.trace.ask("taint", &[]).out();
    assert!(text.contains("input decides: jump") && text.contains("from byte 16 of recv by main"), "{text}");
    let units = recording.trace.ask("taint", &["--unit", "all", "--json"]);
    let units: Value = serde_json::from_slice(&units.stdout).expect("JSON");
    let units = units["units"].as_array().expect("an array");
    assert_eq!(units.len(), 5);
    for unit in units {
        assert!(unit["counters"]["faults"].as_u64() > Some(0), "{unit:#}");
        assert_eq!(unit["counters"]["faults"], units[0]["counters"]["faults"]);
    }
}

//! Calling contexts and allocations against Valgrind's callgrind and DHAT: the same binaries, the same figures.
//!
//! Known differences are left out: functions of libraries (Valgrind's processor has no AVX-512, so the C library
//! selects others), blocks that libraries allocate before the program's main, and instructions that Valgrind
//! executes as several (`bts` with memory). For callgrind, an instruction that reads and writes a place is a store.

use std::collections::BTreeMap;
use std::process::Command;

use e2e::{TestProgram, run, tool};
use serde_json::Value;

/// libstdc++ keeps so many bytes for exceptions, from before main on.
const EMERGENCY_POOL: (u64, u64) = (72_704, 1);

fn stacks(program: &TestProgram) -> Vec<Value> {
    let recording = program.record_by("translate");
    let outcome = recording.trace.ask("report", &["--by", "stack", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    outcome.out().parse::<Value>().expect("it is JSON").as_array().expect("an array").clone()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().expect("a number")
}

fn digits(text: &str) -> u64 {
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or_default()
}

/// Bytes and blocks that DHAT counts.
fn dhat(program: &TestProgram) -> (u64, u64) {
    let mut command = Command::new(tool("valgrind"));
    command.args(["--tool=dhat", "--dhat-out-file=/dev/null"]).args(program.command_line());
    let outcome = run(&mut command, program.header.stdin.as_bytes());
    let text = outcome.err();
    let line = text.lines().find(|line| line.contains("Total:")).expect("DHAT counts");
    let (bytes, blocks) = line.split_once(" bytes in ").expect("bytes and blocks");
    (digits(bytes.rsplit(':').next().unwrap_or(bytes)), digits(blocks))
}

#[test]
fn allocations_are_those_that_dhat_counts() {
    for (name, before_main) in [
        ("heap.c", (0, 0)),
        ("wrappers.c", (0, 0)),
        ("disparity.c", (0, 0)),
        ("objects.cpp", EMERGENCY_POOL),
        ("containers.cpp", EMERGENCY_POOL),
    ] {
        let program = TestProgram::named(name);
        let rows = stacks(&program);
        let sum = |key: &str| rows.iter().map(|row| number(row, key)).sum::<u64>();
        let ours = (sum("allocated_bytes") + before_main.0, sum("allocations") + before_main.1);
        assert_eq!(ours, dhat(&program), "{name}");
    }
}

/// Loads and stores of each function of a program with all that it called, as callgrind counts them.
fn callgrind(program: &TestProgram) -> BTreeMap<String, (u64, u64)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("callgrind.out");
    let mut command = Command::new(tool("valgrind"));
    command.args(["--tool=callgrind", "--cache-sim=yes"]);
    command.arg(format!("--callgrind-out-file={}", file.display())).args(program.command_line());
    run(&mut command, program.header.stdin.as_bytes());
    let mut annotate = Command::new(tool("callgrind_annotate"));
    annotate.args(["--inclusive=yes", "--show=Dr,Dw", "--threshold=100", "--show-percs=no", "--tree=none"]);
    let outcome = run(annotate.arg(&file), b"");
    let mut found = BTreeMap::new();
    for line in outcome.out().lines() {
        // `2,649  1,351  path/algorithms.c:sort [path/algorithms]`
        let mut words = line.split_whitespace();
        let (Some(loads), Some(stores), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some((_, name)) = name.rsplit_once(':') else { continue };
        let name = name.split('(').next().unwrap_or(name);
        found.insert(name.to_owned(), (digits(loads), digits(stores)));
    }
    found
}

/// The same of ours, as callgrind counts what reads and writes.
fn inclusive(rows: &[Value], function: &str) -> (u64, u64) {
    let is_in = |row: &&Value| {
        let stack = row["stack"].as_array().expect("a stack").iter();
        stack.filter_map(Value::as_str).any(|name| name.split('(').next() == Some(function))
    };
    rows.iter().filter(is_in).fold((0, 0), |(loads, stores), row| {
        (loads + number(row, "loads"), stores + number(row, "stores") + number(row, "modifies"))
    })
}

#[test]
fn inclusive_accesses_are_those_that_callgrind_counts() {
    let programs: [(&str, &[&str]); 5] = [
        ("algorithms.c", &["sort", "sorted", "multiply", "look_up", "letters", "digest"]),
        ("contexts.cpp", &["tree", "recurse", "calls_tail", "coroutine", "step", "handler", "works"]),
        ("statics.c", &["count"]),
        ("values.c", &["main"]),
        ("exports.c", &["touch"]),
    ];
    for (name, functions) in programs {
        let program = TestProgram::built(name, &["-g", "-O1", "-fno-inline"]);
        let rows = stacks(&program);
        let theirs = callgrind(&program);
        for function in functions {
            let expected = theirs.get(*function).copied();
            assert_eq!(Some(inclusive(&rows, function)), expected, "{name}: {function}\n{theirs:#?}");
        }
    }
}

//! `memtap errors`: each kind is found with its stacks, and ordinary programs have none.

use e2e::{Recording, TestProgram};
use serde_json::Value;

fn errors(recording: &Recording) -> Vec<Value> {
    let outcome = recording.trace.ask("errors", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("errors --json is an array")
}

/// Those that are wrong whatever the program is for.
fn wrong(all: &[Value]) -> Vec<&Value> {
    all.iter().filter(|one| one["kind"] != "leak" && one["kind"] != "unused").collect()
}

/// Kind, the function that did it, and how often.
fn told(one: &Value) -> (String, String, u64) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&one["kind"]), text(&one["access"]["function"]), one["times"].as_u64().expect("a number"))
}

#[test]
fn each_kind_has_its_stacks() {
    let recording = TestProgram::named("errors/kinds.cpp").record_by("translate");
    let all = errors(&recording);
    let mut found: Vec<(String, String, u64)> = wrong(&all).into_iter().map(told).collect();
    found.sort();
    let expect = [
        ("mismatched_free", "released_wrongly", 1),
        ("out_of_bounds", "before_the_beginning", 1),
        ("out_of_bounds", "past_the_end", 3),
        ("uninitialised", "compares", 1),
    ];
    let expect: Vec<_> =
        expect.map(|(kind, function, times)| (kind.to_owned(), function.to_owned(), times)).into();
    assert_eq!(found, expect, "{all:#?}");
    for one in wrong(&all) {
        for side in ["access", "allocated"] {
            let stack = one[side]["stack"].as_array().expect("a stack");
            assert_eq!(stack[0], "main", "{one:#}");
            assert!(
                one[side]["line"].is_u64()
                    && one[side]["file"].as_str().is_some_and(|f| f.ends_with("kinds.cpp"))
                    || side == "allocated",
                "{one:#}"
            );
        }
    }
    let of = |kind: &str, bytes: u64| {
        all.iter().any(|one| one["kind"] == kind && one["bytes"] == bytes && one["times"] == 1)
    };
    assert!(of("leak", 1000) && of("unused", 500), "{all:#?}");
    let failed = recording.trace.ask("errors", &["--fail-on-error"]);
    assert!(
        failed.status == 3
            && failed.out().contains("out of bounds: load of 1 bytes, 0 after a block of 24, 3 times"),
        "{}",
        failed.out()
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("suppressions");
    std::fs::write(&file, "# known\nout_of_bounds:*the*\ncompares\nmismatched_free:main\n")
        .expect("it can be written");
    let path = file.display().to_string();
    let quiet = recording.trace.ask("errors", &["--fail-on-error", "--suppressions", &path]);
    assert!(quiet.status == 0 && quiet.err().contains("4 findings are suppressed"), "{}", quiet.err());
}

#[test]
fn uses_after_release_have_three_stacks() {
    let recording = TestProgram::named("stale/read.c").record_by("translate");
    let all = errors(&recording);
    let found = wrong(&all);
    assert!(!found.is_empty() && found.iter().all(|one| one["kind"] == "use_after_free"), "{all:#?}");
    for one in found {
        for side in ["access", "allocated", "freed"] {
            assert!(one[side]["stack"].as_array().is_some_and(|stack| !stack.is_empty()), "{side}: {one:#}");
        }
    }
    let twice = TestProgram::named("stale/twice.c").record_by("translate");
    let all = errors(&twice);
    assert!(all.iter().any(|one| one["kind"] == "invalid_free" && one["freed"].is_object()), "{all:#?}");
}

/// Ordinary programs do nothing that is told as an error.
fn is_clean(recording: &Recording) {
    let all = errors(recording);
    assert_eq!(wrong(&all), Vec::<&Value>::new());
}

e2e::each_ordinary_program!(is_clean);

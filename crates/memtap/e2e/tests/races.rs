//! `memtap race` on small programs: the races are found, on the lines that the sources mark, and nothing else is reported.
//!
//! A racy program names its variables in its head (`// race: NAME`, with `?` in front where a run need
//! not show it, and `|` between alternatives) and marks the lines that may take part with `// RACE`.

use std::collections::BTreeSet;
use std::process::Command;

use e2e::{TestProgram, Trace, bin_dir, repository};
use serde_json::Value;

fn programs(prefix: &str, extension: &str) -> Vec<String> {
    let dir = repository().join("tests/programs/race");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("the programs are there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(prefix) && name.ends_with(&format!(".{extension}")))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

/// What is reported, and whether more was held back because atomic variables may order it.
fn races(trace: &Trace) -> (Vec<Value>, bool) {
    let outcome = trace.ask("race", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let found = serde_json::from_slice(&outcome.stdout).expect("race --json is an array");
    (found, outcome.err().contains("more are not reported"))
}

/// Everything that is wrong with what is said of a racy program.
fn wrong(file: &str, tracer: &str) -> Vec<String> {
    let program = TestProgram::named(&format!("race/{file}"));
    if !program.header.tracers.has(tracer) {
        return Vec::new();
    }
    let recording = program.record_by(tracer);
    let (found, held_back) = races(&recording.trace);
    assert!(!held_back || tracer != "protect", "{file}");
    let source =
        std::fs::read_to_string(repository().join("tests/programs/race").join(file)).expect("a source");
    let marked: BTreeSet<u64> = source
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("// RACE"))
        .map(|(index, _)| index as u64 + 1)
        .collect();
    let mut wrong = Vec::new();
    let is_named = |race: &Value, name: &str| {
        let variable = race["variable"].as_str().unwrap_or_default();
        name.trim_start_matches('?').split('|').any(|name| variable.contains(name))
    };
    for name in program.header.races.iter().filter(|name| !name.starts_with('?')) {
        if !found.iter().any(|race| is_named(race, name)) {
            wrong.push(format!("{file}: no race on {name}"));
        }
    }
    for race in &found {
        if !program.header.races.iter().any(|name| is_named(race, name)) {
            wrong.push(format!("{file}: unexpected: {race}"));
        }
        let keys: Vec<&String> = race.as_object().expect("an object").keys().collect();
        if keys != ["field", "first", "first_seen", "inside", "len", "second", "times", "type", "variable"] {
            wrong.push(format!("{file}: keys {keys:?}"));
        }
        for side in ["first", "second"] {
            let side = &race[side];
            let keys: Vec<&String> = side.as_object().expect("an object").keys().collect();
            if keys != ["file", "function", "kind", "line", "locks", "stack", "thread"] {
                wrong.push(format!("{file}: keys {keys:?}"));
            }
            if side["stack"][0]["line"] != side["line"] || side["stack"][0]["file"] != side["file"] {
                wrong.push(format!("{file}: the stack does not begin where the access is: {race}"));
            }
            let line = side["line"].as_u64().unwrap_or(0);
            let in_source = side["file"].as_str().is_some_and(|path| path.ends_with(file));
            if !in_source || !marked.contains(&line) {
                wrong.push(format!("{file}: not a marked line: {race}"));
            }
        }
        if race["first"]["thread"] == race["second"]["thread"] {
            wrong.push(format!("{file}: one thread races with itself: {race}"));
        }
    }
    let failing = recording.trace.ask("race", &["--fail-on-race"]);
    if failing.status != if found.is_empty() { 0 } else { 3 } {
        wrong.push(format!("{file}: --fail-on-race gives {}", failing.status));
    }
    wrong
}

fn check_racy(extension: &str, tracer: &str) {
    let wrong: Vec<String> =
        programs("racy", extension).iter().flat_map(|file| wrong(file, tracer)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_clean(extension: &str, tracer: &str) {
    let mut wrong = Vec::new();
    for file in programs("clean", extension) {
        let recording = TestProgram::named(&format!("race/{file}")).record_by(tracer);
        let (found, _) = races(&recording.trace);
        if !found.is_empty() {
            wrong.push(format!("{file}: {found:#?}"));
        }
        if recording.trace.ask("race", &["--fail-on-race"]).status != 0 {
            wrong.push(format!("{file}: --fail-on-race fails"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn racy_programs_of_c() {
    check_racy("c", "protect");
}

#[test]
fn racy_programs_of_c_translated() {
    check_racy("c", "translate");
}

#[test]
fn racy_programs_of_cpp() {
    check_racy("cpp", "protect");
}

#[test]
fn racy_programs_of_cpp_translated() {
    check_racy("cpp", "translate");
}

#[test]
fn racy_programs_of_rust() {
    check_racy("rs", "protect");
}

#[test]
fn racy_programs_of_rust_translated() {
    check_racy("rs", "translate");
}

#[test]
fn clean_programs_of_c() {
    check_clean("c", "protect");
}

#[test]
fn clean_programs_of_c_translated() {
    check_clean("c", "translate");
}

#[test]
fn clean_programs_of_cpp() {
    check_clean("cpp", "protect");
}

#[test]
fn clean_programs_of_cpp_translated() {
    check_clean("cpp", "translate");
}

#[test]
fn clean_programs_of_rust() {
    check_clean("rs", "protect");
}

#[test]
fn clean_programs_of_rust_translated() {
    check_clean("rs", "translate");
}

#[test]
fn both_sides_name_the_locks_that_they_held() {
    let recording = TestProgram::named("race/racy_two_locks.c").record();
    let (found, _) = races(&recording.trace);
    let mut sides: Vec<(&str, Vec<&str>)> = ["first", "second"]
        .iter()
        .map(|side| {
            let side = &found[0][side];
            let locks = side["locks"].as_array().expect("an array");
            let function = side["function"].as_str().expect("a name");
            assert_eq!(side["stack"][0]["function"], function);
            (function, locks.iter().map(|lock| lock.as_str().expect("a name")).collect())
        })
        .collect();
    sides.sort();
    assert_eq!(sides, [("deposit", vec!["first"]), ("withdraw", vec!["second"])]);
    let recording = TestProgram::named("race/racy_unlocked_read.c").record();
    let (found, _) = races(&recording.trace);
    let side = |name: &str| {
        ["first", "second"].map(|side| &found[0][side]).into_iter().find(|s| s["function"] == name)
    };
    assert_eq!(side("writer").expect("it writes")["locks"], serde_json::json!(["lock"]));
    assert_eq!(side("reader").expect("it reads")["locks"], serde_json::json!([]));
}

#[test]
fn a_translated_race_tells_who_called() {
    let recording = TestProgram::named("race/racy_called.c").record_by("translate");
    let (found, _) = races(&recording.trace);
    for (variable, function) in [("total", "add"), ("other", "count")] {
        let race = found.iter().find(|race| race["variable"] == variable).expect("it is racy");
        let mut stacks = ["first", "second"].map(|side| {
            let stack = race[side]["stack"].as_array().expect("an array");
            let names: Vec<&str> =
                stack.iter().take(3).map(|call| call["function"].as_str().expect("a name")).collect();
            names
        });
        stacks.sort();
        assert_eq!(stacks, [[function, "from_left", "left"], [function, "from_right", "right"]], "{race}");
    }
}

#[test]
fn a_race_for_a_field_of_a_block_names_type_and_field() {
    let recording = TestProgram::named("race/racy_heap_field.c").record_by("translate");
    let (found, _) = races(&recording.trace);
    let [race] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((&race["type"], &race["field"]), (&"stats".into(), &"stats.hits".into()), "{race:#}");
    let text = recording.trace.ask("race", &[]).out();
    assert!(text.contains("race on stats.hits (<") && text.contains(">.hits, 8 bytes"), "{text}");
}

#[test]
fn races_in_code_without_lines_come_last_and_are_counted() {
    let source = repository().join("tests/programs/race/counting_library.c");
    let library = bin_dir().join("e2e-libcounting.so");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("gcc is there").success());
    let flags = ["-Wl,--no-as-needed", library.to_str().expect("a path in UTF-8")];
    let recording = TestProgram::built("race/with_library.c", &flags).record_by("translate");
    let (found, _) = races(&recording.trace);
    let modules: Vec<&Value> = found.iter().map(|race| &race["inside"]).collect();
    assert_eq!(modules, [&Value::Null, &"e2e-libcounting.so".into()], "{found:#?}");
    let text = recording.trace.ask("race", &[]).out();
    assert!(text.starts_with("race on own ("), "{text}");
    assert!(text.ends_with("unknown (--all)\n"), "{text}");
    let all = recording.trace.ask("race", &["--all"]).out();
    assert_eq!(all.matches("race on ").count(), 2, "{all}");
    assert!(!all.contains("inside of"), "{all}");
}

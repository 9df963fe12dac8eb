//! `memtap lines` on small programs: lines that threads share, how often they change their owner, and what has to be moved apart.

use e2e::{TestProgram, Trace, tool};
use serde_json::{Value, json};

fn lines(trace: &Trace) -> Vec<Value> {
    let outcome = trace.ask("lines", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("lines --json is an array")
}

/// The groups of lines in which that name is.
fn with<'a>(all: &'a [Value], name: &str) -> Vec<&'a Value> {
    let has = |group: &Value| {
        let names = group["names"].as_array().expect("an array");
        names.iter().any(|one| one.as_str().is_some_and(|one| one.contains(name)))
    };
    all.iter().filter(|group| has(group)).collect()
}

#[test]
fn threads_that_take_turns() {
    let recording = TestProgram::named("lines/counters.c").record_by("translate");
    let all = lines(&recording.trace);
    let one = |name: &str| match with(&all, name).as_slice() {
        [one] => (*one).clone(),
        other => panic!("{name}: {other:#?}"),
    };
    let figures = |group: &Value| {
        let number = |key: &str| group[key].as_u64().expect("a number");
        assert_eq!(number("changes"), number("true_changes") + number("false_changes"));
        (
            number("lines"),
            number("true_changes"),
            number("false_changes"),
            number("most_changes"),
            number("accesses"),
        )
    };
    let counters = one("counters.hits");
    assert_eq!(counters["sharing"], "false");
    assert_eq!(figures(&counters), (1, 0, 19, 19, 20));
    assert_eq!(counters["names"], json!(["counters.hits", "counters.misses"]));
    let parts = counters["parts"].as_array().expect("an array");
    assert_eq!(parts.len(), 2);
    // Which of the two threads arrives first, and so gets the lower number, is the scheduler's.
    let part_of = |function: &str| {
        parts.iter().find(|part| part["function"] == function).expect("both functions have a part")
    };
    let (first, second) = (&part_of("first")["thread"], &part_of("second")["thread"]);
    assert!([first, second].iter().all(|thread| [1, 2].map(Value::from).contains(thread)) && first != second);
    let apart = counters["apart"].as_array().expect("an array");
    assert_eq!(apart.len(), 2);
    for group in [
        json!({"threads": [first], "names": ["counters.hits"]}),
        json!({"threads": [second], "names": ["counters.misses"]}),
    ] {
        assert!(apart.contains(&group), "{group} is not in {apart:#?}");
    }
    for (function, offset) in [("first", 0), ("second", 8)] {
        let part = part_of(function);
        assert_eq!(part["offset"], json!(offset));
        assert_eq!((&part["modifies"], &part["loads"], &part["size"]), (&json!(10), &json!(0), &json!(8)));
        assert!(
            part["file"].as_str().is_some_and(|file| file.ends_with("counters.c")) && part["line"].is_u64()
        );
    }
    let total = one("total");
    assert_eq!((figures(&total), &total["sharing"]), ((1, 19, 0, 19, 20), &json!("true")));
    assert_eq!(total["apart"], json!([]));
    assert!(with(&all, "apart").is_empty(), "what lies apart is not shared");
    let slots = one("<malloc");
    assert_eq!((figures(&slots), &slots["sharing"]), ((1, 0, 19, 19, 20), &json!("false")));
    let text = recording.trace.ask("lines", &[]).out();
    let mut sides = [
        (first, format!("`counters.hits` (thread {first})")),
        (second, format!("`counters.misses` (thread {second})")),
    ];
    sides.sort_by_key(|(thread, _)| thread.as_u64());
    let advice = format!("64 bytes apart: {} | {}", sides[0].1, sides[1].1);
    assert!(text.contains(&advice), "{advice} is not in {text}");
}

#[test]
fn blocks_of_the_heap_have_fields() {
    let recording = TestProgram::built("lines/heap_counters.c", &["-O2"]).record_by("translate");
    let all = lines(&recording.trace);
    for (block, ends) in
        [("<malloc0001@main", [".hits", ".misses"]), ("<malloc0002@main", ["[0].jobs", "[1].jobs"])]
    {
        let groups = with(&all, block);
        let [group] = groups.as_slice() else { panic!("{block}: {all:#?}") };
        assert_eq!((&group["sharing"], &group["false_changes"]), (&json!("false"), &json!(19)));
        let names: Vec<&str> =
            group["names"].as_array().expect("an array").iter().filter_map(Value::as_str).collect();
        assert!(
            names.len() == 2 && names.iter().zip(ends).all(|(name, end)| name.ends_with(end)),
            "{names:?}"
        );
    }
}

#[test]
fn threads_that_nothing_orders() {
    let recording = TestProgram::named("lines/free_running.c").record_by("translate");
    let all = lines(&recording.trace);
    let counts = with(&all, "counts[0]");
    let [counts] = counts.as_slice() else { panic!("{all:#?}") };
    let number = |key: &str| counts[key].as_u64().expect("a number");
    assert_eq!((number("accesses"), number("true_changes")), (2000, 0));
    assert!((1..=2000).contains(&number("false_changes")), "{counts:#}");
    assert!(number("most_changes") >= number("changes") && number("most_changes") <= 2000, "{counts:#}");
}

#[test]
fn a_program_with_one_thread_shares_nothing() {
    let recording = e2e::record(&[], &[tool("true").display().to_string()], b"");
    assert_eq!(lines(&recording.trace), Vec::<Value>::new());
    let text = recording.trace.ask("lines", &[]).out();
    assert!(text.contains("no cache line"), "{text}");
}

//! `report --by allocation`: the allocation site is the call that the user means, not one in a wrapper of the allocator.

use std::collections::BTreeMap;

use e2e::{TestProgram, Trace, record};
use serde_json::Value;

/// Blocks and bytes by site, offsets left out.
fn sites(trace: &Trace, options: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let mut arguments = vec!["--by", "allocation", "--json"];
    arguments.extend(options);
    let outcome = trace.ask("report", &arguments);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let rows: Value = serde_json::from_str(&outcome.out()).expect("it is JSON");
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows.as_array().expect("an array") {
        let name = row["name"].as_str().expect("a name").split(' ');
        let name: Vec<&str> = name.map(|word| word.split('+').next().unwrap_or(word)).collect();
        let number = |key: &str| row[key].as_u64().unwrap_or_default();
        let sum = found.entry(name.join(" ")).or_default();
        *sum = (sum.0 + number("things"), sum.1 + number("size"));
    }
    found
}

#[test]
fn wrappers_of_allocators_are_no_sites() {
    let recording = TestProgram::named("wrappers.c").record_by("translate");
    let found = sites(&recording.trace, &[]);
    let check = |name: &str, expected: (u64, u64)| {
        assert_eq!(found.get(name).copied().unwrap_or_default(), expected, "{name}\n{found:#?}");
    };
    check("malloc at make_node", (5, 80));
    check("realloc at grow", (5, 1500));
    check("malloc at uses", (5, 120));
    check("realloc at uses", (5, 150));
    check("malloc at copy", (1, 10));
    let found = sites(&recording.trace, &["--no-skip"]);
    assert_eq!(found.get("malloc at xmalloc"), Some(&(11, 210)), "{found:#?}");
    let found = sites(&recording.trace, &["--stacks", "3"]);
    assert!(found.contains_key("malloc at make_node < uses < main"), "{found:#?}");
}

#[test]
fn a_trace_without_stacks_has_the_call_of_the_allocator() {
    let recording = TestProgram::named("wrappers.c").record_by("protect");
    let found = sites(&recording.trace, &[]);
    assert!(found.contains_key("malloc at xmalloc"), "{found:#?}");
}

/// The functions that made the program's own allocations, in their order.
fn functions(trace: &Trace) -> Vec<String> {
    let events = trace.ask("dump", &["--stream", "allocations", "--format", "jsonl"]);
    assert_eq!(events.status, 0, "{}", events.err());
    let events = events.out();
    let events = events.lines().map(|line| line.parse::<Value>().expect("it is JSON"));
    let own = events.filter(|event| event["code"].as_str().is_some_and(|code| code.starts_with("main+")));
    own.map(|event| event["function"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn arrays_are_made_by_the_operator_for_arrays() {
    let text = "// build: -O0\nint main() { int *a = new int[7]; int *b = new int; delete b; delete[] a; }\n";
    let dynamic = TestProgram::from_source("operators.cpp", text, &[]);
    let whole = TestProgram::from_source("operators.cpp", text, &["-static"]);
    let expected = ["operator new[]", "operator new", "operator delete", "operator delete[]"];
    for (program, tracer) in [(&dynamic, "translate"), (&dynamic, "protect"), (&whole, "translate")] {
        let recording = program.record_by(tracer);
        assert_eq!(functions(&recording.trace), expected, "{tracer} {}", program.path.display());
    }
}

#[test]
fn an_operator_that_throws_leaves_no_note_for_the_next_block() {
    let text = "// build: -O0 -Wno-alloc-size-larger-than
        #include <new>
        #include <stdlib.h>
        int main() { try { (void)operator new(size_t(1) << 60); } catch (std::bad_alloc &) {} free(malloc(3)); }";
    let recording = TestProgram::from_source("throws.cpp", text, &[]).record_by("translate");
    let found = functions(&recording.trace);
    assert!(found.contains(&"malloc".to_owned()) && !found.contains(&"operator new".to_owned()), "{found:?}");
}

/// A program without symbols, run three times by a shell: the kernel maps it somewhere else each time.
#[test]
fn sites_are_the_same_wherever_a_program_is_mapped() {
    let sites = |script: &str| {
        let line = ["sh", "-c", script].map(str::to_owned);
        let recording = record(&["--tracer=translate".to_owned()], &line, b"");
        let outcome = recording.trace.ask("report", &["--by", "allocation", "--json"]);
        let rows: Value = serde_json::from_str(&outcome.out()).expect("it is JSON");
        let rows = rows.as_array().expect("an array").iter();
        let own = rows.filter(|row| row["module"] == "sed");
        own.map(|row| (row["name"].to_string(), row["things"].as_u64().expect("a number")))
            .collect::<BTreeMap<_, _>>()
    };
    // What follows keeps the shell from becoming sed.
    let (one, three) =
        (sites("seq 9 | sed s/1/2/; true"), sites("for i in 1 2 3; do seq 9 | sed s/1/2/; done; true"));
    assert!(one.len() > 20, "{one:#?}");
    let tripled: BTreeMap<_, _> = one.into_iter().map(|(site, blocks)| (site, blocks * 3)).collect();
    assert_eq!(tripled, three);
}

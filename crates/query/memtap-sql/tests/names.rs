//! Conditions on names skip frames, and never one with a matching row.

mod common;

use std::collections::BTreeSet;

use e2e::{Recording, TestProgram};

use common::{ask, number};
use serde_json::Value;

/// The rows of a query, whatever is noted beside them: a program that maps a file and removes it leaves no file to read symbols from.
fn rows(recording: &Recording, query: &str) -> Vec<Value> {
    let outcome = ask(&[&recording.trace.path], &[query, "--format", "json"]);
    assert_eq!(outcome.status, 0, "{query}: {}", outcome.err());
    serde_json::from_slice(&outcome.stdout).expect("an array")
}

fn count(recording: &Recording, condition: &str) -> u64 {
    number(&rows(recording, &format!("SELECT count(*) AS n FROM accesses WHERE {condition}"))[0], "n")
}

/// How many frames a query with that condition reads, of how many.
fn frames(recording: &Recording, condition: &str) -> (u64, u64) {
    let query = format!("EXPLAIN SELECT ip FROM accesses WHERE {condition}");
    let plan = ask(&[&recording.trace.path], &[&query]).out();
    let text = plan.split_once("frames=").map_or("", |(_, rest)| rest);
    let (read, rest) = text.split_once(" of ").unwrap_or_else(|| panic!("{plan}"));
    let (all, _) = rest.split_once(' ').unwrap_or_else(|| panic!("{plan}"));
    (read.parse().expect("a number"), all.parse().expect("a number"))
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}

#[test]
fn each_name_has_the_rows_that_it_has_without_skipping() {
    // Blocks, mappings, libraries that come and go, processes with the same names, and an allocator in a static array.
    for program in ["heap.c", "mappings.c", "dlopen.c", "fork.c", "threads.c", "own_allocator.cpp"] {
        let recording = TestProgram::named(program).record_by("translate");
        let unfiltered = rows(
            &recording,
            "SELECT variable, count(*) AS n FROM accesses GROUP BY variable ORDER BY variable",
        );
        assert!(unfiltered.len() > 5, "{program}");
        // Each name on its own, many of them in one session.
        for part in unfiltered.chunks(50) {
            let of_one = |row: &Value| {
                let name = quoted(row["variable"].as_str().expect("a name"));
                format!("SELECT {name} AS variable, count(*) AS n FROM accesses WHERE variable = {name}")
            };
            let counted = part.iter().map(of_one).collect::<Vec<_>>().join(" UNION ALL ");
            let counted = rows(&recording, &format!("SELECT * FROM ({counted}) ORDER BY variable"));
            assert_eq!(counted, part, "{program}");
        }
        let names: BTreeSet<String> =
            unfiltered.iter().take(3).filter_map(|row| row["variable"].as_str()).map(quoted).collect();
        let sum: u64 = unfiltered.iter().take(3).map(|row| number(row, "n")).sum();
        let listed = names.iter().cloned().collect::<Vec<_>>().join(", ");
        assert_eq!(count(&recording, &format!("variable IN ({listed})")), sum, "{program}: {listed}");
        assert_eq!(count(&recording, "variable = 'no such thing'"), 0);
        assert_eq!(frames(&recording, "variable = 'no such thing'").0, 0, "{program}");
        let (first, second) = (names.first().expect("some"), names.last().expect("some"));
        assert_eq!(count(&recording, &format!("variable = {first} AND variable = {second}")), 0);
    }
}

/// Each thread has a variable of its own, on pages of its own.
const PAGES: &str = r#"// Threads with a page each.
// build: -pthread
#include <pthread.h>
struct page { volatile long value; char rest[4088]; } __attribute__((aligned(4096)));
struct page one, two, three;
static void *work(void *at)
{
    struct page *page = at;
    for (int turn = 0; turn < 1000; turn++) page->value++;
    return 0;
}
int main(void)
{
    struct page *pages[] = { &one, &two, &three };
    for (int n = 0; n < 3; n++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, pages[n]);
        pthread_join(thread, 0);
    }
    return 0;
}
"#;

#[test]
fn frames_without_a_variable_are_skipped() {
    let recording = TestProgram::from_source("pages.c", PAGES, &["-pthread"]).record_by("translate");
    let indexed = recording.trace.ask("index", &[]);
    assert_eq!(indexed.status, 0, "{}", indexed.err());
    for name in ["one", "two", "three"] {
        let condition = format!("variable = '{name}'");
        assert_eq!(
            count(&recording, &condition),
            count(&recording, &format!("concat(variable, '') = '{name}'"))
        );
        assert!(count(&recording, &condition) >= 1000);
        let (read, all) = frames(&recording, &condition);
        assert!((1..=2).contains(&read) && all >= 4, "{name}: {read} of {all}");
    }
    // The same where something else has to be checked row by row.
    let both = "variable = 'two' AND kind = 'store' AND offset = 0";
    let (read, _) = frames(&recording, both);
    assert!((1..=2).contains(&read), "{read}");
}

/// A grandchild uses a block that its parent allocated after its grandparent had allocated others.
const GENERATIONS: &str = r#"// Three generations, of which each allocates after the next one began.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char *volatile kept[8];
int main(void)
{
    int ends[2];
    char byte = 0;
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
        if (read(ends[0], &byte, 1) != 1) return 1;
        volatile char *volatile own = malloc(100);
        if (fork() == 0) {
            for (int turn = 0; turn < 100; turn++) own[turn] = 1;
            return 0;
        }
        return wait(0) < 0;
    }
    for (int turn = 0; turn < 8; turn++) kept[turn] = malloc(50);
    if (write(ends[1], &byte, 1) != 1) return 1;
    return wait(0) < 0;
}
"#;

#[test]
fn blocks_of_a_grandchild_have_their_names_where_nothing_of_its_ancestors_is_read() {
    let recording = TestProgram::from_source("generations.c", GENERATIONS, &[]).record_by("translate");
    let names = |condition: &str| {
        let columns = "variable, count(*) AS n";
        rows(
            &recording,
            &format!("SELECT {columns} FROM accesses WHERE {condition} GROUP BY variable ORDER BY variable"),
        )
    };
    let whole = names("thread + 0 = 2");
    assert!(
        whole.iter().any(|row| number(row, "n") >= 100
            && row["variable"].as_str().unwrap_or_default().starts_with("<malloc")),
        "{whole:?}"
    );
    assert_eq!(names("thread = 2"), whole);
    assert_eq!(names("thread = 2 AND cycle >= 10"), names("thread + 0 = 2 AND cycle + 0 >= 10"));
    assert_eq!(names("cycle >= 10"), names("cycle + 0 >= 10"));
}

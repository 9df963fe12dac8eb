//! Accesses with the stacks of functions that made them, and with times.

mod common;

use e2e::{Recording, TestProgram};

use common::{ask, number, rows};

const PROGRAMS: [&str; 4] = ["contexts.cpp", "threads.c", "fork.c", "exceptions.cpp"];

fn count(recording: &Recording, rest: &str) -> u64 {
    number(&rows(recording, &format!("SELECT count(*) AS n FROM {rest}"))[0], "n")
}

/// How many frames a query reads, of how many.
fn frames(recording: &Recording, query: &str) -> (u64, u64) {
    let plan = ask(&[&recording.trace.path], &[&format!("EXPLAIN {query}")]).out();
    let text = plan.split_once("frames=").map_or("", |(_, rest)| rest);
    let (read, rest) = text.split_once(" of ").unwrap_or_else(|| panic!("{plan}"));
    let (all, _) = rest.split_once(' ').unwrap_or_else(|| panic!("{plan}"));
    (read.parse().expect("a number"), all.parse().expect("a number"))
}

#[test]
fn accesses_of_each_context_are_those_that_the_table_counts() {
    for program in PROGRAMS {
        let recording = TestProgram::named(program).record_by("translate");
        let counted = rows(
            &recording,
            "SELECT context, count(*) AS n FROM accesses WHERE kind <> 'prefetch' GROUP BY context ORDER BY context",
        );
        let table = rows(
            &recording,
            "SELECT context, loads + stores + modifies AS n FROM contexts \
             WHERE loads + stores + modifies > 0 ORDER BY context",
        );
        assert_eq!(counted, table, "{program}");
        assert!(counted.len() > 10, "{program}: {}", counted.len());
        // The function is the stack's, as the table has it.
        let other = "contexts WHERE array_to_string(stack(context), ';') IS DISTINCT FROM array_to_string(stack, ';')";
        assert_eq!(count(&recording, other), 0, "{program}");
        // The innermost function is the access's own. What has no symbol has no function, but a module.
        let innermost = "accesses WHERE function <> module AND array_element(stack(context), -1) <> function";
        assert_eq!(count(&recording, innermost), 0, "{program}");
    }
}

#[test]
fn a_context_is_the_same_whatever_else_is_asked() {
    let recording = TestProgram::named("contexts.cpp").record_by("translate");
    let columns = "thread, cycle, ip, addr, context";
    let query = |condition: &str| {
        rows(&recording, &format!("SELECT {columns} FROM accesses WHERE {condition} ORDER BY {columns}"))
    };
    for (pushed, checked) in [
        ("cycle BETWEEN 1000 AND 3000", "cycle + 0 BETWEEN 1000 AND 3000"),
        ("thread = 1 AND kind = 'store'", "thread + 0 = 1 AND concat(kind, '') = 'store'"),
        ("kind = 'modify'", "concat(kind, '') = 'modify'"),
        ("cycle < 0", "1 = 0"),
    ] {
        assert_eq!(query(pushed), query(checked), "{pushed}");
    }
    assert!(!query("kind = 'modify'").is_empty());
    let few = rows(&recording, "SELECT context FROM accesses LIMIT 7");
    assert_eq!(few.len(), 7);
    // Everything before is read for it, and nothing where no row can match.
    let (read, all) = frames(&recording, "SELECT context FROM accesses WHERE cycle < 10");
    assert_eq!(read, all);
    let (read, _) = frames(&recording, "SELECT context FROM accesses WHERE cycle > 1000000000000");
    assert_eq!(read, 0);
    assert!(rows(&recording, "SELECT context FROM accesses WHERE cycle > 1000000000000").is_empty());
}

#[test]
fn only_those_who_name_the_column_pay_for_it() {
    let recording = TestProgram::named("threads.c").record_by("translate");
    let has = |query: &str| rows(&recording, &format!("{query} LIMIT 1"))[0].get("context").is_some();
    for (query, expect) in [
        ("SELECT * FROM accesses", false),
        ("SELECT a.*, t.tid FROM accesses AS a JOIN threads AS t USING (thread)", false),
        ("SELECT * FROM accesses JOIN threads USING (thread)", false),
        ("SELECT * FROM (SELECT * FROM accesses)", false),
        ("SELECT *, context FROM accesses", true),
        ("SELECT * FROM (SELECT *, context FROM accesses)", true),
        ("SELECT * FROM accesses JOIN contexts USING (context)", true),
    ] {
        assert_eq!(has(query), expect, "{query}");
    }
    // Where it is not read, the scan is divided, and reads no more frames than it needs.
    let plan = |columns: &str| {
        let query = format!("EXPLAIN SELECT {columns} FROM accesses WHERE thread = 1");
        ask(&[&recording.trace.path], &[&query]).out()
    };
    assert_eq!(plan("*").matches("context").count(), 0);
    assert!(plan("*, context").contains("parts=1"));
    let read =
        |columns: &str| frames(&recording, &format!("SELECT {columns} FROM accesses WHERE thread = 1"));
    assert!(read("*").0 < read("*").1, "{:?}", read("*"));
    assert_eq!(read("*, context").0, read("*").1);
}

#[test]
fn equal_stacks_of_two_runs_have_one_number() {
    let [first, second] = [0, 1].map(|_| TestProgram::named("contexts.cpp").record_by("translate"));
    let query = "SELECT context FROM contexts WHERE array_element(stack, -1) = 'leaf' ORDER BY context";
    let [one, other] = [&first, &second].map(|recording| rows(recording, query));
    assert!(!one.is_empty());
    assert_eq!(one, other);
}

#[test]
fn there_are_no_contexts_where_no_stacks_were_recorded() {
    let recording = TestProgram::named("integers.c").record_by("protect");
    assert!(count(&recording, "accesses") > 0);
    assert_eq!(count(&recording, "accesses WHERE context IS NOT NULL"), 0);
    assert_eq!(count(&recording, "contexts"), 0);
    assert!(rows(&recording, "SELECT stack(1) AS stack")[0]["stack"].is_null());
}

#[test]
fn times_are_those_of_frames_and_rise() {
    for program in PROGRAMS {
        let recording = TestProgram::named(program).record_by("translate");
        assert_eq!(count(&recording, "accesses WHERE wall_ns IS NULL"), 0, "{program}");
        let outside = "accesses AS a JOIN (SELECT thread, min(first_ns) AS first, max(last_ns) AS last FROM frames \
             WHERE name = 'accesses' GROUP BY thread) AS f ON a.thread = f.thread \
             WHERE wall_ns NOT BETWEEN first AND last";
        assert_eq!(count(&recording, outside), 0, "{program}");
        let back = "(SELECT wall_ns, lag(wall_ns) OVER (PARTITION BY thread ORDER BY cycle) AS before FROM accesses) \
             WHERE before > wall_ns";
        assert_eq!(count(&recording, back), 0, "{program}");
    }
}

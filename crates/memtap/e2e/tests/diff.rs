//! `memtap diff`: two builds of one program, whose accesses are counted by hand.

use e2e::{Finished, Recording, TestProgram, fits_schema, memtap, record, run, tool};
use serde_json::Value;
use std::process::Command;

fn builds() -> [Recording; 2] {
    let built = |flags: &[&str]| {
        record(&[], &[TestProgram::built("diff/builds.c", flags).command_line()[0].clone()], b"")
    };
    [built(&[]), built(&["-DSECOND"])]
}

fn diff([before, after]: [&Recording; 2], options: &[&str]) -> Finished {
    let mut command = Command::new(memtap());
    command.arg("diff").args([&before.trace.path, &after.trace.path]).args(options);
    run(&mut command, b"")
}

/// Accesses before and after in the row of that name.
fn row(rows: &Value, name: &str) -> Option<(u64, u64)> {
    let accesses = |run: &Value| {
        ["loads", "stores", "modifies"].iter().map(|key| run[*key].as_u64().expect("a number")).sum()
    };
    let row = rows.as_array().expect("an array").iter().find(|row| row["name"] == name)?;
    Some((accesses(&row["before"]), accesses(&row["after"])))
}

#[test]
fn what_grew_what_is_new_and_what_is_gone() {
    let [before, after] = builds();
    let by = |kind: &str| {
        let outcome = diff([&before, &after], &["--json", "--by", kind]);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        fits_schema("diff", &outcome.out())
    };
    let variables = by("variable");
    assert_eq!(row(&variables, "table"), Some((100, 350)));
    assert_eq!(row(&variables, "limit"), Some((10, 0)));
    assert_eq!(row(&variables, "hits"), Some((0, 7)));
    assert_eq!(row(&variables, "<malloc@make>"), Some((40, 60)), "{variables:#}");
    assert_eq!(row(&variables, "same"), None, "what is the same is no difference");
    assert_eq!(row(&by("field"), "table[]"), Some((100, 350)));
    let functions = by("function");
    let (fill_before, fill_after) = row(&functions, "fill").expect("it is in both");
    assert!((115..125).contains(&fill_before) && fill_after - fill_before == 247, "{functions:#}");
    let stacks = by("stack");
    let stack = stacks.as_array().expect("an array").iter().find(|row| {
        let name = row["name"].as_str().expect("text");
        name.ends_with("main;fill")
    });
    assert!(stack.is_some(), "{stacks:#}");

    let text = diff([&before, &after], &["--top", "1"]).out();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("change") && lines[0].ends_with("variable or block"), "{text}");
    assert!(
        lines[1].trim_start().starts_with("+250")
            && lines[1].contains("+250.0 %")
            && lines[1].ends_with("table"),
        "{text}"
    );
    assert!(lines.last().expect("a total").ends_with("total"), "{text}");
}

#[test]
fn a_limit_that_is_passed_is_status_3() {
    let [before, after] = builds();
    let check = |limit: &str, status: i32, says: &str| {
        let outcome = diff([&before, &after], &["--fail-if", limit]);
        assert_eq!(outcome.status, status, "{limit}: {}", outcome.err());
        assert!(outcome.err().contains(says), "{limit}: {}", outcome.err());
    };
    check(
        "table.stores>200",
        3,
        "memtap: table: stores went from 100 to 350, which table.stores>200 forbids",
    );
    check("table.stores>250%", 0, "");
    check("table.loads>0", 0, "");
    check("same.accesses>0", 0, "");
    check("weight>3", 2, "FIGURE>NUMBER");
    let back = diff([&after, &before], &["--fail-if", "table.stores>0"]);
    assert_eq!(back.status, 0, "fewer is no growth: {}", back.err());
}

#[test]
fn a_run_is_like_itself() {
    let [before, _] = builds();
    let outcome = diff([&before, &before], &["--fail-if", "accesses>0"]);
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
    assert!(outcome.out().starts_with("both runs access the same things equally often"), "{}", outcome.out());
    assert_eq!(diff([&before, &before], &["--json"]).out().trim(), "[]");
}

#[test]
fn what_can_not_be_compared_is_one_line() {
    let [before, _] = builds();
    let closed = TestProgram::named("heap.c").record_by("protect");
    let outcome = diff([&before, &closed], &["--by", "stack"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err().contains("has no calls, so call stacks are unknown"), "{}", outcome.err());
    let mut command = Command::new(memtap());
    let missing = run(command.arg("diff").arg(&before.trace.path).arg(tool("true")), b"");
    assert_eq!((missing.status, missing.err().lines().count()), (1, 1), "{}", missing.err());
}

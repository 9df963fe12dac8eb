//! `memtap view A B` in a browser: two runs, one above the other, and what changed between them.

use std::process::Command;

use e2e::{Recording, TestProgram, ViewPage, Viewer, memtap, record, run};
use serde_json::{Value, json};

fn builds() -> [Recording; 2] {
    let built = |flags: &[&str]| {
        record(&[], &[TestProgram::built("diff/builds.c", flags).command_line()[0].clone()], b"")
    };
    [built(&[]), built(&["-DSECOND"])]
}

fn two_runs([before, after]: [Recording; 2]) -> (ViewPage, Recording) {
    let viewer = Viewer::with([before.trace.path.as_os_str(), after.trace.path.as_os_str()]);
    (ViewPage::at(viewer, before.trace), after)
}

/// Waits until what changed is counted.
fn compared(page: &mut ViewPage) {
    page.settle();
    page.browser.wait("memtapView.compare.settled && memtapView.runs.every(run => run.map.settled)");
}

/// Name, accesses before and after of the rows that are shown, sorted.
fn rows(page: &mut ViewPage) -> Vec<(String, u64, u64)> {
    let rows = page.browser.value(
        "[...document.querySelectorAll('#compare tbody tr')].map(row => [row.children[0].firstChild.textContent, \
         ...[3, 4].map(column => Number(row.children[column].innerText.replace(/\\D/g, '')))])",
    );
    let row = |row: &Value| {
        let number = |column: usize| row[column].as_u64().expect("a number");
        (row[0].as_str().expect("a name").to_owned(), number(1), number(2))
    };
    let mut rows: Vec<_> = rows.as_array().expect("an array").iter().map(row).collect();
    rows.sort();
    rows
}

/// The same by `diff --json`.
fn diff(page: &ViewPage, after: &Recording, by: &str) -> Vec<(String, u64, u64)> {
    let mut command = Command::new(memtap());
    command.arg("diff").args([&page.trace.path, &after.trace.path]).args(["--json", "--by", by]);
    let found: Value = serde_json::from_str(&run(&mut command, b"").out()).expect("JSON");
    let row = |row: &Value| {
        let count = |run: &str| {
            ["loads", "stores", "modifies"].iter().map(|key| row[run][*key].as_u64().expect("a number")).sum()
        };
        (row["name"].as_str().expect("a name").to_owned(), count("before"), count("after"))
    };
    let mut rows: Vec<_> = found.as_array().expect("an array").iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn what_changed_is_what_diff_says() {
    let (mut page, after) = two_runs(builds());
    for by in ["variable", "function", "field", "type", "stack"] {
        page.choose("#compare-by", by);
        compared(&mut page);
        assert_eq!(rows(&mut page), diff(&page, &after, by), "{by}");
    }
    let all = [page.trace.number("accesses"), after.trace.number("accesses")];
    let digits: String = page.browser.text("#compare .covers").replace(['\u{202f}', '\u{a0}'], "");
    for number in all {
        assert!(digits.contains(&format!("{number} a")), "{digits}");
    }
    // Words, not colours, say what is only in one.
    page.choose("#compare-by", "variable");
    for (kind, name, word) in [("new", "hits", "new"), ("gone", "limit", "gone"), ("grew", "table", "+250.0")]
    {
        page.choose("#compare .kind", kind);
        compared(&mut page);
        let row = page.browser.value(&format!(
            "[...document.querySelectorAll('#compare tbody tr')].find(row => row.children[0].firstChild.textContent === '{name}')?.innerText"
        ));
        assert!(row.as_str().is_some_and(|row| row.contains(word)), "{kind}: {row}");
    }
    page.quiet();
}

#[test]
fn each_run_has_its_map_and_the_panes_follow_the_active_one() {
    let (mut page, after) = two_runs(builds());
    compared(&mut page);
    // With memtap's library, which the loader reads.
    page.browser.click("#tracer");
    compared(&mut page);
    let sums = page.browser.value("memtapView.runs.map(run => run.map.tile.facts.sum)");
    let all = [page.trace.number("accesses"), after.trace.number("accesses")];
    assert_eq!(sums, json!(all));
    // One above the other, and the same colours for the same numbers.
    let tops = page.browser.value("memtapView.runs.map(run => run.map.canvas.getBoundingClientRect().top)");
    assert!(tops[0].as_f64() < tops[1].as_f64(), "{tops}");
    assert_eq!(page.browser.value("memtapView.runs[0].map.most === memtapView.runs[1].map.most"), true);
    let table = |page: &mut ViewPage| page.table()[..3].iter().sum::<u64>();
    assert_eq!(table(&mut page), all[0]);
    page.browser.key("o");
    compared(&mut page);
    assert_eq!(table(&mut page), all[1]);
    // A drag on it selects a part of that run alone, which what changed is about then.
    let (from, to) = (page.point(0.3, 0.02), page.point(0.8, 0.98));
    page.browser.drag(from, to, true);
    compared(&mut page);
    let part = table(&mut page);
    assert!(part > 0 && part < all[1], "{part} of {}", all[1]);
    let counted = |page: &mut ViewPage| {
        page.browser.value(
            "(total => ['before', 'after'].map(run => total[run].loads + total[run].stores + total[run].modifies))(memtapView.compare.answer.total)",
        )
    };
    assert_eq!(counted(&mut page), json!([all[0], part]));
    page.browser.wait("location.hash.includes('after-selected-cycles=')");
    let selected = page.selection();
    page.browser.reload();
    compared(&mut page);
    assert_eq!((page.selection(), table(&mut page)), (selected, part));
    assert_eq!(counted(&mut page), json!([all[0], part]));
    page.quiet();
}

#[test]
fn two_windows_of_one_run_are_compared_where_it_is_given_twice() {
    let [run, _] = builds();
    let viewer = Viewer::with([run.trace.path.as_os_str(); 2]);
    let process = &viewer.json("trace")["processes"][0];
    let [from, to] = ["from", "to"].map(|key| process[key].as_u64().expect("a number"));
    let middle = (from + to) / 2;
    let halves = viewer.json(&format!("compare?from={from}&to={middle}&after-from={middle}&after-to={to}"));
    let accesses = |side: &str| {
        ["loads", "stores", "modifies"]
            .map(|key| halves["total"][side][key].as_u64().expect("a number"))
            .iter()
            .sum::<u64>()
    };
    assert!(accesses("before") > 0 && accesses("after") > 0, "{halves}");
    assert_eq!(accesses("before") + accesses("after"), run.trace.number("accesses"));
}

#[test]
fn wrong_questions_about_two_runs_are_refused_with_a_line() {
    let [before, after] = builds();
    let two = Viewer::with([before.trace.path.as_os_str(), after.trace.path.as_os_str()]);
    let refused = |viewer: &Viewer, asked: &str, status: u16| {
        let answer = viewer.get(asked);
        assert_eq!((answer.status, answer.text().lines().count()), (status, 1), "{asked}: {}", answer.text());
    };
    for asked in [
        "trace?run=2",
        "tile?run=18446744073709551615",
        "table?run=x",
        "compare?by=page",
        "compare?after-from=2&after-to=1",
        "compare?after-process=9",
        "compare?run=0",
    ] {
        refused(&two, asked, 400);
    }
    assert_eq!(two.json("trace?run=1")["runs"], 2);
    refused(&Viewer::of(&before.trace.path), "compare", 404);
    let third = run(Command::new(memtap()).arg("view").args([&before.trace.path; 3]).arg("--no-open"), b"");
    assert_eq!(third.status, 2);
    let missing = run(
        Command::new(memtap()).args(["view", "--no-open"]).arg(&before.trace.path).arg("/none/such"),
        b"",
    );
    assert_eq!((missing.status, missing.err().lines().count()), (1, 1), "{}", missing.err());
}

#[test]
fn an_access_to_several_fields_counts_once_in_sums() {
    let run = TestProgram::built("layout/merged.c", &["-O3"]).record_by("translate");
    let all = run.trace.number("accesses");
    let accesses = |count: &Value| {
        ["loads", "stores", "modifies"].map(|key| count[key].as_u64().expect("a number")).iter().sum::<u64>()
    };
    let viewer = Viewer::with([run.trace.path.as_os_str(); 2]);
    let table = viewer.json("table?by=field");
    let rows = table["rows"].as_array().expect("an array");
    assert!(rows.iter().map(accesses).sum::<u64>() > all, "no access is to several fields");
    assert_eq!(accesses(&table["total"]), all);
    let total = &viewer.json("compare?by=field")["total"];
    assert_eq!((accesses(&total["before"]), accesses(&total["after"])), (all, all));
}

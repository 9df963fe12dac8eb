//! Runs the tests with cargo-nextest. In CI (`CI` is set), a test that fails is run up to twice more, with nothing
//! beside it. A test that passes then is flaky: it does not fail the run, and is named at its end, as a defect to fix.
//!
//! Which tests failed, and how long each test took, is read from the report that nextest writes (JUnit's format).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use roxmltree::{Document, Node};

use crate::shell;

/// How often a test that failed is run again.
const MORE_TRIES: usize = 2;
/// Of more tests that failed at once no machine is the cause.
const MOST_TRIED: usize = 12;
/// So many of the slowest are shown.
const SLOWEST: usize = 20;

/// A test of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Test {
    pub(crate) binary: String,
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// What the failure begins with, where it failed.
    pub(crate) failure: Option<String>,
    /// What it wrote, where it failed.
    pub(crate) output: String,
}

/// A run of some tests.
pub(crate) struct Outcome {
    /// How nextest ended.
    pub(crate) end: Result<()>,
    pub(crate) tests: Vec<Test>,
}

impl Test {
    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.binary, self.name)
    }

    /// It alone, in nextest's language.
    fn filter(&self) -> String {
        format!("(binary_id(={}) & test(={}))", self.binary, self.name)
    }

    fn line(&self, word: &str) -> String {
        format!("{word} {}: {}", self.full_name(), self.failure.as_deref().unwrap_or("no reason given"))
    }
}

/// Runs all tests. `notes` gets what belongs into the last lines of the task: which failed, which were flaky, and how each failed first.
///
/// # Errors
/// Where a test failed, or none could be run.
pub(crate) fn run(notes: &mut Vec<String>) -> Result<()> {
    let Outcome { end, tests } = run_some(&[])?;
    show_slowest(&tests);
    let first: Vec<Test> = tests.into_iter().filter(|test| test.failure.is_some()).collect();
    if first.is_empty() {
        return end;
    }
    let mut failing = first.clone();
    if env::var_os("CI").is_some() && first.len() <= MOST_TRIED {
        for _ in 0..MORE_TRIES {
            let filter = failing.iter().map(Test::filter).collect::<Vec<_>>().join(" | ");
            let Outcome { tests: again, .. } = run_some(&["--test-threads", "1", "-E", &filter])?;
            failing.retain(|test| !again.iter().any(|other| other.passed_as(test)));
            if failing.is_empty() {
                break;
            }
        }
    }
    let is_failing = |test: &Test| failing.iter().any(|other| other.full_name() == test.full_name());
    let word = |test: &Test| if is_failing(test) { "FAILED " } else { "flaky  " };
    notes.extend(first.iter().map(|test| test.line(word(test))));
    match failing.len() {
        0 => Ok(()),
        count => bail!("{count} of the tests failed"),
    }
}

impl Test {
    /// Whether this is that test, which passed now.
    fn passed_as(&self, other: &Self) -> bool {
        self.failure.is_none() && self.full_name() == other.full_name()
    }
}

/// The tests that these options choose.
fn run_some(options: &[&str]) -> Result<Outcome> {
    run_command(&[&["cargo", "nextest", "run", "--no-fail-fast"], options].concat(), "default")
}

/// The test binaries with tests that a filter chooses, by their ids.
///
/// # Errors
/// Where the tests can't be built, or the filter can't be understood.
pub(crate) fn binaries(filter: &str) -> Result<BTreeSet<String>> {
    let words = ["cargo", "nextest", "list", "--message-format", "oneline", "-E", filter];
    let list = shell::output(&mut shell::command(&words))?;
    Ok(list.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect())
}

/// Runs tests by a command that calls nextest with this profile, and reads the report.
///
/// # Errors
/// Where there is no report.
pub(crate) fn run_command(command: &[&str], profile: &str) -> Result<Outcome> {
    let report = report(profile);
    if report.exists() {
        fs::remove_file(&report)?;
    }
    let end = shell::run(command);
    match fs::read_to_string(&report) {
        Ok(text) => Ok(Outcome { end, tests: parse(&text).with_context(|| report.display().to_string())? }),
        Err(error) => {
            end?;
            Err(error).with_context(|| format!("{}: cargo-nextest left no report", report.display()))
        }
    }
}

/// Where `.config/nextest.toml` has it written: below the repository's own `target`, wherever cargo builds.
fn report(profile: &str) -> PathBuf {
    shell::repository().join("target/nextest").join(profile).join("junit.xml")
}

fn parse(report: &str) -> Result<Vec<Test>> {
    let document = Document::parse(report)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    cases.map(|case| test(case).context("a test case lacks its name, its binary or its time")).collect()
}

fn test(case: Node<'_, '_>) -> Option<Test> {
    let failed = case.children().find(|child| child.has_tag_name("failure") || child.has_tag_name("error"));
    Some(Test {
        binary: case.attribute("classname")?.to_owned(),
        name: case.attribute("name")?.to_owned(),
        seconds: case.attribute("time")?.parse().ok()?,
        failure: failed.map(|failed| first_line(failed).to_owned()),
        output: failed.map(|_| output(case)).unwrap_or_default(),
    })
}

/// What a failure says first.
fn first_line<'a>(failure: Node<'a, '_>) -> &'a str {
    let said = failure.attribute("message").or_else(|| failure.text());
    let line = said.and_then(|said| said.lines().map(str::trim).find(|line| !line.is_empty()));
    line.or_else(|| failure.attribute("type")).unwrap_or("no reason given")
}

/// What a test wrote, of both kinds.
fn output(case: Node<'_, '_>) -> String {
    let written =
        case.children().filter(|child| matches!(child.tag_name().name(), "system-out" | "system-err"));
    written.filter_map(|node| node.text()).collect::<Vec<_>>().join("\n")
}

fn show_slowest(tests: &[Test]) {
    let mut tests: Vec<&Test> = tests.iter().collect();
    tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    eprintln!("the slowest tests:");
    for test in tests.iter().take(SLOWEST) {
        eprintln!("{:8.1} s  {}", test.seconds, test.full_name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_who_failed_and_with_which_words() {
        let report = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="2" errors="0" time="4.2">
    <testsuite name="e2e::worlds" tests="2">
        <testcase name="passes" classname="e2e::worlds" time="1.5"/>
        <testcase name="fails" classname="e2e::worlds" time="0.25">
            <failure message="thread 'fails' panicked at worlds.rs:3:5: left &gt; right" type="test failure with exit code 101">all of it</failure>
            <system-out>running 1 test</system-out><system-err>the stack</system-err>
        </testcase>
    </testsuite>
    <testsuite name="x86">
        <testcase name="room::hangs" classname="x86" time="360.0"><failure type="test timeout"/></testcase>
    </testsuite>
</testsuites>"#;
        let tests = parse(report).unwrap();
        assert_eq!(tests.len(), 3);
        assert_eq!((tests[0].seconds, &tests[0].failure), (1.5, &None));
        let failed = "FAILED  e2e::worlds fails: thread 'fails' panicked at worlds.rs:3:5: left > right";
        assert_eq!(tests[1].line("FAILED "), failed);
        assert_eq!(tests[1].output, "running 1 test\nthe stack");
        assert_eq!(tests[2].line("flaky  "), "flaky   x86 room::hangs: test timeout");
        assert_eq!(tests[2].filter(), "(binary_id(=x86) & test(=room::hangs))");
        assert!(parse("<testsuites><testcase/></testsuites>").is_err());
    }

    #[test]
    fn only_the_same_test_that_passes_clears_one_that_failed() {
        let test = |name: &str, failure: Option<&str>| Test {
            binary: "e2e::worlds".to_owned(),
            name: name.to_owned(),
            seconds: 1.0,
            failure: failure.map(str::to_owned),
            output: String::new(),
        };
        let failed = test("a", Some("why"));
        assert!(test("a", None).passed_as(&failed));
        assert!(!test("b", None).passed_as(&failed) && !test("a", Some("why")).passed_as(&failed));
    }
}

//! `cargo xtask test`: everything that must hold, in one run, with a summary at the
//! end. `cargo xtask test --query`: the same for the query wing and the Python package.

use std::cell::RefCell;

use anyhow::{Context, Result, bail};

use crate::progress::{FirstRun, Progress, shown};
use crate::{install, nextest, python, shell};

/// Crates with a protocol that loom checks, and where its models are.
const LOOM: &[(&str, &[&str])] = &[
    ("buffers", &["--lib"]),
    ("patch", &["--test", "protocol_model"]),
    ("rtvm-alloc", &["--test", "depot_model"]),
];

/// One stage: what it is called and what it does.
type Stage<'a> = (&'a str, Box<dyn Fn() -> Result<()> + 'a>);

/// Runs every stage; those after a failed build are left out, all others run whatever failed before.
pub(crate) fn run() -> Result<()> {
    let notes = RefCell::default();
    let stages: Vec<Stage<'_>> = vec![
        (
            "install",
            Box::new(|| {
                install::tools(install::TEST)?;
                install::guest_parts()?;
                install::rust_components()
            }),
        ),
        // Libraries that are loaded at run time too: no test of another crate would have cargo build them.
        ("build", Box::new(|| shell::run(&["cargo", "build", "--bins", "--lib"]))),
        ("structure", Box::new(crate::structure::run)),
        ("format", Box::new(|| shell::run(&["cargo", "fmt", "--all", "--check"]))),
        ("lint", Box::new(|| shell::run(&["cargo", "clippy", "--all-targets", "--", "-D", "warnings"]))),
        ("tests", Box::new(|| tests(&mut notes.borrow_mut()))),
        ("doc tests", Box::new(|| shell::run(&["cargo", "test", "--doc"]))),
        ("loom", Box::new(loom)),
        ("documentation", Box::new(documentation)),
    ];
    run_stages("test", stages, &FirstRun { minutes: 40, gigabytes: 9 }, &notes)
}

/// The query wing: its crates are no default members, so that nobody builds two hundred more who does not ask in SQL.
const QUERY: [&str; 12] = [
    "-p",
    "memtap-arrow",
    "-p",
    "trace-sql",
    "-p",
    "memtap-sql",
    "-p",
    "memtap-cluster",
    "-p",
    "memtap-mcp",
    "-p",
    "object-traces",
];
/// What Python loads, which can't be tested without it.
const PYTHON: [&str; 2] = ["-p", "memtap-python"];

/// Runs every stage of the query wing. Its tests record with the binaries that `run` builds.
pub(crate) fn run_query() -> Result<()> {
    fn of_query(words: &[&str], rest: &[&str]) -> Result<()> {
        shell::run(&[&["cargo"], words, &QUERY, rest].concat())
    }
    let stages: Vec<Stage<'_>> = vec![
        (
            "install",
            Box::new(|| {
                install::tools(install::TEST)?;
                install::tools(install::TEST_QUERY)?;
                install::rust_components()?;
                python::prepare()
            }),
        ),
        (
            "build",
            Box::new(|| {
                shell::run(&["cargo", "build", "--bins", "--lib"])?;
                // The program comes with its tests: built by itself it would be built twice, since tests unwind and programs do not.
                of_query(&["test", "--no-run"], &[])?;
                python::build()
            }),
        ),
        (
            "lint",
            Box::new(|| {
                of_query(&["clippy"], &[&PYTHON[..], &["--all-targets", "--", "-D", "warnings"]].concat())
            }),
        ),
        // Doc tests with them: by themselves they would want all crates once more, with fewer features.
        ("tests", Box::new(|| of_query(&["test", "--no-fail-fast"], &[]))),
        ("python", Box::new(python::test)),
        ("documentation", Box::new(|| document(&[&QUERY[..], &PYTHON].concat()))),
    ];
    run_stages("test --query", stages, &FirstRun { minutes: 25, gigabytes: 9 }, &RefCell::default())
}

/// Runs the stages, and shows how each went. `notes` is what they leave to be said last.
fn run_stages(
    task: &'static str,
    stages: Vec<Stage<'_>>,
    first: &FirstRun,
    notes: &RefCell<Vec<String>>,
) -> Result<()> {
    let mut lines = Vec::new();
    let mut failed = 0;
    let mut progress = Progress::start(task, stages.len(), first)?;
    for (name, stage) in stages {
        let result = progress.step(name, stage);
        let time = shown(progress.took(name));
        match &result {
            Ok(()) => lines.push(format!("ok      {name:<14} {time:>7}")),
            Err(error) => {
                failed += 1;
                // Said at once: the rest may take long.
                eprintln!("xtask: {name} failed: {error:#}");
                lines.push(format!("FAILED  {name:<14} {time:>7}  {error:#}"));
            }
        }
        if result.is_err() && (name == "install" || name == "build") {
            lines.push("        the rest was not run".to_owned());
            break;
        }
    }
    let notes = notes.take();
    println!("\n{}", [lines, notes.clone()].concat().join("\n"));
    if failed > 0 {
        bail!("{failed} of the stages failed");
    }
    progress.finish()?;
    match notes.len() {
        0 => println!("all tests passed"),
        flaky => println!("all tests passed; {flaky} of them only when they were run again, alone"),
    }
    Ok(())
}

fn tests(notes: &mut Vec<String>) -> Result<()> {
    if shell::succeeds(&["cargo", "nextest", "--version"]) {
        nextest::run(notes)
    } else {
        // This runner ends no test that hangs: an hour and a quarter is far more than all of them take.
        let line = ["cargo", "test", "--lib", "--bins", "--tests", "--no-fail-fast"];
        shell::run(&[&["timeout", "--kill-after=10", "4500"][..], &line].concat())
    }
}

fn loom() -> Result<()> {
    let target = shell::target_dir().join("loom");
    for (name, which) in LOOM {
        shell::crate_dir(name).context("the list in xtask/src/test.rs names it")?;
        let mut command = shell::command(&[&["cargo", "test", "--release", "-p", name], *which].concat());
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", &target);
        shell::run_command(&mut command)?;
    }
    Ok(())
}

fn documentation() -> Result<()> {
    document(&[])
}

/// Documents packages, or the default members.
fn document(packages: &[&str]) -> Result<()> {
    let words = ["cargo", "doc", "--no-deps", "--document-private-items", "--quiet"];
    let mut command = shell::command(&[&words, packages].concat());
    shell::run_command(command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"))
}

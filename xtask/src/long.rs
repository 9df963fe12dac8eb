//! `cargo xtask long`: the tests that take hours. Programs of other projects run natively and recorded, each with
//! its own tests, and must come to the same verdicts: stress-ng's stressors and the tests of Python's library.
//! Other long tests follow: a JVM (`long_jvm`), generated programs, patched code, killed recorders, fuzzing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::install::{self, Tool};
use crate::{differ, fuzz, long_jvm, shell, stress};

/// Debian's Python, which its tests are packaged for.
const PYTHON: &str = "/usr/bin/python3";
/// For the stressors.
const STRESS_NG: &[Tool] = &[("stress-ng", "stress-ng")];
/// A native run that takes longer is not compared, nor one for which this is not enough when it is recorded.
const NATIVE_SECONDS: u64 = 120;
const RECORDED_SECONDS: u64 = 1800;
/// Seeds of drawn programs.
const SEEDS: &str = "1-2000";

/// Stressors that are left out: they are the machine's end, or change its settings, where they have the rights.
const LEFT_OUT: &[&str] = &[
    "apparmor",
    "binderfs",
    "cpu-online",
    "klog",
    "oom-pipe",
    "ramfs",
    "reboot",
    "smi",
    "swap",
    "sysinval",
    "watchdog",
];

/// What a part does.
type Part = fn() -> Result<()>;

/// The parts, as they can be asked for.
const PARTS: &[(&str, Part)] = &[
    ("stressors", stressors),
    ("python", python),
    ("jvm", long_jvm::run),
    ("differ", || differ::run(&[SEEDS])),
    ("patches", || stress::run("probes", &[])),
    ("kills", || stress::run("kills", &[])),
    ("fuzz", || fuzz::run(&[])),
];

/// Runs the parts that are named, or all of them, to the end; fails where one has failed.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|(part, _)| part != *name)) {
        let parts: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        bail!("long has no part {unknown:?}: {}", parts.join(", "));
    }
    let asked = |part: &&(&str, _)| names.is_empty() || names.contains(&part.0);
    let mut failed = Vec::new();
    for (name, part) in PARTS.iter().filter(asked) {
        if let Err(error) = part() {
            eprintln!("{name}: {error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("not as it should be: {}", failed.join(", "));
    }
    Ok(())
}

/// How a program has ended, and what it told of its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    /// `None`: it was killed, or the limit of time was over.
    status: Option<i32>,
    told: BTreeSet<String>,
}

impl Verdict {
    fn parse(text: &str, status: Option<i32>) -> Self {
        Self { status, told: text.lines().filter_map(told_of_test).map(str::to_owned).collect() }
    }

    /// What one has told and the other has not.
    fn differences(&self, other: &Self) -> Vec<String> {
        self.told.symmetric_difference(&other.told).cloned().collect()
    }
}

/// What a line of output says of a test of Python's, if anything: that it failed, or how many there were.
fn told_of_test(line: &str) -> Option<&str> {
    if line.starts_with("FAIL: ") || line.starts_with("ERROR: ") {
        return Some(line);
    }
    // `Ran 12 tests in 0.1s`
    let (tests, _) = line.strip_prefix("Ran ")?.split_once(" in ")?;
    Some(tests)
}

/// Runs programs natively and recorded.
struct Comparison {
    memtap: PathBuf,
    dir: PathBuf,
    compared: usize,
    /// Those that have no verdict of their own to compare with: too long, or another one each time.
    left: Vec<String>,
    different: Vec<String>,
}

impl Comparison {
    fn new() -> Result<Self> {
        shell::run(&["cargo", "build", "--bins", "--lib"])?;
        let dir = shell::target_dir().join("long");
        std::fs::create_dir_all(&dir).with_context(|| format!("{}: can't be made", dir.display()))?;
        let memtap = shell::profile_dir("debug").join("memtap");
        Ok(Self { memtap, dir, compared: 0, left: Vec::new(), different: Vec::new() })
    }

    /// A verdict that differs is only believed where native runs come to the same, and a second recorded run to another.
    fn check(&mut self, name: &str, words: &[&str]) -> Result<()> {
        let native = self.run(words, false)?;
        if native.status.is_none() {
            self.left.push(name.to_owned());
            return Ok(());
        }
        let recorded = self.run(words, true)?;
        self.compared += 1;
        if native == recorded {
            return Ok(());
        }
        if self.run(words, false)? != native {
            self.compared -= 1;
            self.left.push(name.to_owned());
            return Ok(());
        }
        let again = self.run(words, true)?;
        if again == native {
            return Ok(());
        }
        println!("{name}: status {} natively, {} recorded", shown(&native), shown(&again));
        for line in native.differences(&again) {
            println!("  {line}");
        }
        self.different.push(name.to_owned());
        Ok(())
    }

    fn run(&self, words: &[&str], recorded: bool) -> Result<Verdict> {
        let seconds = if recorded { RECORDED_SECONDS } else { NATIVE_SECONDS };
        let trace = self.dir.join("long.memtap");
        let work = self.dir.join("work");
        for dir in [&trace, &work] {
            remove(dir)?;
        }
        std::fs::create_dir_all(&work)?;
        let mut command = Command::new("timeout");
        // Of a process group of its own, all of which is killed.
        command.args(["--signal=KILL", &seconds.to_string()]);
        if recorded {
            // What is not recorded is told, and no difference.
            command.arg(&self.memtap).args(["record", "--quiet", "--allow-gaps", "--tracer=translate", "-o"]);
            command.arg(&trace).arg("--");
        }
        let output = command.args(words).current_dir(&work).stdin(Stdio::null()).output();
        let output = output.context("timeout can't be run")?;
        let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        remove(&trace)?;
        Ok(Verdict::parse(&String::from_utf8_lossy(&text), output.status.code()))
    }

    fn end(&self, what: &str) -> Result<()> {
        let (compared, left, different) = (self.compared, self.left.len(), self.different.len());
        println!("{what}: {compared} compared, {different} with another verdict when recorded");
        if left > 0 {
            println!(
                "  {left} not compared, as they take over {NATIVE_SECONDS} s or end otherwise each time: {}",
                self.left.join(" ")
            );
        }
        if different > 0 {
            bail!("{different} of {compared} come to another verdict: {}", self.different.join(" "));
        }
        Ok(())
    }
}

fn shown(verdict: &Verdict) -> String {
    verdict.status.map_or("none".to_owned(), |status| status.to_string())
}

/// Removes a file or a directory, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: can't be removed", path.display()))
        }
        _ => Ok(()),
    }
}

/// Each stressor of stress-ng that goes with any machine, for a few of its operations, which it verifies.
fn stressors() -> Result<()> {
    install::tools(STRESS_NG)?;
    let names = shell::output(&mut shell::command(&["stress-ng", "--stressors"]))?;
    let mut comparison = Comparison::new()?;
    for name in names.split_whitespace().filter(|name| !LEFT_OUT.contains(name)) {
        let (stressor, ops) = (format!("--{name}"), format!("--{name}-ops"));
        let words = ["stress-ng", "--quiet", "--verify", "--timeout", "10", &stressor, "1", &ops, "2"];
        comparison.check(name, &words)?;
    }
    comparison.end("stressors of stress-ng")
}

/// The modules of tests of Python's library.
fn python() -> Result<()> {
    if !shell::succeeds(&[PYTHON, "-c", "import test.test_struct"]) {
        let version = "import sys; print('%d.%d' % sys.version_info[:2])";
        let version = shell::output(&mut shell::command(&[PYTHON, "-c", version]))?;
        install::package(&format!("libpython{}-testsuite", version.trim()))?;
    }
    let names = shell::output(&mut shell::command(&[PYTHON, "-m", "test", "--list-tests"]))?;
    let mut comparison = Comparison::new()?;
    for name in names.split_whitespace() {
        comparison.check(name, &[PYTHON, "-m", "test", "-v", name])?;
    }
    comparison.end("modules of Python's tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_of_python_tell_is_found() {
        let text = "test_a ... ok\nFAIL: test_b (test.C.test_b)\nERROR: test_c\nRan 12 tests in 0.105s\n";
        let verdict = Verdict::parse(text, Some(2));
        let told: Vec<&str> = verdict.told.iter().map(String::as_str).collect();
        assert_eq!(told, ["12 tests", "ERROR: test_c", "FAIL: test_b (test.C.test_b)"]);
        let other = Verdict::parse("FAIL: test_b (test.C.test_b)\nRan 12 tests in 9s\n", Some(2));
        assert_eq!(verdict.differences(&other), ["ERROR: test_c"]);
    }

    #[test]
    fn an_unknown_part_is_refused() {
        assert!(run(&["stressors", "nothing"]).unwrap_err().to_string().contains("\"nothing\""));
    }
}

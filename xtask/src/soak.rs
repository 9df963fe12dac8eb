//! `cargo xtask soak`: runs the tests in rounds beside busy processes, as on a heavily loaded machine, and those
//! that trace programs also on one processor. A failure here depends on timing or chance, and is a defect to fix.
//!
//! A round proceeds by test binary. A file records what is done, and the
//! next call continues from there, so that hours can be split into pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::nextest::{self, Outcome, Test};
use crate::shell;

const USAGE: &str = "usage: cargo xtask soak [--load N] [--rounds N] [--again] [FILTER]
  --load N     beside so many busy processes [default: 8]
  --rounds N   all of it so often [default: 1]
  --again      from the beginning, not after what is done
  FILTER       the tests, as nextest names them, such as 'binary(attach) | test(redis)' [default: all]";

/// Tests of what runs inside other programs, or beside them, whose order one processor changes.
const UNDER_CAPTURE: [&str; 5] = ["e2e", "tracer", "probes", "probes-preload", "patch"];

struct Plan {
    load: usize,
    rounds: usize,
    again: bool,
    filter: String,
}

impl Plan {
    fn parse(mut args: &[&str]) -> Result<Self> {
        let mut plan = Self { load: 8, rounds: 1, again: false, filter: "all()".to_owned() };
        let number = |text: &str| text.parse().with_context(|| format!("{text} is no number\n{USAGE}"));
        loop {
            match args {
                [] => return Ok(plan),
                ["--load", value, rest @ ..] => (plan.load, args) = (number(value)?, rest),
                ["--rounds", value, rest @ ..] => (plan.rounds, args) = (number(value)?, rest),
                ["--again", rest @ ..] => (plan.again, args) = (true, rest),
                [filter] if !filter.starts_with('-') => (plan.filter, args) = ((*filter).to_owned(), &[]),
                _ => bail!("{USAGE}"),
            }
        }
    }
}

/// How the tests of a binary run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processors {
    All,
    One,
}

/// A part of a round: one line of the file of what is done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    round: usize,
    binary: String,
    processors: Processors,
}

impl Part {
    fn of_round(round: usize, binaries: &BTreeSet<String>) -> Vec<Self> {
        let part = |binary: &String, processors| Self { round, binary: binary.clone(), processors };
        let is_captured =
            |binary: &&String| UNDER_CAPTURE.iter().any(|package| binary.split("::").next() == Some(package));
        let all = binaries.iter().map(|binary| part(binary, Processors::All));
        all.chain(binaries.iter().filter(is_captured).map(|binary| part(binary, Processors::One))).collect()
    }

    fn line(&self, plan: &Plan) -> String {
        let Self { round, binary, processors } = self;
        format!("{round} {binary} {processors:?} processors, load {}, {}", plan.load, plan.filter)
    }
}

/// Runs tests in rounds.
///
/// # Errors
/// Where one failed, or the line can't be understood.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let plan = Plan::parse(args)?;
    let folder = shell::target_dir().join("soak");
    if plan.again && folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    shell::run(&["cargo", "build", "--bins", "--lib"])?;
    let mut done = Done::read(folder.join("done"))?;
    let binaries = nextest::binaries(&plan.filter)?;
    let _load = Load::start(plan.load)?;
    for round in 1..=plan.rounds {
        for part in Part::of_round(round, &binaries) {
            let line = part.line(&plan);
            if done.has(&line) {
                continue;
            }
            eprintln!("\n== round {line}");
            let filter = format!("binary_id(={}) & ({})", part.binary, plan.filter);
            let mut command: Vec<&str> = match part.processors {
                Processors::All => Vec::new(),
                Processors::One => vec!["taskset", "-c", "0"],
            };
            command.extend(["cargo", "nextest", "run", "--no-fail-fast", "--profile", "soak", "-E", &filter]);
            let Outcome { tests, .. } = nextest::run_command(&command, "soak")?;
            let failed: Vec<&Test> = tests.iter().filter(|test| test.failure.is_some()).collect();
            for test in &failed {
                let name = format!("{}-{}.txt", test.full_name().replace([':', ' ', '/'], "_"), part.round);
                fs::write(folder.join(name), format!("{line}\n{}", test.output))?;
            }
            done.add(&line, tests.len(), &failed)?;
        }
    }
    done.summary(&folder)
}

/// What is done: a line a part, with the tests that failed in it below.
struct Done {
    path: PathBuf,
    parts: BTreeSet<String>,
    tests: usize,
    /// What failed, and how often.
    failed: BTreeMap<String, usize>,
}

impl Done {
    fn read(path: PathBuf) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let mut this = Self { path, parts: BTreeSet::new(), tests: 0, failed: BTreeMap::new() };
        for line in text.lines() {
            this.note(line);
        }
        Ok(this)
    }

    fn note(&mut self, line: &str) {
        if let Some(failed) = line.strip_prefix("  failed ") {
            *self.failed.entry(failed.to_owned()).or_default() += 1;
        } else if let Some((part, tests)) = line.rsplit_once(": ") {
            self.parts.insert(part.to_owned());
            self.tests += tests.parse::<usize>().unwrap_or(0);
        }
    }

    fn has(&self, part: &str) -> bool {
        self.parts.contains(part)
    }

    fn add(&mut self, part: &str, tests: usize, failed: &[&Test]) -> Result<()> {
        let failures = failed.iter().map(|test| format!("  failed {}\n", test.full_name()));
        let text = format!("{part}: {tests}\n{}", failures.collect::<String>());
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        for line in text.lines() {
            self.note(line);
        }
        Ok(())
    }

    fn summary(&self, folder: &std::path::Path) -> Result<()> {
        for (test, times) in &self.failed {
            println!("FAILED  {test}, {times} times");
        }
        let count = self.failed.values().sum::<usize>();
        println!("soak: {} tests run in {} parts, {count} failures", self.tests, self.parts.len());
        if count > 0 {
            bail!("what each failure said stands in {}", folder.display());
        }
        Ok(())
    }
}

/// Busy processes. They end with this.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..count {
            // Each ends with this process, however that ends: its standard input is a pipe of which this process has the other end. Nothing
            // is ever written there, so a read that times out says that it is still open.
            let mut busy = Command::new("bash");
            let turn = "while :; do for ((i = 0; i < 100000; i++)); do :; done; read -r -t 0.001; [ $? -gt 128 ] || exit; done";
            let child = busy.args(["-c", turn]).stdin(Stdio::piped()).spawn();
            load.0.push(child.context("can't start bash")?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str) -> Test {
        Test {
            binary: "e2e::worlds".to_owned(),
            name: name.to_owned(),
            seconds: 1.0,
            failure: Some("why".to_owned()),
            output: String::new(),
        }
    }

    #[test]
    fn a_line_is_understood_or_refused_with_the_usage() {
        let plan = Plan::parse(&["--load", "3", "--again", "test(redis)"]).unwrap();
        assert_eq!((plan.load, plan.rounds, plan.again, plan.filter.as_str()), (3, 1, true, "test(redis)"));
        for wrong in [&["--load"][..], &["--load", "x"], &["--lod", "1"], &["a", "b"]] {
            let error = Plan::parse(wrong).err().expect("it is refused");
            assert!(format!("{error:#}").contains("usage: cargo xtask soak"), "{wrong:?}");
        }
    }

    #[test]
    fn what_traces_programs_runs_on_one_processor_too() {
        let binaries = ["e2e::worlds", "trace-format", "tracer"].map(str::to_owned).into();
        let parts = Part::of_round(2, &binaries);
        let on_one = parts.iter().filter(|part| part.processors == Processors::One);
        assert_eq!(on_one.map(|part| part.binary.as_str()).collect::<Vec<_>>(), ["e2e::worlds", "tracer"]);
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|part| part.round == 2));
    }

    #[test]
    fn what_is_done_is_known_to_the_next_call() {
        let folder = std::env::temp_dir().join(format!("memtap-soak-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("done");
        let plan = Plan::parse(&["test(a: b)"]).unwrap();
        let parts = Part::of_round(1, &["e2e::worlds".to_owned()].into());
        let lines: Vec<String> = parts.iter().map(|part| part.line(&plan)).collect();
        Done::read(path.clone()).unwrap().add(&lines[0], 5, &[&failed("a"), &failed("b")]).unwrap();
        let mut again = Done::read(path.clone()).unwrap();
        assert!(again.has(&lines[0]) && !again.has(&lines[1]));
        again.add(&lines[1], 5, &[&failed("a")]).unwrap();
        let third = Done::read(path).unwrap();
        assert_eq!((third.tests, third.parts.len(), third.failed["e2e::worlds a"]), (10, 2, 2));
        assert!(third.summary(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}

//! `cargo xtask differ`: programs generated from seeds (tests/differ) run natively and recorded, by both tracers. Where their
//! output differs, the fewest steps that show the difference are searched for, and printed with the command that reproduces it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell;

/// Steps of one seed.
const STEPS: u64 = 500;
/// A run that takes longer hangs.
const SECONDS: &str = "120";

/// What a run said in each step, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    steps: BTreeMap<u64, String>,
    status: Option<i32>,
}

impl Said {
    /// From standard output: a step says one line, and what it starts may say more.
    fn parse(text: &str, status: Option<i32>) -> Self {
        let mut steps: BTreeMap<u64, String> = BTreeMap::new();
        let mut now = None;
        for line in text.lines() {
            if let Some(step) = step_of(line) {
                now = Some(step);
            }
            if let Some(step) = now {
                let said = steps.entry(step).or_default();
                said.push_str(line);
                said.push('\n');
            }
        }
        Self { steps, status }
    }

    /// The first step in which another run said something else, or after which it ended otherwise.
    fn difference(&self, other: &Self, steps: &[u64]) -> Option<u64> {
        let differs = |step: &&u64| self.steps.get(step) != other.steps.get(step);
        let first = steps.iter().find(differs).copied();
        first.or_else(|| (self.status != other.status).then(|| steps.last().copied().unwrap_or_default()))
    }
}

/// The number that the line of a step begins with.
fn step_of(line: &str) -> Option<u64> {
    const KINDS: [&str; 5] = ["call:", "mappings:", "code:", "signals:", "processes:"];
    let (number, rest) = line.split_once(' ')?;
    KINDS.iter().any(|kind| rest.starts_with(kind)).then(|| number.parse().ok())?
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Natively,
    By(&'static str),
}

struct Differ {
    program: PathBuf,
    memtap: PathBuf,
    trace: PathBuf,
}

/// Seeds 1 to 20, or those that are asked for: `7`, `1-1000`.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (first, last) = match words {
        [] => (1, 20),
        [seeds] => {
            let (first, last) = seeds.split_once('-').unwrap_or((seeds, seeds));
            let number =
                |text: &str| text.parse::<u64>().context("differ takes a seed, or two with - between");
            (number(first)?, number(last)?)
        }
        _ => bail!("differ takes one seed, or two with - between"),
    };
    shell::run(&["cargo", "build", "--bins", "--lib"])?;
    let target = shell::target_dir();
    let differ = Differ {
        program: build(&target)?,
        memtap: shell::profile_dir("debug").join("memtap"),
        trace: target.join("differ.memtap"),
    };
    let mut found = 0;
    let mut taken = 0;
    for seed in first..=last {
        let (steps, differences) = differ.seed(seed)?;
        taken += steps;
        found += differences;
    }
    println!("{taken} steps, natively and by two tracers: {found} differences");
    if found > 0 {
        bail!("{found} differences between native and recorded runs");
    }
    Ok(())
}

/// Builds the program of the steps.
fn build(target: &Path) -> Result<PathBuf> {
    let program = target.join("differ");
    let path = program.to_str().context("the path of the target directory is not UTF-8")?;
    let sources = shell::repository().join("tests/differ");
    let mut command = shell::command(&[
        "gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-no-pie", "-o", path,
    ]);
    for name in ["main.c", "calls.c", "mappings.c", "code.c", "signals.c", "processes.c"] {
        command.arg(sources.join(name));
    }
    shell::run_command(&mut command)?;
    Ok(program)
}

impl Differ {
    /// Runs the steps of a seed; how many those are that say the same in two native runs, and how many differences there are.
    fn seed(&self, seed: u64) -> Result<(usize, usize)> {
        let all: Vec<u64> = (0..STEPS).collect();
        let (native, again) = (self.said(How::Natively, seed, &all)?, self.said(How::Natively, seed, &all)?);
        let steps: Vec<u64> =
            all.into_iter().filter(|step| native.steps.get(step) == again.steps.get(step)).collect();
        let mut found = 0;
        for tracer in ["translate", "protect"] {
            // What is behind a difference is compared, too.
            let mut rest = steps.as_slice();
            while !rest.is_empty() {
                let recorded = self.said(How::By(tracer), seed, rest)?;
                let native = self.said(How::Natively, seed, rest)?;
                let Some(step) = native.difference(&recorded, rest) else { break };
                found += 1;
                let at = rest.iter().position(|one| *one == step).unwrap_or(0);
                let needed = self.fewest(tracer, seed, rest.get(..=at).unwrap_or(rest))?;
                self.show(tracer, seed, &needed)?;
                rest = rest.get(at + 1..).unwrap_or_default();
            }
        }
        Ok((steps.len(), found))
    }

    /// As few of the steps as it takes for a difference: halves, quarters and so on are left out as long as one stays.
    fn fewest(&self, tracer: &'static str, seed: u64, steps: &[u64]) -> Result<Vec<u64>> {
        let mut steps = steps.to_vec();
        // Most need no step before.
        if let Some(last) = steps.last().copied()
            && self.differs(tracer, seed, &[last])?
        {
            return Ok(vec![last]);
        }
        let mut part = steps.len() / 2;
        while part > 0 {
            let mut at = 0;
            while at < steps.len() {
                let fewer: Vec<u64> = steps
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !(at..at + part).contains(index))
                    .map(|(_, step)| *step)
                    .collect();
                if !fewer.is_empty() && self.differs(tracer, seed, &fewer)? {
                    steps = fewer;
                } else {
                    at += part;
                }
            }
            part /= 2;
        }
        Ok(steps)
    }

    fn differs(&self, tracer: &'static str, seed: u64, steps: &[u64]) -> Result<bool> {
        let (native, recorded) =
            (self.said(How::Natively, seed, steps)?, self.said(How::By(tracer), seed, steps)?);
        Ok(native.difference(&recorded, steps).is_some())
    }

    /// What both runs say, and how to see it again.
    fn show(&self, tracer: &'static str, seed: u64, steps: &[u64]) -> Result<()> {
        let list = listed(steps);
        let (native, recorded) =
            (self.said(How::Natively, seed, steps)?, self.said(How::By(tracer), seed, steps)?);
        println!("memtap record --tracer {tracer} -- {} {seed} {list} verbose", self.program.display());
        for (name, said) in [("native", &native), ("recorded", &recorded)] {
            let last =
                steps.last().and_then(|step| said.steps.get(step)).map_or("nothing", |text| text.trim_end());
            println!("  {name:<8} status {:?}: {last}", said.status);
        }
        Ok(())
    }

    fn said(&self, how: How, seed: u64, steps: &[u64]) -> Result<Said> {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", SECONDS]);
        if let How::By(tracer) = how {
            command.arg(&self.memtap).args(["record", "--quiet", "--force", "--tracer", tracer, "-o"]);
            command.arg(&self.trace).arg("--");
        }
        command.arg(&self.program).args([seed.to_string(), listed(steps)]);
        let output =
            command.stdin(Stdio::null()).stderr(Stdio::null()).output().context("timeout can't be run")?;
        Ok(Said::parse(&String::from_utf8_lossy(&output.stdout), output.status.code()))
    }
}

/// Steps as the program takes them: `0-4,7`.
fn listed(steps: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *step => *last = *step,
            _ => runs.push((*step, *step)),
        }
    }
    let texts = runs
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_in_runs() {
        assert_eq!(listed(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(listed(&[]), "");
    }

    #[test]
    fn what_a_step_started_says_belongs_to_it() {
        let said = Said::parse("3 call: a\nof a child\n4 code: b\n", Some(0));
        assert_eq!(said.steps[&3], "3 call: a\nof a child\n");
        assert_eq!(said.steps[&4], "4 code: b\n");
    }

    #[test]
    fn differences_are_found() {
        let said = |text: &str, status| Said::parse(text, Some(status));
        let native = said("1 call: a\n2 code: !11/1@0 ip 7 0abc\n", 0);
        assert_eq!(native.difference(&native.clone(), &[1, 2]), None);
        assert_eq!(native.difference(&said("1 call: a\n2 code: !11/1@0 ip 9 0abc\n", 0), &[1, 2]), Some(2));
        assert_eq!(native.difference(&said("1 call: a\n2 code: !11/1@0 ip 7 0abd\n", 0), &[1, 2]), Some(2));
        assert_eq!(native.difference(&said("1 call: a\n", 139), &[1, 2]), Some(2));
        assert_eq!(native.difference(&Said { status: Some(1), ..native.clone() }, &[1, 2]), Some(2));
    }
}

//! Whole processes, natively and recorded, and what they cost: for the benchmarks that compare both.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use proc_files::TaskStat;

use crate::bench_record::number;
use crate::shell;
use crate::table::median;

/// Seconds that the kernel counts processor time in.
pub(crate) const TICK: f64 = 0.01;

/// How often a benchmark measures, by the rest of its command line, or by itself.
pub(crate) fn rounds(benchmark: &str, rest: &[&str], by_itself: usize) -> Result<usize> {
    match rest {
        [] => Ok(by_itself),
        ["--rounds", n] => n.parse().with_context(|| format!("{n:?} is no number of rounds")),
        _ => bail!("usage: cargo xtask bench {benchmark} [--rounds N]"),
    }
}

/// What one run took: seconds of the wall clock, of the program's and of the recorder's processor time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) wall: f64,
    pub(crate) program: f64,
    pub(crate) recorder: f64,
    pub(crate) accesses: f64,
    pub(crate) bytes: f64,
}

/// Where runs are recorded, and how often.
pub(crate) struct Runs {
    memtap: String,
    trace: String,
    rounds: usize,
}

impl Runs {
    /// Builds memtap. Traces go to that folder, each over the one before.
    pub(crate) fn prepare(dir: &Path, rounds: usize) -> Result<Self> {
        shell::run(&["cargo", "build", "--release", "-p", "memtap", "-p", "interpose"])?;
        std::fs::create_dir_all(dir)?;
        let name = |path: &Path| {
            path.to_str().map(str::to_owned).context("the target directory's path is not UTF-8")
        };
        Ok(Self {
            memtap: name(&shell::profile_dir("release").join("memtap"))?,
            trace: name(&dir.join("t.memtap"))?,
            rounds,
        })
    }

    /// The words that record a program.
    pub(crate) fn recording<'a>(&'a self, options: &[&'a str], line: &[&'a str]) -> Vec<&'a str> {
        let record = [&*self.memtap, "record", "--force", "--tracer", "translate", "-o", &self.trace];
        [&record, options, &["--"], line].concat()
    }

    /// What `stat --json` says of the last trace.
    pub(crate) fn stat(&self) -> Result<String> {
        shell::output(Command::new(&self.memtap).args(["stat", &self.trace, "--json"]))
    }

    /// Prints the table for people of the last trace, to nobody.
    pub(crate) fn report(&self) -> Result<()> {
        if !quiet(Command::new(&self.memtap).args(["report", &self.trace]))? {
            bail!("memtap report fails");
        }
        Ok(())
    }

    pub(crate) fn native(&self, line: &[&str]) -> Result<Run> {
        let before = children_seconds()?;
        let start = Instant::now();
        let status = quiet(&mut shell::command(line))?;
        if !status {
            bail!("{line:?} fails");
        }
        let wall = start.elapsed().as_secs_f64();
        Ok(Run { wall, program: children_seconds()? - before, ..Run::default() })
    }

    pub(crate) fn recorded(&self, options: &[&str], line: &[&str]) -> Result<Run> {
        let words = self.recording(options, line);
        let start = Instant::now();
        if !quiet(&mut shell::command(&words))? {
            bail!("{words:?} fails");
        }
        self.costs(start.elapsed().as_secs_f64())
    }

    /// What the last recording took, by what its trace says.
    pub(crate) fn costs(&self, wall: f64) -> Result<Run> {
        let stat = self.stat()?;
        Ok(Run {
            wall,
            program: number(&stat, "program_cpu_seconds")?,
            recorder: number(&stat, "recorder_cpu_seconds")?,
            accesses: number(&stat, "accesses")?,
            bytes: number(&stat, "file_bytes")?,
        })
    }

    pub(crate) fn medians(&self, mut run: impl FnMut() -> Result<Run>) -> Result<Run> {
        let runs = (0..self.rounds).map(|_| run()).collect::<Result<Vec<_>>>()?;
        let of = |what: fn(&Run) -> f64| median(runs.iter().map(what).collect());
        Ok(Run {
            wall: of(|run| run.wall),
            program: of(|run| run.program),
            recorder: of(|run| run.recorder),
            accesses: of(|run| run.accesses),
            bytes: of(|run| run.bytes),
        })
    }
}

/// Runs a command without its output; whether it succeeded.
fn quiet(command: &mut Command) -> Result<bool> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().with_context(|| format!("can't start {command:?}"))?.success())
}

/// Processor time of all children that have ended, by the kernel's ticks.
fn children_seconds() -> Result<f64> {
    let stat =
        TaskStat::parse(&std::fs::read("/proc/self/stat")?).context("/proc/self/stat is no line of it")?;
    Ok(stat.children_ticks as f64 * TICK)
}

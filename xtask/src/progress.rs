//! Progress messages of a long task: beforehand how long it takes and what it
//! needs, at each step where it is, and at the end how long each step took.
//!
//! How long a step takes depends on the machine, so each run of a task stores its times in the target
//! directory for the next one. The first run on a machine has only the times of other machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::shell;

/// What the first run of a task takes where nothing is built yet.
pub(crate) struct FirstRun {
    /// On two cores.
    pub(crate) minutes: u64,
    /// In the target directory.
    pub(crate) gigabytes: u64,
}

/// A task that is under way.
pub(crate) struct Progress {
    task: &'static str,
    steps: usize,
    begun: usize,
    start: Instant,
    /// Those of this run.
    took: BTreeMap<String, Duration>,
    /// Those of the last one; empty where there was none.
    before: BTreeMap<String, Duration>,
}

impl Progress {
    /// Says what is to come, and where the disk may be too small for it.
    ///
    /// # Errors
    /// Where the room on the disk can't be read.
    pub(crate) fn start(task: &'static str, steps: usize, first: &FirstRun) -> Result<Self> {
        let before = fs::read_to_string(times_file(task)).map(|text| parse(&text)).unwrap_or_default();
        let target = shell::target_dir();
        let sum: Duration = before.values().sum();
        if before.is_empty() {
            let free = free_gigabytes(&target)?;
            let FirstRun { minutes, gigabytes } = first;
            let place = target.display();
            eprintln!(
                "{task}: {steps} steps; a first run takes about {minutes} minutes on two cores, and {gigabytes} GB in {place} ({free} GB are free)"
            );
            // The need is what other machines had: not for us to refuse what may well fit.
            if free < *gigabytes {
                eprintln!("{task}: the disk may fill up; make room, or set CARGO_TARGET_DIR to another disk");
            }
        } else {
            eprintln!("{task}: {steps} steps; the last run here took {}", shown(sum));
        }
        Ok(Self { task, steps, begun: 0, start: Instant::now(), took: BTreeMap::new(), before })
    }

    /// Does a step; says which one, and how long the last run took for it.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.begun += 1;
        let mut line = format!("\n== {} of {}: {name}", self.begun, self.steps);
        if self.begun > 1 {
            let _ = write!(line, "; {} so far", shown(self.start.elapsed()));
        }
        if let Some(before) = self.before.get(name) {
            let _ = write!(line, "; this one took {} last time", shown(*before));
        }
        eprintln!("{line}");
        let start = Instant::now();
        let result = work();
        self.took.insert(name.to_owned(), start.elapsed());
        result
    }

    /// How long a step of this run took.
    pub(crate) fn took(&self, name: &str) -> Duration {
        self.took.get(name).copied().unwrap_or_default()
    }

    /// Keeps the times of a run that was whole.
    pub(crate) fn finish(self) -> Result<()> {
        let path = times_file(self.task);
        let mut text = String::new();
        for (name, time) in &self.took {
            let _ = writeln!(text, "{:.1} {name}", time.as_secs_f64());
        }
        eprintln!("{}: done in {}", self.task, shown(self.start.elapsed()));
        fs::create_dir_all(shell::target_dir())?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

fn times_file(task: &str) -> PathBuf {
    shell::target_dir().join(format!("xtask-{}.times", task.replace(' ', "-")))
}

/// Seconds and names, a line each.
fn parse(text: &str) -> BTreeMap<String, Duration> {
    let lines = text.lines().filter_map(|line| {
        let (seconds, name) = line.split_once(' ')?;
        let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        Some((name.to_owned(), time))
    });
    lines.collect()
}

/// A time as people say it.
pub(crate) fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

/// Room on the disk of a folder, or of the one in which it will be.
fn free_gigabytes(dir: &Path) -> Result<u64> {
    let there = dir.ancestors().find(|dir| dir.exists()).context("the root directory is always there")?;
    let there = there.to_str().context("the path of the target directory is not UTF-8")?;
    let text = shell::output(&mut shell::command(&["df", "--output=avail", "--block-size=GB", there]))?;
    let number = text.lines().nth(1).map(|line| line.trim().trim_end_matches("GB"));
    number.and_then(|number| number.parse().ok()).with_context(|| format!("df says {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_say_them() {
        let check = |seconds, expect: &str| assert_eq!(shown(Duration::from_secs(seconds)), expect);
        check(0, "0 s");
        check(99, "99 s");
        check(100, "2 min");
        check(3601, "60 min");
    }

    #[test]
    fn times_of_the_last_run() {
        let times = parse("12.5 build\n3.0 doc tests\nnothing\nx y\n-1 z\n");
        let expect = [("build", 12.5), ("doc tests", 3.0)]
            .map(|(name, seconds)| (name.to_owned(), Duration::from_secs_f64(seconds)));
        assert_eq!(times, BTreeMap::from(expect));
    }

    #[test]
    fn the_disk_of_a_folder_that_is_not_there_yet_is_that_of_the_one_above() {
        assert!(free_gigabytes(Path::new("/not/there/yet")).is_ok());
    }
}

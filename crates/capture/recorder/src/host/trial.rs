//! Trial recordings: the best test of whether programs can be recorded here.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memref::RegionKind;

use super::HostFinding;
use crate::{Error, RecordedRun, Recorder};

/// A program that every machine has, and that does little, but more than return.
const PROGRAM: &str = "sleep";
/// How long a running process is recorded.
const ATTACHED: Duration = Duration::from_millis(100);

/// What a user is told to do where a trial fails: the other findings say why.
const ADVICE: &str =
    "see what is said of kernel, seccomp and address space; if nothing is, please report this line";

pub(super) fn findings() -> Vec<HostFinding> {
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => {
            let found = format!("no room for a trace in {}: {error}", std::env::temp_dir().display());
            return vec![HostFinding::missing(
                "recording",
                found,
                "set TMPDIR to a directory that can be written",
            )];
        }
    };
    vec![translated(dir.path()), protected(dir.path()), attached(dir.path())]
}

fn translated(dir: &Path) -> HostFinding {
    let recorder = Recorder::of_program(PROGRAM).args(["0"]).output(dir.join("translated.memtap"));
    told("recording", seen(timed(&recorder)), HostFinding::missing)
}

fn protected(dir: &Path) -> HostFinding {
    let data = [RegionKind::Data, RegionKind::Bss, RegionKind::Heap];
    let recorder =
        Recorder::of_program(PROGRAM).args(["0"]).regions(data).output(dir.join("protected.memtap"));
    told("page protection", seen(timed(&recorder)), HostFinding::worse)
}

fn attached(dir: &Path) -> HostFinding {
    const NAME: &str = "attaching";
    let sleeper = Command::new(PROGRAM).arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut sleeper = match sleeper {
        Ok(sleeper) => sleeper,
        Err(error) => return HostFinding::worse(NAME, format!("{PROGRAM}: {error}"), "nothing was tried"),
    };
    let recorder = Recorder::of_process(sleeper.id()).time(ATTACHED).output(dir.join("attached.memtap"));
    let result = timed(&recorder);
    // It may have ended: what matters is that it is gone.
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    told(NAME, result.map_err(|error| chain(&error)), HostFinding::worse)
}

/// A recording, and how long it took.
struct Trial {
    run: RecordedRun,
    time: Duration,
}

fn timed(recorder: &Recorder) -> Result<Trial, Error> {
    let start = Instant::now();
    recorder.record().map(|run| Trial { run, time: start.elapsed() })
}

/// A recording from the program's start has accesses, or the tracer did not come along.
fn seen(trial: Result<Trial, Error>) -> Result<Trial, String> {
    match trial {
        Ok(trial) if trial.run.totals.accesses == 0 => {
            Err(format!("`{PROGRAM}` ran, and nothing was seen of it"))
        }
        Ok(trial) => Ok(trial),
        Err(error) => Err(chain(&error)),
    }
}

/// What a trial says; `or` where it failed.
fn told(
    name: &'static str,
    trial: Result<Trial, String>,
    or: fn(&'static str, String, String) -> HostFinding,
) -> HostFinding {
    match trial {
        Ok(Trial { run, time }) if run.totals.gaps == 0 && run.untraced.is_empty() => {
            let accesses = run.totals.accesses;
            HostFinding::fine(name, format!("{accesses} accesses in {} ms", time.as_millis()))
        }
        Ok(Trial { run, .. }) => {
            or(name, format!("{} events of `{PROGRAM}` are missing", run.totals.gaps), ADVICE.to_owned())
        }
        Err(why) => or(name, why, ADVICE.to_owned()),
    }
}

/// An error with its causes, in a line.
fn chain(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let text = next.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = next.source();
    }
    line
}

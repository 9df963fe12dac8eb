//! One run of `memtap record`.

use std::process::Command;

use crate::{Finished, TestProgram, Trace, memtap, run};

/// A recorded run and its trace.
#[derive(Debug)]
pub struct Recording {
    /// What the run did, as seen from outside.
    pub outcome: Finished,
    /// The file, which goes with this value.
    pub trace: Trace,
}

/// Records a command line with these options.
pub fn record(options: &[String], line: &[String], stdin: &[u8]) -> Recording {
    record_in(None, options, line, stdin)
}

/// The same with something added to the environment.
fn record_in(
    environment: Option<(&str, &str)>,
    options: &[String],
    line: &[String],
    stdin: &[u8],
) -> Recording {
    let trace = Trace::within(tempfile::tempdir().expect("a temporary directory"), "t.memtap");
    let mut command = Command::new(memtap());
    command.envs(environment);
    // What it says at the end is not the program's: tests compare standard error with a native run's.
    command.args(["record", "--quiet", "-o"]).arg(&trace.path).args(options).arg("--").args(line);
    let mut outcome = run(&mut command, stdin);
    if options.iter().any(|option| option.starts_with("--verify")) {
        outcome.stderr = without_result(&outcome.err()).into_bytes();
    }
    Recording { outcome, trace }
}

/// What the program wrote, without the line that says that stepping saw the same.
fn without_result(stderr: &str) -> String {
    let (before, last) = stderr.trim_end_matches('\n').rsplit_once('\n').unwrap_or(("", stderr.trim_end()));
    if !last.starts_with("memtap: ") || !last.ends_with(" are the same as when stepping") {
        return stderr.to_owned();
    }
    if before.is_empty() { String::new() } else { format!("{before}\n") }
}

impl TestProgram {
    /// Records the program as its head says, and asserts that it did the same as natively.
    pub fn record(&self) -> Recording {
        self.record_by("protect")
    }

    /// As [`TestProgram::record`], by that tracer.
    pub fn record_by(&self, tracer: &str) -> Recording {
        self.record_with(tracer, &[])
    }

    /// As [`TestProgram::record_by`], with more options.
    pub fn record_with(&self, tracer: &str, more: &[&str]) -> Recording {
        let mut options = vec![format!("--tracer={tracer}")];
        options.extend(more.iter().map(|option| option.to_string()));
        options.extend(self.header.record.iter().cloned());
        let recording =
            record_in(self.environment(), &options, &self.command_line(), self.header.stdin.as_bytes());
        if !self.is_as_natively(&recording.outcome) {
            // How it ended is in the trace, which goes with the test.
            let stat = recording.trace.ask("stat", &[]);
            eprintln!("memtap stat:\n{}{}", stat.out(), stat.err());
        }
        self.check(&recording.outcome);
        recording
    }
}

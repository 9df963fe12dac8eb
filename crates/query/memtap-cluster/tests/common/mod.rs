//! A cluster of real processes on this machine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use e2e::{Finished, Recording, memtap, run};
use serde_json::Value;

/// A process of the cluster, which ends with this value.
#[derive(Debug)]
pub(crate) struct Member {
    process: Child,
    /// Kept open: who writes to it must not fail.
    _said: BufReader<ChildStderr>,
    pub(crate) address: String,
}

impl Member {
    /// Starts one, and waits until it says where it listens.
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(memtap());
        command.arg("cluster").args(words).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().expect("memtap starts");
        let mut said = BufReader::new(process.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says something");
        let address = line.split_once(" at ").map(|(_, rest)| rest.trim().split(',').next().unwrap_or(rest));
        let address = address.unwrap_or_else(|| panic!("{words:?}: {line}")).to_owned();
        Self { process, _said: said, address }
    }

    #[allow(dead_code, reason = "not every test needs it")]
    /// Ends it as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A scheduler and its executors.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) scheduler: Member,
    #[allow(dead_code, reason = "they end with it, and not every test names them")]
    pub(crate) executors: Vec<Member>,
}

impl Cluster {
    pub(crate) fn of(executors: usize) -> Self {
        let scheduler = Member::start(&["scheduler", "--listen", "127.0.0.1:0"]);
        let of = ["executor", "--scheduler", &scheduler.address, "--cores", "1", "--memory", "512"];
        let executors = (0..executors).map(|_| Member::start(&of)).collect();
        Self { scheduler, executors }
    }

    /// Asks it.
    pub(crate) fn ask(&self, files: &[&Path], rest: &[&str]) -> Finished {
        run(&mut self.asking(files, rest), b"")
    }

    /// The command that asks it.
    pub(crate) fn asking(&self, files: &[&Path], rest: &[&str]) -> Command {
        let mut command = Command::new(memtap());
        command.args(["cluster", "query", "--scheduler", &self.scheduler.address, "--parts", "4"]);
        command.args(files).args(rest);
        command
    }

    #[allow(dead_code, reason = "not every test needs it")]
    /// The rows of a query about a recording. Nothing is noted beside them.
    pub(crate) fn rows(&self, recording: &Recording, query: &str) -> Vec<Value> {
        let outcome = self.ask(&[&recording.trace.path], &[query, "--format", "json"]);
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{query}");
        serde_json::from_slice(&outcome.stdout).expect("an array")
    }
}

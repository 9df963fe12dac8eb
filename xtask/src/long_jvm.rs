//! `cargo xtask long jvm`: a Java program with a pool of four threads, run again and again, under two collectors. It
//! generates and changes code beside data that other threads write, and stops its threads through pages that it closes. Past
//! errors in this area occurred in one run of many. Each run has to print what it prints natively, with nothing missing.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::install::{self, Tool};
use crate::shell;

const TOOLS: &[Tool] = &[("javac", "default-jdk-headless")];
const COLLECTORS: [&str; 2] = ["-XX:+UseSerialGC", "-XX:+UseG1GC"];
const RUNS: usize = 50;
/// Of each of its eight tasks: enough to be compiled by both compilers.
const TURNS: &str = "3000";

/// Runs it as often under each collector; fails where a run differed.
pub(crate) fn run() -> Result<()> {
    install::tools(TOOLS)?;
    shell::run(&["cargo", "build", "--bins", "--lib"])?;
    let dir = shell::target_dir().join("long");
    std::fs::create_dir_all(&dir).with_context(|| format!("{}: can't be made", dir.display()))?;
    let classes = dir.display().to_string();
    shell::run(&["javac", "-d", &classes, "tests/programs/Pool.java"])?;
    let mut different = 0;
    for collector in COLLECTORS {
        let line = ["java", collector, "-cp", &classes, "Pool", TURNS];
        let native = shell::output(&mut shell::command(&line))?;
        for number in 1..=RUNS {
            // The trace of a run that differs is kept.
            let trace = dir.join(format!("jvm-{different}.memtap"));
            let mut record = Command::new(shell::profile_dir("debug").join("memtap"));
            record.args(["record", "--quiet", "--force", "--tracer=translate", "-o"]).arg(&trace).arg("--");
            let output = record.args(line).stdin(Stdio::null()).output();
            let output = output.context("memtap can't be run")?;
            if !output.status.success() || output.stdout != native.as_bytes() {
                different += 1;
                let err = String::from_utf8_lossy(&output.stderr);
                println!("{collector}, run {number}: {}: {}\n{err}", output.status, trace.display());
            }
        }
    }
    let all = RUNS * COLLECTORS.len();
    println!("runs of a Java program with four threads: {all}, {different} not as natively");
    if different > 0 {
        bail!("{different} of {all} runs differ");
    }
    Ok(())
}

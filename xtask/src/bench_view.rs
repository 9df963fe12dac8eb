//! `cargo xtask bench view`: what people wait for in `memtap view`, in headless Chromium, as Markdown.

use std::fs;

use anyhow::Result;

use crate::bench_answers::Answers;
use crate::table::short;
use crate::{kernel, shell};

/// Accesses of the trace.
const LONG: &str = "1000000000";
/// Windows that are looked at.
const WINDOWS: &str = "40";

/// Runs it.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let bench = Answers::new("view", rest)?;
    let dense = kernel::build("dense")?;
    let trace = bench.path("long.memtap");
    shell::run(&[&*bench.memtap, "record", "--force", "-o", &trace, "--", &dense, "copy", LONG])?;
    bench.memtap(&["index", "--force", &trace])?;
    let accesses = bench.stat(&trace, "accesses")?;
    println!("### `memtap view` of {} million accesses\n\n| | |\n|---|---|", short(accesses / 1e6));
    let mut command = shell::command(&[
        "cargo",
        "run",
        "--quiet",
        "--release",
        "-p",
        "e2e",
        "--example",
        "bench-view",
        "--",
    ]);
    shell::run_command(command.args([&*trace, WINDOWS]).env("MEMTAP_BIN", &bench.memtap))?;
    fs::remove_file(&trace)?;
    let _ = fs::remove_file(format!("{trace}.mtx"));
    Ok(())
}

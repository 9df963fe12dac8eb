//! `cargo xtask stress probes`: patches code while other threads execute it, for as many toggles as requested.
//! `cargo xtask stress kills`: kills recorders and servers at random moments, and measures what was lost.

use anyhow::{Context, Result, bail};

use crate::shell;

/// Runs the stress programs of one part.
pub(crate) fn run(what: &str, rest: &[&str]) -> Result<()> {
    if what == "kills" {
        return kills(rest);
    }
    if what != "probes" {
        bail!("nothing to stress under the name {what:?}: probes, kills");
    }
    for name in ["patch", "probes"] {
        if shell::crate_dir(name)?.join("examples/stress.rs").exists() {
            let mut words = vec!["cargo", "run", "--release", "-p", name, "--example", "stress", "--"];
            words.extend(rest);
            shell::run(&words)?;
        }
    }
    Ok(())
}

/// Half of the kills are the recorder's, half the server's.
fn kills(rest: &[&str]) -> Result<()> {
    let count: u64 = match rest {
        [] => 200,
        [count] => count.parse().context("stress kills takes a number")?,
        _ => bail!("stress kills takes one number"),
    };
    shell::run(&["cargo", "build", "--bins", "--lib"])?;
    let each = format!("MEMTAP_KILLS={}", count.div_ceil(2));
    shell::run(&["env", &each, "cargo", "test", "-p", "e2e", "--test", "kills", "--", "--nocapture"])
}

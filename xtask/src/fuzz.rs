//! `cargo xtask fuzz`: runs every fuzz target for a while, or one of them for longer.

use anyhow::{Context, Result, bail};

use crate::shell;

/// Fuzzes one target, or each for a minute.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    if !shell::repository().join("fuzz/Cargo.toml").exists() {
        bail!("there is no fuzz/Cargo.toml: nothing to fuzz yet");
    }
    if !shell::succeeds(&["cargo", "+nightly", "fuzz", "--version"]) {
        bail!(
            "cargo-fuzz or nightly Rust is missing: rustup toolchain install nightly; cargo install cargo-fuzz"
        );
    }
    let all;
    let (targets, seconds): (Vec<&str>, &str) = match rest {
        [] => {
            all = shell::output(&mut shell::command(&["cargo", "+nightly", "fuzz", "list"]))?;
            (all.lines().collect(), "60")
        }
        [target] => (vec![target], "60"),
        [target, seconds] => (vec![target], seconds),
        _ => bail!("usage: cargo xtask fuzz [TARGET [SECONDS]]"),
    };
    let _: u32 = seconds.parse().with_context(|| format!("{seconds:?} is no number of seconds"))?;
    for target in targets {
        let time = format!("-max_total_time={seconds}");
        let mut line = vec!["cargo", "+nightly", "fuzz", "run", target, "--", &time];
        // What asks an index may take no more memory than its trace allows, which is a small one here.
        if target == "page_index" {
            line.push("-rss_limit_mb=512");
        }
        shell::run(&line)?;
    }
    Ok(())
}

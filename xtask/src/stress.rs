//! `cargo xtask stress probes`: code is patched while other threads execute it, for as long as asked.

use anyhow::{Result, bail};

use crate::shell;

/// Runs the stress programs of one part.
pub(crate) fn run(what: &str, rest: &[&str]) -> Result<()> {
    if what != "probes" {
        bail!("nothing to stress under the name {what:?}: probes");
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

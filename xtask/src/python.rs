//! The Python package in `python/`: built into an environment of its own under the target directory, and tested there.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{install, shell};

fn environment() -> PathBuf {
    shell::target_dir().join("python")
}

/// A command of the environment.
pub(crate) fn command(name: &str) -> Command {
    let mut command = shell::program(environment().join("bin").join(name));
    command.env("VIRTUAL_ENV", environment()).current_dir(shell::repository());
    command
}

/// Makes the environment, with what the tests need in it.
pub(crate) fn prepare() -> Result<()> {
    let dir = environment();
    let path = dir.to_str().context("the path of the target directory is not UTF-8")?;
    if !dir.join("bin/pip").exists() {
        let made = shell::run(&["python3", "-m", "venv", path]);
        // Debian's Python has this in a package of its own.
        made.or_else(|_| {
            install::tools(&[("python3-venv", "python3-venv")])?;
            shell::run(&["python3", "-m", "venv", "--clear", path])
        })?;
    }
    // Not by the `pip` beside it, a script that names the folder in which it was made: a target folder may have been moved.
    let words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
        "python/tests/requirements.txt",
    ];
    shell::run_command(command("python").args(words)).context("what the tests of the Python package need")
}

/// Builds the package into the environment.
pub(crate) fn build() -> Result<()> {
    develop(&[])
}

/// The same as it is released.
pub(crate) fn build_release() -> Result<()> {
    develop(&["--release"])
}

fn develop(options: &[&str]) -> Result<()> {
    let words = ["develop", "--quiet", "--manifest-path", "python/Cargo.toml"];
    shell::run_command(command("maturin").args(words).args(options))
}

/// Runs its tests, with the command that was built last.
pub(crate) fn test() -> Result<()> {
    let memtap = shell::profile_dir("debug").join("memtap");
    let words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "python/tests"];
    let path =
        format!("{}:{}", environment().join("bin").display(), std::env::var("PATH").unwrap_or_default());
    shell::run_command(command("python").args(words).env("MEMTAP", memtap).env("PATH", path))
}

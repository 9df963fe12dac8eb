//! Runs other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_path_buf()
}

/// The directory of a crate, in whichever wing it stands.
pub(crate) fn crate_dir(name: &str) -> Result<PathBuf> {
    let crates = repository().join("crates");
    for wing in std::fs::read_dir(&crates).with_context(|| format!("{}: can't be read", crates.display()))? {
        let dir = wing?.path().join(name);
        if dir.join("Cargo.toml").exists() {
            return Ok(dir);
        }
    }
    bail!("there is no crate {name} in {}", crates.display())
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The directory of that profile's binaries.
pub(crate) fn profile_dir(profile: &str) -> PathBuf {
    target_dir().join(profile)
}

/// Builds all that users get, as they get it.
pub(crate) fn build_release() -> Result<()> {
    let all = ["cargo", "build", "--release", "--workspace", "--bins", "--lib"];
    let others = [
        "corpus",
        "e2e",
        "xtask",
        "memtap-arrow",
        "memtap-sql",
        "memtap-cluster",
        "memtap-mcp",
        "memtap-python",
    ]
    .map(|name| ["--exclude", name]);
    // The libraries lie beside the programs, and need not be in them as well.
    run_command(command(&[&all[..], others.as_flattened()].concat()).env("MEMTAP_BUNDLE", "0"))
}

/// A command from words.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = program(words[0]);
    command.args(&words[1..]);
    command
}

/// A program that does not learn which package we are, as `cargo run` told us. Build scripts that watch these variables, such as
/// ring's, would run again in each clone, and everything that depends on them would be built again.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|of_us| name.to_string_lossy().starts_with(of_us)) {
            command.env_remove(name);
        }
    }
    command
}

/// Shows a command, runs it, and fails where it fails.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    run_command(&mut command(words))
}

/// The same with a command that has more than words.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("can't start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// What a command writes to standard output; its words go to our standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("can't start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command can be run and succeeds, quietly.
pub(crate) fn succeeds(words: &[&str]) -> bool {
    let status = command(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

//! memtap as one static file, which needs nothing of the system: for reading traces where no package fits, such as in an image of Alpine.
//!
//! It is linked with the C library of the machine that builds it, statically. It has no libraries to put into programs, so it does not record;
//! `memtap record` says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::build::{MEMTAP, without_paths};
use crate::shell;

/// Builds it with that profile, and leaves it there.
pub(super) fn make(profile: &str, to: &Path) -> Result<PathBuf> {
    let target = shell::target_dir().join("one-file");
    let mut command = shell::command(&["cargo", "build", "--locked", "--profile", profile, "-p", "memtap"]);
    // With a target named, build scripts and macros are not made static.
    command.args(["--target", TARGET, "--features", &MEMTAP.features.join(",")]);
    let flags = "-Ctarget-feature=+crt-static".to_owned();
    without_paths(&mut command, vec![flags])?;
    command.env("MEMTAP_BUNDLE", "0").env("CARGO_TARGET_DIR", &target);
    shell::run_command(&mut command)?;
    let built = target.join(TARGET).join(if profile == "dev" { "debug" } else { profile }).join("memtap");
    fs::copy(&built, to).with_context(|| format!("{}: was not built", built.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    let path = to.to_str().context("the path of the target directory is not UTF-8")?;
    shell::output(&mut shell::command(&["strip", path]))?;
    let asks = shell::output(&mut shell::command(&["readelf", "--program-headers", path]))?;
    if asks.contains("INTERP") {
        bail!("{path}: asks for a loader, so it is not static");
    }
    Ok(to.to_path_buf())
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// It reads a trace where there is nothing but itself and the trace.
pub(super) fn check(one_file: &Path, memtap: &Path) -> Result<()> {
    let root = shell::target_dir().join("packages/empty");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir_all(&root)?;
    let trace = root.join("run.memtap");
    let words = [memtap, &trace, &root].map(|path| path.to_str());
    let [Some(memtap), Some(trace), Some(folder)] = words else {
        bail!("the path of the target directory is not UTF-8")
    };
    shell::output(&mut shell::command(&[memtap, "record", "--quiet", "-o", trace, "--", "ls", folder]))?;
    let expected =
        shell::output(&mut shell::command(&[memtap, "report", trace, "--by", "variable", "--json"]))?;
    fs::copy(one_file, root.join("memtap"))?;
    let inside = ["unshare", "--map-root-user", "--root", folder, "/memtap"];
    let report = [&inside[..], &["report", "/run.memtap", "--by", "variable", "--json"]].concat();
    let found = shell::output(&mut shell::command(&report))?;
    // Names that come from files of this system are not there.
    for text in [&expected, &found] {
        if !text.contains("\"loads\"") {
            bail!("a report has no loads: {text}");
        }
    }
    shell::output(&mut shell::command(&[&inside[..], &["stat", "/run.memtap"]].concat()))?;
    fs::remove_dir_all(&root)?;
    println!("ok      the static memtap reads a trace in an empty root");
    Ok(())
}

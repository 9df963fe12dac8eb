//! What the tasks need from the system, as Debian packages.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A program, and the package that brings it.
type Tool = (&'static str, &'static str);

/// For the demonstration.
pub(crate) const DEMO: &[Tool] = &[("gcc", "gcc"), ("gzip", "gzip")];

/// For the tests.
pub(crate) const TEST: &[Tool] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("readelf", "binutils"),
    ("valgrind", "valgrind"),
    ("gzip", "gzip"),
    ("bzip2", "bzip2"),
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("perl", "perl"),
    ("pgrep", "procps"),
    ("pkg-config", "pkg-config"),
    ("zstd", "zstd"),
    ("chromium", "chromium"),
];

/// For `bench record`.
pub(crate) const BENCH: &[Tool] = &[
    ("gcc", "gcc"),
    ("valgrind", "valgrind"),
    ("gzip", "gzip"),
    ("sqlite3", "sqlite3"),
    ("sort", "coreutils"),
];

/// For `bench probes`.
pub(crate) const BENCH_PROBES: &[Tool] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("gzip", "gzip"),
    ("xz", "xz-utils"),
    ("sqlite3", "sqlite3"),
    ("perl", "perl"),
    ("sort", "coreutils"),
];

/// Headers that no program stands for.
const HEADERS: &[Tool] = &[("/usr/include/stdio.h", "libc6-dev")];

/// Installs what is missing.
pub(crate) fn tools(needed: &[Tool]) -> Result<()> {
    let absent = |tools: &[Tool], there: &dyn Fn(&str) -> bool| -> Vec<&'static str> {
        tools.iter().filter(|(what, _)| !there(what)).map(|&(_, package)| package).collect()
    };
    let mut packages = absent(needed, &|tool| {
        ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"]
            .iter()
            .any(|dir| Path::new(dir).join(tool).exists())
    });
    packages.extend(absent(HEADERS, &|path| Path::new(path).exists()));
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !shell::succeeds(&["apt-get", "--version"]) {
        bail!("missing: {list}; this system has no apt-get, install them in its own way");
    }
    let root = shell::output(&mut shell::command(&["id", "-u"]))?.trim() == "0";
    let sudo: &[&str] = match root {
        true => &[],
        false if shell::succeeds(&["sudo", "-n", "true"]) => &["sudo", "-n"],
        false => bail!("missing: {list}; run: sudo apt-get install -y {list}"),
    };
    eprintln!("installing {list}");
    let apt = |words: &[&str]| {
        let all = [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], words].concat();
        shell::run(&all)
    };
    apt(&["update", "-q"])?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(&packages);
    apt(&install).with_context(|| format!("can't install {list}"))
}

/// The parts of the Rust toolchain that the tests call.
pub(crate) fn rust_components() -> Result<()> {
    for (command, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !shell::succeeds(&["cargo", command, "--version"]) {
            shell::run(&["rustup", "component", "add", component])
                .with_context(|| format!("cargo {command} is missing"))?;
        }
    }
    Ok(())
}

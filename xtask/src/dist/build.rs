//! Builds the contents of packages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::old_glibc;
use crate::shell;

/// Programs.
pub(super) const PROGRAMS: [&str; 1] = ["memtap"];
/// Libraries that memtap itself looks for, beside its program or in `../lib/memtap`.
pub(super) const OWN_LIBRARIES: [&str; 3] =
    ["libmemtap_tracer.so", "libmemtap_probes.so", "libmemtap_qemu.so"];
/// Libraries that other programs link or preload.
pub(super) const LIBRARIES: [&str; 3] = ["libmemtap.so", "libmemtap_rtheap.so", "libmemtap_rtmalloc.so"];
/// The crates that these come from.
pub(super) const CRATES: [&str; 7] = [
    "memtap",
    "interpose",
    "probes-preload",
    "tracer-qemu",
    "trace-server-capi",
    "rtvm-capi",
    "rtvm-preload",
];

/// What is left out of a plain build.
pub(super) const FEATURES: &str = "memtap/object-stores";

/// Builds them with that profile, and says where they are.
pub(super) fn run(profile: &str) -> Result<PathBuf> {
    let mut command =
        shell::command(&["cargo", "build", "--locked", "--profile", profile, "--bins", "--lib"]);
    for name in CRATES {
        command.args(["-p", name]);
    }
    if profile == "dist" {
        command.args(["--features", FEATURES]);
        // No path of this machine in what others get, and the same bytes wherever it is built.
        let places = [(shell::repository(), "/memtap"), (cargo_home()?, "/cargo")];
        let text = |path: &Path| -> Result<String> {
            path.to_str().map(str::to_owned).context("a path of the build is not UTF-8")
        };
        let mut rust = Vec::new();
        let mut c = Vec::new();
        for (from, to) in places {
            let from = text(&from)?;
            rust.push(format!("--remap-path-prefix={from}={to}"));
            c.push(format!("-ffile-prefix-map={from}={to}"));
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
        let compiler = old_glibc::make(&shell::target_dir().join("packages/old-glibc"))?;
        command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", compiler);
        command.env("MEMTAP_LINK_DL", "1");
    }
    // They are packed as files.
    command.env("MEMTAP_BUNDLE", "0");
    shell::run_command(&mut command)?;
    Ok(shell::profile_dir(if profile == "dev" { "debug" } else { profile }))
}

/// Where cargo keeps the sources of dependencies.
pub(super) fn cargo_home() -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}

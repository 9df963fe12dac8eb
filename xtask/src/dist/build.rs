//! Builds the contents of packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::old_glibc;
use crate::shell;

/// What is built and packed together.
pub(super) struct Part {
    /// Programs.
    pub(super) programs: &'static [&'static str],
    /// Libraries that memtap itself looks for, beside its program or in `../lib/memtap`.
    pub(super) own_libraries: &'static [&'static str],
    /// Libraries that other programs link or preload.
    pub(super) libraries: &'static [&'static str],
    /// The crates that these come from.
    pub(super) crates: &'static [&'static str],
    /// What is left out of a plain build.
    pub(super) features: &'static [&'static str],
}

/// What most people need.
pub(super) const MEMTAP: Part = Part {
    programs: &["memtap", "memtap-mcp"],
    own_libraries: &["libmemtap_tracer.so", "libmemtap_probes.so", "libmemtap_qemu.so"],
    libraries: &["libmemtap.so", "libmemtap_rtheap.so", "libmemtap_rtmalloc.so"],
    crates: &[
        "memtap",
        "memtap-mcp",
        "interpose",
        "probes-preload",
        "tracer-qemu",
        "trace-server-capi",
        "rtvm-capi",
        "rtvm-preload",
    ],
    features: &["memtap/object-stores"],
};

/// SQL, which is as large as all else.
pub(super) const QUERY: Part = Part {
    programs: &["memtap-sql", "memtap-cluster"],
    own_libraries: &[],
    libraries: &[],
    crates: &["memtap-sql", "memtap-cluster"],
    features: &[],
};

/// All of them.
pub(super) const PARTS: [&Part; 2] = [&MEMTAP, &QUERY];

impl Part {
    /// The files that are made.
    pub(super) fn files(&self) -> impl Iterator<Item = &'static str> {
        self.programs.iter().chain(self.own_libraries).chain(self.libraries).copied()
    }

    /// Which crates, for cargo.
    pub(super) fn select(&self, command: &mut Command) {
        for name in self.crates {
            command.args(["-p", name]);
        }
        if !self.features.is_empty() {
            command.args(["--features", &self.features.join(",")]);
        }
    }
}

/// Builds them with that profile, and says where they are. Each part by itself: one must not have what only the other asks of a crate.
pub(super) fn run(profile: &str) -> Result<PathBuf> {
    for part in PARTS {
        build(part, profile)?;
    }
    Ok(shell::profile_dir(if profile == "dev" { "debug" } else { profile }))
}

fn build(part: &Part, profile: &str) -> Result<()> {
    let mut command = shell::command(&["cargo", "build", "--locked", "--profile", profile, "--bins"]);
    command.args((!part.own_libraries.is_empty()).then_some("--lib"));
    part.select(&mut command);
    if profile == "dist" {
        without_paths(&mut command, Vec::new())?;
        let compiler = old_glibc::make(&shell::target_dir().join("packages/old-glibc"))?;
        command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", compiler);
        command.env("MEMTAP_LINK_DL", "1");
    }
    // They are packed as files.
    command.env("MEMTAP_BUNDLE", "0");
    shell::run_command(&mut command)
}

/// Has no path of this machine in what others get, and so the same bytes wherever it is built. `rust` are other flags.
pub(super) fn without_paths(command: &mut Command, mut rust: Vec<String>) -> Result<()> {
    let places = [(shell::repository(), "/memtap"), (cargo_home()?, "/cargo")];
    let mut c = Vec::new();
    for (from, to) in places {
        let from = from.to_str().context("a path of the build is not UTF-8")?;
        rust.push(format!("--remap-path-prefix={from}={to}"));
        c.push(format!("-ffile-prefix-map={from}={to}"));
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
    Ok(())
}

/// Where cargo keeps the sources of dependencies.
pub(super) fn cargo_home() -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}

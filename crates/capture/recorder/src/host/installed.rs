//! What is installed: memtap's own libraries, the C library's names, QEMU.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use symbols::{Module, SearchPath};

use super::HostFinding;
use crate::{library, machine};

/// The command that installs a package, by its names in Debian and in Fedora; empty where the distribution is another one.
fn install(debian: &str, fedora: &str) -> String {
    let has = |program: &str| Path::new("/usr/bin").join(program).exists();
    match (has("apt-get"), has("dnf")) {
        (true, _) => format!("sudo apt-get install {debian}"),
        (_, true) => format!("sudo dnf {fedora}"),
        _ => String::new(),
    }
}

/// The libraries that go into traced programs.
pub(super) fn libraries() -> Vec<HostFinding> {
    let tracer = match library::find() {
        Ok(path) => HostFinding::fine("tracer", path.display().to_string()),
        Err(error) => HostFinding::missing(
            "tracer",
            error.to_string(),
            "install memtap as a whole, or set MEMTAP_LIB_DIR",
        ),
    };
    let probes = match library::find_library("libmemtap_probes.so") {
        Ok(path) => HostFinding::fine("probes", path.display().to_string()),
        Err(error) => HostFinding::worse(
            "probes",
            error.to_string(),
            "memtap probe needs it: install memtap as a whole",
        ),
    };
    vec![tracer, probes]
}

/// Whether the C library's functions and variables have names and lines.
pub(super) fn debug_information() -> HostFinding {
    const NAME: &str = "debug symbols";
    const ADVICE: &str = "names inside the C library: install its debug package (Debian: libc6-dbg)";
    let Some(path) = c_library() else {
        return HostFinding::worse(NAME, "memtap itself uses no C library that is a file", ADVICE);
    };
    let shown = path.display();
    match Module::open(&path, None, &SearchPath::default()) {
        Ok(module) if module.has_debug_info() => {
            HostFinding::fine(NAME, format!("{shown} has debug information"))
        }
        Ok(_) => {
            HostFinding::worse(NAME, format!("{shown} has none: its static variables have no names"), ADVICE)
                .with_fix(install("libc6-dbg", "debuginfo-install glibc"))
        }
        Err(error) => HostFinding::worse(NAME, format!("{shown}: {error}"), ADVICE),
    }
}

/// The C library that this process has mapped.
fn c_library() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    let is_it = |path: &&str| {
        Path::new(path).file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"))
    };
    paths.into_iter().find(is_it).map(PathBuf::from)
}

/// QEMU, for whole machines.
pub(super) fn machine_emulator() -> HostFinding {
    const NAME: &str = "whole machines";
    let plugin = library::find_library(machine::LIBRARY);
    let version = Command::new("qemu-system-x86_64").arg("--version").stdin(Stdio::null()).output();
    let first = version
        .ok()
        .and_then(|output| String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned));
    match (first, plugin) {
        (Some(version), Ok(_)) => HostFinding::fine(NAME, version),
        (Some(version), Err(error)) => {
            HostFinding::worse(NAME, format!("{version}, but {error}"), "install memtap as a whole")
        }
        (None, _) => HostFinding::worse(
            NAME,
            "no qemu-system-x86_64",
            "record --tracer qemu needs it (Debian: qemu-system-x86)",
        )
        .with_fix(install("qemu-system-x86", "install qemu-system-x86")),
    }
}

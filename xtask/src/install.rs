//! What the tasks require from the system, as Debian packages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

/// A program, and the package that brings it.
pub(crate) type Tool = (&'static str, &'static str);

/// For the demonstration.
pub(crate) const DEMO: &[Tool] = &[("gcc", "gcc"), ("gzip", "gzip")];

/// For the tests.
pub(crate) const TEST: &[Tool] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("readelf", "binutils"),
    ("valgrind", "valgrind"),
    ("gdb", "gdb"),
    ("strace", "strace"),
    ("gzip", "gzip"),
    ("bzip2", "bzip2"),
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("perl", "perl"),
    ("stress-ng", "stress-ng"),
    ("pgrep", "procps"),
    ("pkg-config", "pkg-config"),
    ("zstd", "zstd"),
    ("chromium", "chromium"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("nginx", "nginx-light"),
    ("redis-server", "redis-server"),
    ("jq", "jq"),
    ("rg", "ripgrep"),
    ("lua5.4", "lua5.4"),
    ("git", "git"),
    ("redis-cli", "redis-tools"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("psql", "postgresql"),
    ("bwrap", "bubblewrap"),
];

/// For the tests of the query wing: Spark runs on it.
pub(crate) const TEST_QUERY: &[Tool] = &[("java", "default-jre-headless")];

/// For `bench record` and `bench translate`.
pub(crate) const BENCH: &[Tool] = &[
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("valgrind", "valgrind"),
    ("gzip", "gzip"),
    ("sqlite3", "sqlite3"),
    ("sort", "coreutils"),
    ("bzip2", "bzip2"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("x264", "x264"),
    ("python3", "python3-minimal"),
    ("perl", "perl-base"),
    ("cjpeg", "libjpeg-turbo-progs"),
];

/// For `bench load`.
pub(crate) const BENCH_LOAD: &[Tool] = &[
    ("gcc", "gcc"),
    ("python3", "python3-minimal"),
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("nginx", "nginx-light"),
    ("ab", "apache2-utils"),
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

/// For `dist`.
pub(crate) const DIST: &[Tool] = &[
    ("gcc", "gcc"),
    ("objdump", "binutils"),
    ("dpkg-deb", "dpkg"),
    ("rpmbuild", "rpm"),
    ("xz", "xz-utils"),
    ("pkg-config", "pkg-config"),
    ("mmdebstrap", "mmdebstrap"),
];

/// Headers that no program stands for.
const HEADERS: &[Tool] = &[("/usr/include/stdio.h", "libc6-dev")];

/// What makes a command the administrator's; nothing where that can't be had.
fn sudo() -> Result<Option<&'static [&'static str]>> {
    let root = shell::output(&mut shell::command(&["id", "-u"]))?.trim() == "0";
    Ok(match root {
        true => Some(&[]),
        false if shell::succeeds(&["sudo", "-n", "true"]) => Some(&["sudo", "-n"]),
        false => None,
    })
}

fn apt(words: &[&str]) -> Result<()> {
    let Some(sudo) = sudo()? else { bail!("run: sudo apt-get {}", words.join(" ")) };
    shell::run(&[sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], words].concat())
}

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
    debian_packages(&packages)
}

/// Installs a package that has no program of its own.
pub(crate) fn package(name: &str) -> Result<()> {
    debian_packages(&[name])
}

fn debian_packages(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !shell::succeeds(&["apt-get", "--version"]) {
        bail!("missing: {list}; this system has no apt-get, install them in its own way");
    }
    if sudo()?.is_none() {
        bail!("missing: {list}; run: sudo apt-get install -y {list}");
    }
    eprintln!("installing {list}");
    apt(&["update", "-q"])?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(packages);
    apt(&install).with_context(|| format!("can't install {list}"))
}

/// For `bench machine`.
pub(crate) const BENCH_MACHINE: &[Tool] = &[("gcc", "gcc"), ("qemu-system-x86_64", "qemu-system-x86")];

/// The kernel of guests: a package that depends on the present version's.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Fetches what the guests are made of, of which they need the files alone and no installation: Debian's kernel, a module of it that needs
/// no others, and a busybox that needs no libraries, whatever this system has under that name. Returns the path of the kernel; the others
/// lie beside it.
pub(crate) fn guest_parts() -> Result<PathBuf> {
    let dir = shell::target_dir().join("guest");
    let (kernel, busybox) = (dir.join("vmlinuz"), dir.join("busybox"));
    let (parts, module) = (dir.join("parts"), dir.join("module.ko"));
    if !kernel.exists() || !module.exists() {
        let package = match kernel_package()? {
            Some(package) => package,
            None => {
                apt(&["update", "-q"])?;
                kernel_package()?.with_context(|| format!("{KERNEL}: apt knows no such package"))?
            }
        };
        unpack(&package, &parts)?;
        std::fs::copy(find(&parts.join("boot"), "vmlinuz")?, &kernel)?;
        let modules = find(&parts.join("lib/modules"), "")?.join("kernel/drivers/net");
        std::fs::copy(find(&modules, "dummy.ko")?, &module)?;
    }
    if !busybox.exists() {
        unpack("busybox-static", &parts)?;
        let merged = parts.join("usr/bin/busybox");
        std::fs::copy(if merged.exists() { merged } else { parts.join("bin/busybox") }, &busybox)?;
    }
    if parts.exists() {
        std::fs::remove_dir_all(&parts)?;
    }
    Ok(kernel)
}

fn kernel_package() -> Result<Option<String>> {
    let depends = shell::output(&mut shell::command(&["apt-cache", "depends", KERNEL]))?;
    let names = depends.split_whitespace().filter(|word| word.starts_with("linux-image-"));
    Ok(names.filter(|name| *name != KERNEL).map(str::to_owned).next())
}

/// Downloads a package and unpacks its files into a new folder.
fn unpack(package: &str, into: &Path) -> Result<()> {
    if into.exists() {
        std::fs::remove_dir_all(into)?;
    }
    std::fs::create_dir_all(into)?;
    let download =
        || shell::run_command(shell::command(&["apt-get", "download", "-q", package]).current_dir(into));
    if download().is_err() {
        // The list of packages is older than the archive.
        apt(&["update", "-q"])?;
        download()?;
    }
    let archive = find(into, package)?;
    let to = into.to_str().context("the path of the target directory is not UTF-8")?;
    shell::run(&["dpkg-deb", "-x", archive.to_str().context("a name of a package")?, to])
}

/// The file in a folder whose name starts so.
fn find(dir: &Path, start: &str) -> Result<PathBuf> {
    let mut names = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    names
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
        .with_context(|| format!("{}: has no {start}*", dir.display()))
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

//! A small Linux machine: Debian's kernel, busybox and a workload, booted by QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{repository, run, tool};

/// What the first program finds in `/bin`.
const APPLETS: &[&str] = &["sh", "mount", "echo", "seq", "sort", "md5sum", "grep", "sleep", "poweroff"];
/// Without what takes most of a boot and is of no use here: tests of ciphers, measuring the processor.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 cryptomgr.notests lpj=10000000";

/// The kernel, which `cargo xtask test` fetches.
pub fn guest_kernel() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let path = target.join("guest/vmlinuz");
    assert!(path.exists(), "{} does not exist: run `cargo xtask install`", path.display());
    path
}

/// The workload, built.
fn workload(dir: &Path) -> PathBuf {
    let path = dir.join("workload");
    let source = repository().join("tests/guest/workload.c");
    let include = format!("-I{}", repository().join("include").display());
    let built =
        run(Command::new("gcc").args(["-O1", "-g", "-static", &include, "-o"]).arg(&path).arg(source), b"");
    assert_eq!(built.status, 0, "{}", built.err());
    path
}

/// An entry of a cpio archive ("newc").
fn add(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    let fields = [0, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    archive.extend(b"070701");
    fields.iter().for_each(|field| archive.extend(format!("{field:08x}").bytes()));
    archive.extend(name.bytes().chain([0]));
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// The files of the guest, in `dir`.
pub fn guest_files(dir: &Path) -> PathBuf {
    const DIRECTORY: u32 = 0o040_755;
    const PROGRAM: u32 = 0o100_755;
    const LINK: u32 = 0o120_777;
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut archive = Vec::new();
    for name in ["bin", "proc", "dev"] {
        add(&mut archive, name, DIRECTORY, &[]);
    }
    add(&mut archive, "init", PROGRAM, &read(&repository().join("tests/guest/init.sh")));
    add(&mut archive, "bin/busybox", PROGRAM, &read(&tool("busybox")));
    add(&mut archive, "bin/workload", PROGRAM, &read(&workload(dir)));
    for applet in APPLETS {
        add(&mut archive, &format!("bin/{applet}"), LINK, b"busybox");
    }
    add(&mut archive, "TRAILER!!!", 0, &[]);
    let path = dir.join("initramfs");
    std::fs::write(&path, archive).expect("the directory is ours");
    path
}

/// QEMU and its arguments for the guest; `more` goes to the kernel.
pub fn guest_command(dir: &Path, more: &str) -> Vec<String> {
    let mut line: Vec<String> = [
        "qemu-system-x86_64",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
        "-m",
        "128",
        "-serial",
        "stdio",
    ]
    .map(str::to_owned)
    .into();
    let (kernel, files) = (guest_kernel(), guest_files(dir));
    line.extend([
        "-kernel".into(),
        kernel.display().to_string(),
        "-initrd".into(),
        files.display().to_string(),
    ]);
    line.extend(["-append".into(), format!("{KERNEL_ARGUMENTS} {more}")]);
    line
}

//! A small Linux machine: Debian's kernel, busybox and a workload, booted by
//! QEMU. `tests/guest/make.sh` builds it, also for the benchmarks of xtask.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{repository, run, tool};

/// Spare a boot what takes most of it and is of no use here: tests of ciphers, measuring the processor.
const KERNEL_ARGUMENTS: [&str; 2] = ["cryptomgr.notests", "lpj=10000000"];

/// The kernel, which `cargo xtask test` fetches with the rest that a guest is made of.
fn kernel() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    for part in ["busybox", "module.ko", "vmlinuz"].map(|name| target.join("guest").join(name)) {
        assert!(part.exists(), "{} does not exist: run `cargo xtask install`", part.display());
    }
    target.join("guest/vmlinuz")
}

/// Makes the guest in `dir`, with its workload at `dir/workload`. Returns QEMU and its arguments; `more` are further
/// arguments of the kernel.
pub fn guest_command(dir: &Path, more: &[&str]) -> Vec<String> {
    let mut command = Command::new(tool("sh"));
    command.arg(repository().join("tests/guest/make.sh")).arg(dir).arg(kernel());
    let made = run(command.args(KERNEL_ARGUMENTS).args(more), b"");
    assert_eq!(made.status, 0, "{}", made.err());
    made.out().lines().map(str::to_owned).collect()
}

//! A file system that is too small for a trace.

use std::path::Path;
use std::process::Command;

use crate::{Finished, run, tool};

/// Accesses whose addresses don't compress.
pub const FILLING: &str = "
unsigned cells[1 << 16];
int main(void)
{
    unsigned x = 1;
    for (int i = 0; i < 20000000; i++) {
        x = x * 1664525 + 1013904223;
        __asm__ volatile(\"movl %1, %0\" : \"=m\"(cells[x >> 16]) : \"r\"(x));
    }
    return 0;
}
";

/// Runs a script where the folder is a file system of 8 MiB, more than a frame takes, in a mount namespace of its own. Where no mount is
/// allowed no script has status 0, `true` neither.
pub fn on_small_disk(folder: &Path, script: &str) -> Finished {
    let script = format!("mount -t tmpfs -o size=8m none {} && {script}", folder.display());
    let words = ["--map-root-user", "--mount", "bash", "-c", &script];
    run(Command::new(tool("unshare")).args(words), b"")
}

//! Packs a folder as a tar archive, with the same bytes wherever and whenever it is packed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Release;
use crate::shell;

/// Packs a folder under its own name; returns the archive's path.
pub(super) fn pack(folder: &Path, release: &Release, to: &Path) -> Result<PathBuf> {
    let parent =
        folder.parent().and_then(Path::to_str).context("the path of the target directory is not UTF-8")?;
    let name = folder.file_name().and_then(|name| name.to_str()).context("a folder has a name")?;
    let path = to.to_str().context("the path of the target directory is not UTF-8")?;
    let mut tar =
        shell::command(&["tar", "--create", "--file", path, "--xz", "--format=ustar", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner", "--mode=u+rw,go=u-w", "--directory", parent]);
    tar.arg(format!("--mtime=@{}", release.time)).arg(name);
    // One thread: how xz divides its input depends on their number.
    shell::output(tar.env("XZ_OPT", "-6 -T1").env("TZ", "UTC"))?;
    Ok(to.to_path_buf())
}

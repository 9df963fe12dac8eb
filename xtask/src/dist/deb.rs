//! The Debian package. It is written by `dpkg-deb`, the tool that builds
//! Debian's own packages, which is available wherever they are of use.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::LIBRARIES;
use super::strip::Stripped;
use super::symbols::Symbols;
use super::{Release, glibc, set_times};
use crate::shell;

/// Packs an installation; returns the package's path.
pub(super) fn pack(root: &Path, stripped: &Stripped, release: &Release, to: &Path) -> Result<PathBuf> {
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let text = format!(
        "\
Package: memtap
Version: {version}
Architecture: amd64
Maintainer: memtap <memtap@users.noreply.github.com>
Installed-Size: {kibibytes}
Depends: libc6 (>= {glibc}), libgcc-s1 | libgcc1
Suggests: qemu-system-x86 (>= 1:7.2)
Section: devel
Priority: optional
Homepage: https://github.com/memtap/memtap
Description: shows what a program does to its memory
 memtap records every load, store and allocation of a program, names them by
 variable, and keeps them in a compact file that can be asked again: what is
 accessed most and by whom, races, errors of the heap, caches, layouts of types.
 Nothing is recompiled.
",
        version = release.version,
        kibibytes = kibibytes(root)?,
        glibc = glibc::needed(&stripped.files)?,
    );
    fs::write(control.join("control"), text)?;
    let mut symbols = String::new();
    for name in LIBRARIES {
        symbols.push_str(Symbols::of(name)?.for_debian());
    }
    fs::write(control.join("symbols"), symbols)?;
    // The cache of the loader has the libraries, and has them no more once they are removed.
    fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    let words = [root, to].map(|path| path.to_str());
    let [Some(root), Some(path)] = words else {
        anyhow::bail!("the path of the target directory is not UTF-8")
    };
    // Owners are root's, and times no later than the commit's: dpkg-deb sorts the names.
    set_times(Path::new(root), release)?;
    let mut build = shell::command(&["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path]);
    shell::output(build.env("SOURCE_DATE_EPOCH", &release.time)).context("dpkg-deb can't pack")?;
    Ok(to.to_path_buf())
}

/// Room that the files need: each in whole units, as dpkg counts.
fn kibibytes(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        sum += match entry.file_type()?.is_dir() {
            true => 1 + kibibytes(&entry.path())?,
            false => entry.metadata()?.len().div_ceil(1024),
        };
    }
    Ok(sum)
}

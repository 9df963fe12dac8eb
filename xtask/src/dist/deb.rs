//! The Debian packages. They are written by `dpkg-deb`, the tool that builds
//! Debian's own packages, which is available wherever they are of use.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build::{MEMTAP, QUERY};
use super::glibc::Glibc;
use super::strip::Stripped;
use super::symbols::Symbols;
use super::{Release, glibc, set_times};
use crate::shell;

/// What `memtap` says of itself.
const MEMTAP_SAYS: &str = "\
Depends: libc6 (>= @glibc@), libgcc-s1 | libgcc1
Suggests: qemu-system-x86 (>= 1:7.2), memtap-query
Section: devel
Priority: optional
Homepage: https://github.com/memtap/memtap
Description: shows what a program does to its memory
 memtap records every load, store and allocation of a program, names them by
 variable, and keeps them in a compact file that can be asked again: what is
 accessed most and by whom, races, errors of the heap, caches, layouts of types.
 Nothing is recompiled.
";

/// What `memtap-query` says of itself.
const QUERY_SAYS: &str = "\
Depends: memtap (= @version@), libc6 (>= @glibc@), libgcc-s1 | libgcc1
Section: devel
Priority: optional
Homepage: https://github.com/memtap/memtap
Description: queries in SQL on what memtap recorded
 memtap sql, catalogue and cluster: the tables of one trace or of many, on one
 machine or on many, and in Parquet files for other engines.
";

/// Packs an installation of memtap; returns the package's path.
pub(super) fn pack(root: &Path, stripped: &Stripped, release: &Release, to: &Path) -> Result<PathBuf> {
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let mut symbols = String::new();
    for name in MEMTAP.libraries {
        symbols.push_str(Symbols::of(name)?.for_debian());
    }
    fs::write(control.join("symbols"), symbols)?;
    // The cache of the loader has the libraries, and has them no more once they are removed.
    fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
    let glibc = glibc::needed(&MEMTAP, &stripped.files)?;
    build("memtap", MEMTAP_SAYS, glibc, root, release, to)
}

/// Packs the programs of SQL; returns the package's path.
pub(super) fn pack_query(root: &Path, stripped: &Stripped, release: &Release, to: &Path) -> Result<PathBuf> {
    fs::create_dir_all(root.join("DEBIAN"))?;
    build("memtap-query", QUERY_SAYS, glibc::needed(&QUERY, &stripped.files)?, root, release, to)
}

fn build(name: &str, says: &str, glibc: Glibc, root: &Path, release: &Release, to: &Path) -> Result<PathBuf> {
    let control = root.join("DEBIAN/control");
    let text = format!(
        "Package: {name}\nVersion: {}\nArchitecture: amd64\n\
         Maintainer: memtap <memtap@users.noreply.github.com>\nInstalled-Size: {}\n{}",
        release.version,
        kibibytes(root)?,
        says.replace("@version@", &release.version).replace("@glibc@", &glibc.to_string()),
    );
    fs::write(control, text)?;
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
